//! The queue: bounded, fair, outside the wall time.

use super::*;
use crate::request::RunState;

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once() {
    let world = world_with(|s| (s.max_concurrent, s.max_queued) = (1, 2)).await;
    for _ in 0..3 {
        world.start("me", "hang").await;
    }
    let refused = world.engine.run_command(&user("you"), shell("echo", options())).await;
    assert_eq!(refused.unwrap_err().code(), "exhausted");
    let health = world.engine.health().await;
    assert_eq!((health.running, health.queued), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_is_not_wall_time() {
    let world = world_with(|s| s.max_concurrent = 1).await;
    world.start("me", "sleep 20000").await;
    let second = world.start("me", "sleep 20000; echo done").await;
    assert_eq!(second.state, RunState::Queued);
    tokio::time::sleep(Duration::from_secs(41)).await;
    let view = world.look("me", &second.run).await;
    check(&view, Verdict::Ok, "done\n");
    assert_eq!(view.usage.wall().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn one_owner_does_not_starve_another() {
    let world = world_with(|s| (s.max_concurrent, s.max_sandboxes_per_owner) = (1, 20)).await;
    for _ in 0..6 {
        world.start("greedy", "sleep 1000").await;
    }
    let modest = world.start("modest", "sleep 1000").await;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(world.look("modest", &modest.run).await.verdict(), Some(Verdict::Ok));
    assert_eq!(world.engine.health().await.queued, 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_leaves_the_queue_and_its_planned_sandbox() {
    let world = world_with(|s| s.max_concurrent = 1).await;
    let first = world.start("me", "hang").await;
    let second = world.start("me", "echo never").await;
    world.engine.cancel(&user("me"), &second.run).await.unwrap();
    settle().await;
    check(&world.look("me", &second.run).await, Verdict::Cancelled, "");
    assert_eq!(world.engine.health().await.queued, 0);
    assert_eq!(world.backend.created(), 1);
    assert_eq!(world.engine.sandboxes(&user("me")).await.unwrap().len(), 1);
    assert_eq!(world.look("me", &first.run).await.state, RunState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_while_its_sandbox_is_made_leaves_nothing() {
    let world = world().await;
    world.backend.create_takes(Duration::from_secs(5));
    let options = RunOptions { ephemeral: true, wait: Wait::Background, ..options() };
    let run = world.engine.run_command(&user("me"), shell("hang", options)).await.unwrap().run;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.look("me", &run).await.state, RunState::Starting);
    world.engine.cancel(&user("me"), &run).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    // The second one was made to look at the tools.
    assert_eq!((world.backend.created(), world.backend.live()), (2, 0));
    assert_eq!(world.workspace_dirs(), Vec::<String>::new());
}
