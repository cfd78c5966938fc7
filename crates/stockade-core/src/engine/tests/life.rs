//! Sandboxes: names, owners, expiry, failures, the end of the server.

use super::*;
use crate::caller::Caller;
use crate::engine::FileWrite;
use crate::limits::LimitsRequest;
use crate::request::{CreateSandbox, FilePlace, RunState, SandboxView, WriteMode};

async fn create(world: &World, name: Option<&str>) -> SandboxView {
    let request = CreateSandbox { name: name.map(ToOwned::to_owned), ..CreateSandbox::default() };
    world.engine.create_sandbox(&user("me"), request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_name_is_one_sandbox_even_at_the_same_moment() {
    let world = world().await;
    world.backend.create_takes(Duration::from_secs(1));
    let all = futures::future::join_all((0..5).map(|_| create(&world, Some("box")))).await;
    assert!(all.iter().all(|view| view.sandbox == all[0].sandbox));
    assert_eq!(world.backend.created(), 1);
    let view = world.run_in("box", "echo in").await;
    assert_eq!(view.sandbox.as_deref(), Some(all[0].sandbox.as_str()));
    assert_eq!(world.engine.sandbox(&user("me"), "box").await.unwrap().active_runs, 0);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_others_does_not_exist() {
    let world = world().await;
    let view = create(&world, Some("box")).await;
    let run = world.start("me", "hang").await.run;
    for wanted in [view.sandbox.as_str(), "box"] {
        let other = user("you");
        let seen = world.engine.sandbox(&other, wanted).await;
        assert_eq!(seen.unwrap_err().code(), "not_found");
        let stopped = world.engine.stop_sandbox(&other, wanted).await;
        assert_eq!(stopped.unwrap_err().code(), "not_found");
        let sandbox = Some(wanted.to_owned());
        let used = RunOptions { sandbox, ..options() };
        let used = world.engine.run_command(&other, shell("echo", used)).await;
        assert_eq!(used.unwrap_err().code(), "not_found");
    }
    assert_eq!(world.engine.run(&user("you"), &run).await.unwrap_err().code(), "not_found");
    assert_eq!(world.engine.cancel(&user("you"), &run).await.unwrap_err().code(), "not_found");
    assert!(world.engine.sandboxes(&user("you")).await.unwrap().is_empty());
    assert!(world.engine.sandbox(&Caller::local(), &view.sandbox).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_without_activity_goes_and_takes_its_private_files() {
    let world = world().await;
    let view = create(&world, None).await;
    tokio::time::sleep(Duration::from_secs(590)).await;
    world.run_in(&view.sandbox, "echo still here").await;
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(world.backend.live(), 1);
    tokio::time::sleep(Duration::from_secs(15)).await;
    settle().await;
    assert_eq!(world.backend.live(), 0);
    assert_eq!(world.workspace_dirs(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nothing_expires_under_a_run() {
    let world = world_with(|s| s.sandbox_idle = Duration::from_secs(5)).await;
    let view = world.start("me", "sleep 25000; echo done").await;
    tokio::time::sleep(Duration::from_secs(26)).await;
    check(&world.look("me", &view.run).await, Verdict::Ok, "done\n");
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(world.backend.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_life_ends_however_busy_it_is() {
    let world = world_with(|s| s.sandbox_life = Duration::from_secs(100)).await;
    let view = create(&world, None).await;
    for _ in 0..4 {
        world.run_in(&view.sandbox, "sleep 24000").await;
    }
    let run = world.start("me", "echo").await;
    drop(run);
    let options = RunOptions { sandbox: Some(view.sandbox.clone()), ..options() };
    let long = RunOptions { wait: Wait::Background, ..options.clone() };
    world.engine.run_command(&user("me"), shell("sleep 20000", long)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let late = world.engine.run_command(&user("me"), shell("echo", options)).await;
    assert_eq!(late.unwrap_err().code(), "conflict");
    tokio::time::sleep(Duration::from_secs(15)).await;
    let gone = world.engine.sandbox(&user("me"), &view.sandbox).await;
    assert_eq!(gone.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn stopping_cancels_what_runs_and_leaves_nothing() {
    let world = world().await;
    let view = create(&world, Some("box")).await;
    let background =
        RunOptions { sandbox: Some("box".to_owned()), wait: Wait::Background, ..options() };
    let run = world.engine.run_command(&user("me"), shell("hang", background)).await.unwrap().run;
    settle().await;
    world.engine.stop_sandbox(&user("me"), &view.sandbox).await.unwrap();
    check(&world.look("me", &run).await, Verdict::Cancelled, "");
    assert_eq!((world.backend.live(), world.workspace_dirs().len()), (0, 0));
    let again = create(&world, Some("box")).await;
    assert_ne!(again.sandbox, view.sandbox);
}

#[tokio::test(start_paused = true)]
async fn by_products_make_room_but_named_ones_do_not() {
    let world = world().await;
    let first = world.run("echo").await.sandbox.unwrap();
    for _ in 0..10 {
        settle().await;
        world.run("echo").await;
    }
    assert_eq!(world.engine.sandboxes(&user("me")).await.unwrap().len(), 6);
    let evicted = world.engine.sandbox(&user("me"), &first).await;
    assert_eq!(evicted.unwrap_err().code(), "not_found");
    for number in 0..6 {
        create(&world, Some(&format!("box-{number}"))).await;
    }
    let request = shell("echo", options());
    let refused = world.engine.run_command(&user("me"), request.clone()).await;
    assert_eq!(refused.unwrap_err().code(), "exhausted");
    assert!(world.engine.run_command(&user("you"), request).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_is_an_error_for_the_caller() {
    let world = world().await;
    world.backend.fail_next(2);
    let request = CreateSandbox { name: Some("box".to_owned()), ..CreateSandbox::default() };
    let failed = world.engine.create_sandbox(&user("me"), request.clone()).await;
    assert_eq!(failed.unwrap_err().code(), "internal");
    let failed = world.engine.run_command(&user("me"), shell("echo", options())).await;
    assert_eq!(failed.unwrap_err().code(), "internal");
    settle().await;
    assert_eq!(world.workspace_dirs(), Vec::<String>::new());
    assert!(world.engine.create_sandbox(&user("me"), request).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_sandbox_are_the_defaults_of_its_runs() {
    let world = world().await;
    let limits = LimitsRequest { timeout_s: Some(5.0), ..LimitsRequest::default() };
    let request = CreateSandbox { name: Some("box".into()), limits, ..CreateSandbox::default() };
    world.engine.create_sandbox(&user("me"), request).await.unwrap();
    let started = tokio::time::Instant::now();
    check(&world.run_in("box", "hang").await, Verdict::Timeout, "");
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_cancels_and_leaves_nothing() {
    let world = world().await;
    let short = world.start("me", "sleep 3000; echo done").await.run;
    let long = world.start("me", "hang").await.run;
    for owner in ["a", "b", "c", "d"] {
        world.start(owner, "sleep 1000").await;
    }
    world
        .engine
        .run_command(
            &user("me"),
            shell("write keep x", RunOptions { workspace: Some("named".to_owned()), ..options() }),
        )
        .await
        .unwrap();
    let (engine, _) = futures::join!(
        async {
            world.engine.shutdown(Duration::from_secs(5)).await;
            &world.engine
        },
        async {
            settle().await;
            let late = world.engine.run_command(&user("me"), shell("echo", options())).await;
            assert_eq!(late.unwrap_err().code(), "conflict");
        }
    );
    assert_eq!(engine.run(&user("me"), &short).await.unwrap().verdict(), Some(Verdict::Ok));
    assert_eq!(engine.run(&user("me"), &long).await.unwrap().verdict(), Some(Verdict::Cancelled));
    assert_eq!((world.backend.live(), world.workspace_dirs().len()), (0, 1));
    let records = crate::store::Store::runs(&*world.store, None, 100).unwrap();
    assert_eq!(records.len(), 7);
    assert!(records.iter().all(|record| record.outcome.is_some()));
}

#[tokio::test(start_paused = true)]
async fn ended_runs_are_kept_for_a_while() {
    let world = world().await;
    let run = world.run("echo").await.run;
    tokio::time::sleep(Duration::from_secs(890)).await;
    assert_eq!(world.look("me", &run).await.state, RunState::Ended);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(world.engine.run(&user("me"), &run).await.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn shutdown_gives_grace_to_what_runs_and_none_to_what_waits() {
    let world = world_with(|s| s.max_concurrent = 1).await;
    let running = world.start("me", "sleep 3000; echo done").await.run;
    let waiting = world.start("me", "echo never").await.run;
    settle().await;
    world.engine.shutdown(Duration::from_secs(10)).await;
    check(&world.look("me", &running).await, Verdict::Ok, "done\n");
    check(&world.look("me", &waiting).await, Verdict::Cancelled, "");
    assert_eq!((world.backend.live(), world.workspace_dirs().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn files_of_a_sandbox_are_reached_by_its_handle() {
    let world = world().await;
    let view = create(&world, Some("box")).await;
    let place = FilePlace { sandbox: Some("box".to_owned()), workspace: None };
    let content = FileWrite { content: b"hi".to_vec(), mode: WriteMode::Create, old: None };
    world.engine.write_file(&user("me"), &place, "dir/in.txt", content).await.unwrap();
    check(&world.run_in(&view.sandbox, "show dir/in.txt").await, Verdict::Ok, "hi");
    let request = RunOptions {
        sandbox: Some(view.sandbox),
        workdir: Some("/workspace/dir".to_owned()),
        ..options()
    };
    let view = world.engine.run_command(&user("me"), shell("pwd; show in.txt", request)).await;
    check(&view.unwrap(), Verdict::Ok, "/workspace/dir\nhi");
    let theirs = world.engine.read_file(&user("you"), &place, "dir/in.txt", (0, 9)).await;
    assert_eq!(theirs.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn many_owners_with_more_runs_than_sandboxes_all_get_their_turn() {
    let world = world_with(|s| {
        (s.max_queued, s.max_sandboxes_per_owner, s.max_concurrent) = (1000, 2, 8);
    })
    .await;
    let one = async |number: usize| {
        let owner = user(&format!("owner-{}", number % 3));
        let text = format!("sleep 100; echo {number}");
        world.engine.run_command(&owner, shell(&text, options())).await.unwrap()
    };
    let views = futures::future::join_all((0..60).map(one)).await;
    for (number, view) in views.iter().enumerate() {
        check(view, Verdict::Ok, &format!("{number}\n"));
    }
    settle().await;
    assert_eq!(world.backend.live(), 3 * 2);
}
