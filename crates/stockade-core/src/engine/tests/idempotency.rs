//! One key, one run.

use super::*;

fn keyed(key: &str) -> RunOptions {
    RunOptions { idempotency_key: Some(key.to_owned()), ..options() }
}

#[tokio::test(start_paused = true)]
async fn the_same_request_with_the_same_key_is_the_same_run() {
    let world = world().await;
    let request = || shell("append log x; sleep 1000", keyed("k"));
    let (me, engine) = (user("me"), &world.engine);
    let all = futures::future::join_all((0..20).map(|_| engine.run_command(&me, request()))).await;
    let views: Vec<RunView> = all.into_iter().map(Result::unwrap).collect();
    assert!(views.iter().all(|view| view.run == views[0].run));
    assert_eq!(views.iter().filter(|view| !view.replayed).count(), 1);
    let later = world.engine.run_command(&me, request()).await.unwrap();
    assert!(later.replayed && later.run == views[0].run);
    assert_eq!(world.backend.created(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_request_with_the_key_is_a_conflict() {
    let world = world().await;
    world.engine.run_command(&user("me"), shell("echo a", keyed("k"))).await.unwrap();
    for options in [keyed("k"), RunOptions { workdir: Some(String::new()), ..keyed("k") }] {
        let other = world.engine.run_command(&user("me"), shell("echo b", options)).await;
        assert_eq!(other.unwrap_err().code(), "conflict");
    }
    let code = world.engine.run_code(&user("me"), code("python", "echo a", keyed("k"))).await;
    assert_eq!(code.unwrap_err().code(), "conflict");
}

#[tokio::test(start_paused = true)]
async fn how_long_the_caller_waits_does_not_matter() {
    let world = world().await;
    let first = RunOptions { wait: Wait::Background, ..keyed("k") };
    let first = world.engine.run_command(&user("me"), shell("echo a", first)).await.unwrap();
    let second = world.engine.run_command(&user("me"), shell("echo a", keyed("k"))).await.unwrap();
    assert_eq!((second.run == first.run, second.replayed), (true, true));
    check(&second, Verdict::Ok, "a\n");
}

#[tokio::test(start_paused = true)]
async fn keys_are_per_owner_and_end_with_their_run() {
    let world = world().await;
    let mine = world.engine.run_command(&user("me"), shell("echo a", keyed("k"))).await.unwrap();
    let yours = world.engine.run_command(&user("you"), shell("echo b", keyed("k"))).await.unwrap();
    assert!(mine.run != yours.run && !yours.replayed);
    tokio::time::sleep(Duration::from_secs(910)).await;
    let again = world.engine.run_command(&user("me"), shell("echo c", keyed("k"))).await.unwrap();
    assert!(!again.replayed);
}
