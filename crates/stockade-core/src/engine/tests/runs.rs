//! Runs: verdicts, output, input, waiting, live streams, surroundings.

use tokio::time::Instant;

use super::*;
use crate::backend::Stream;
use crate::engine::{RunEvent, RunWatch};
use crate::limits::LimitsRequest;
use crate::request::{Change, ContinueRun, RunState, StdinRequest};

#[tokio::test(start_paused = true)]
async fn every_end_has_its_verdict() {
    let world = world().await;
    for (text, verdict, stdout) in [
        ("echo hello", Verdict::Ok, "hello\n"),
        ("echo a; exit 3", Verdict::Nonzero, "a\n"),
        ("die-signal 11", Verdict::Signal, ""),
        ("die-signal 24", Verdict::CpuLimit, ""),
        ("die-signal 25", Verdict::DiskLimit, ""),
        ("hang", Verdict::Timeout, ""),
        ("busy", Verdict::Timeout, ""),
        ("balloon 1000", Verdict::MemoryLimit, ""),
        ("fork 1000", Verdict::PidsLimit, ""),
        ("echo x; lose", Verdict::Lost, "x\n"),
        ("no-such-thing", Verdict::Nonzero, ""),
    ] {
        check(&world.run(text).await, verdict, stdout);
    }
    let argv = CommandLine::Argv(vec!["missing".to_owned()]);
    let request = RunCommand { command: argv, options: options() };
    let refused = world.engine.run_command(&user("me"), request).await.unwrap();
    check(&refused, Verdict::Refused, "");
    assert!(!refused.hints.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wedged_program_never_hangs_us_and_costs_the_sandbox() {
    let world = world().await;
    let started = Instant::now();
    let view = world.run("echo before; wedge").await;
    check(&view, Verdict::Timeout, "before\n");
    assert_eq!(started.elapsed().as_secs(), 30 + 2 + 2);
    settle().await;
    let gone = world.engine.sandbox(&user("me"), &view.sandbox.unwrap()).await;
    assert_eq!(gone.unwrap_err().code(), "not_found");
    assert_eq!(world.backend.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_so_and_a_wedged_one_too() {
    let world = world().await;
    for text in ["hang", "wedge"] {
        let run = world.start("me", text).await.run;
        settle().await;
        world.engine.cancel(&user("me"), &run).await.unwrap();
        check(&world.look("me", &run).await, Verdict::Cancelled, "");
        world.engine.cancel(&user("me"), &run).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_sandbox_ends_its_runs_as_lost() {
    let world = world().await;
    let view = world.start("me", "echo x; hang").await;
    settle().await;
    world.backend.let_die(view.sandbox.as_deref().unwrap());
    settle().await;
    check(&world.look("me", &view.run).await, Verdict::Lost, "x\n");
    assert!(world.engine.sandboxes(&user("me")).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_sandbox_whose_process_stays_silent_is_noticed_too() {
    let world = world().await;
    let view = world.start("me", "wedge").await;
    settle().await;
    world.backend.let_die(view.sandbox.as_deref().unwrap());
    settle().await;
    check(&world.look("me", &view.run).await, Verdict::Lost, "");
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_early_when_the_run_takes_long() {
    let world = world().await;
    let request = shell("echo first; sleep 27000; echo second", RunOptions::default());
    let early = world.engine.run_command(&user("me"), request).await.unwrap();
    assert_eq!((early.state, early.verdict()), (RunState::Running, None));
    assert_eq!((early.stdout.text.as_str(), early.usage.wall().as_secs()), ("first\n", 25));
    let next = ContinueRun {
        run: early.run,
        stdout_offset: Some(early.stdout.next_offset),
        ..ContinueRun::default()
    };
    let started = Instant::now();
    let late = world.engine.continue_run(&user("me"), next).await.unwrap();
    assert_eq!(late.stdout.text, "second\n");
    assert_eq!(started.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn continue_without_offsets_waits_for_the_end() {
    let world = world().await;
    let run = world.start("me", "echo a; sleep 1000; echo b; sleep 1000; echo c").await.run;
    let next = ContinueRun { run, ..ContinueRun::default() };
    let view = world.engine.continue_run(&user("me"), next).await.unwrap();
    check(&view, Verdict::Ok, "a\nb\nc\n");
}

#[tokio::test(start_paused = true)]
async fn input_is_given_at_the_start_or_fed() {
    let world = world().await;
    let given = RunOptions { stdin: Some(StdinRequest::Text("hello\n".into())), ..options() };
    let view = world.engine.run_command(&user("me"), shell("cat", given)).await.unwrap();
    check(&view, Verdict::Ok, "hello\n");

    let wait = Wait::Background;
    let open = RunOptions { stdin: Some(StdinRequest::Open), wait, ..options() };
    let run = world.engine.run_command(&user("me"), shell("cat", open)).await.unwrap().run;
    for (input, close_stdin) in [("one ", false), ("two", true)] {
        let input = Some(input.to_owned());
        let wait = if close_stdin { Wait::Forever } else { Wait::Background };
        let next = ContinueRun { run: run.clone(), input, close_stdin, wait, ..Default::default() };
        world.engine.continue_run(&user("me"), next).await.unwrap();
    }
    check(&world.look("me", &run).await, Verdict::Ok, "one two");
    let late = world.engine.feed(&user("me"), &run, "x".into()).await;
    assert_eq!(late.unwrap_err().code(), "conflict");
}

#[tokio::test(start_paused = true)]
async fn input_to_a_run_without_is_refused() {
    let world = world().await;
    let run = world.start("me", "hang").await.run;
    let fed = world.engine.feed(&user("me"), &run, "x".into()).await;
    assert_eq!(fed.unwrap_err().code(), "conflict");
}

#[tokio::test(start_paused = true)]
async fn signals_are_delivered_and_kill_ends_the_tree() {
    let world = world().await;
    for (signal, verdict) in [("TERM", Verdict::Signal), ("KILL", Verdict::Cancelled)] {
        let run = world.start("me", "hang").await.run;
        let signal = Some(signal.to_owned());
        let next = ContinueRun { run, signal, wait: Wait::Forever, ..ContinueRun::default() };
        let view = world.engine.continue_run(&user("me"), next).await.unwrap();
        check(&view, verdict, "");
    }
}

#[tokio::test(start_paused = true)]
async fn much_output_is_cut_in_the_middle_and_counted() {
    let world = world().await;
    let view = world.run("yes 5000000; gap 1000; echo end").await;
    assert_eq!(view.stdout.total_bytes, 5_001_004);
    assert!(view.stdout.text.starts_with("012345678\n") && view.stdout.text.ends_with("end\n"));
    let kept = u64::try_from(view.stdout.text.len()).unwrap();
    assert_eq!(kept + view.stdout.cut_bytes, 5_001_004);
    assert!(kept <= 1 << 20);
    assert_eq!(view.usage.stdout_bytes, 5_001_004);
}

async fn drain(watch: &mut RunWatch) -> (Vec<u8>, u64, Option<Verdict>) {
    let (mut bytes, mut jumps, mut next) = (Vec::new(), 0, 0);
    while let Some(event) = watch.events.recv().await {
        match event {
            RunEvent::Output { stream: Stream::Stdout, offset, bytes: piece } => {
                jumps += u64::from(offset != next);
                next = offset + u64::try_from(piece.len()).unwrap();
                bytes.extend_from_slice(&piece);
            }
            RunEvent::Output { .. } => {}
            RunEvent::Ended(outcome) => return (bytes, jumps, Some(outcome.verdict)),
        }
    }
    (bytes, jumps, None)
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_what_was_kept_then_what_comes_then_the_end() {
    let world = world().await;
    let run = world.start("me", "echo a; sleep 1000; echo b; sleep 1000; echo c").await.run;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(world.engine.watch(&user("me"), &run).await.unwrap());
    }
    for mut watch in watches {
        assert_eq!(drain(&mut watch).await, (b"a\nb\nc\n".to_vec(), 0, Some(Verdict::Ok)));
        assert!(watch.events.recv().await.is_none());
    }
    let mut late = world.engine.watch(&user("me"), &run).await.unwrap();
    assert_eq!(drain(&mut late).await.2, Some(Verdict::Ok));
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_does_not_block_the_run() {
    let world = world().await;
    let run = world.start("me", "yes 20000000").await.run;
    let mut slow = world.engine.watch(&user("me"), &run).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), async {
        while world.look("me", &run).await.verdict().is_none() {
            settle().await;
        }
    })
    .await
    .unwrap();
    let (bytes, jumps, verdict) = drain(&mut slow).await;
    assert_eq!(verdict, Some(Verdict::Ok));
    assert!(jumps > 0 && bytes.len() < 20_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_lossless_run_waits_for_its_watcher_and_loses_nothing() {
    let world = world_with(|s| s.default_limits.output_kept_bytes = 4096).await;
    let lossless = RunOptions { lossless: true, ..options() };
    let request = code("python", "yes 3000000; echo end", lossless);
    let mut watch = world.engine.stream_code(&user("me"), request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.look("me", &watch.run).await.state, RunState::Running);
    let (bytes, jumps, verdict) = drain(&mut watch).await;
    assert_eq!((bytes.len(), jumps, verdict), (3_000_004, 0, Some(Verdict::Ok)));
    assert!(bytes.chunks(10).take(300_000).all(|line| line == b"012345678\n"));
}

#[tokio::test(start_paused = true)]
async fn a_lossless_run_with_a_stuck_watcher_still_ends() {
    let world = world_with(|s| s.default_limits.output_kept_bytes = 4096).await;
    let lossless = RunOptions { lossless: true, ..options() };
    let request = code("python", "yes 30000000; hang", lossless);
    let watch = world.engine.stream_code(&user("me"), request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(world.look("me", &watch.run).await.verdict(), Some(Verdict::Timeout));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_cancels_the_run() {
    let world = world().await;
    let request = code("python", "hang", options());
    let watch = world.engine.stream_code(&user("me"), request).await.unwrap();
    settle().await;
    let run = watch.run.clone();
    drop(watch);
    settle().await;
    check(&world.look("me", &run).await, Verdict::Cancelled, "");
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_listed() {
    let world = world().await;
    let first = world.run("write a.csv 1,2; write gone.txt x").await;
    let sandbox = first.sandbox.unwrap();
    let kinds = |view: &RunView| -> Vec<(String, Change)> {
        view.files.iter().map(|file| (file.path.clone(), file.change)).collect()
    };
    assert_eq!(
        first.files.iter().map(|file| file.media_type.as_str()).collect::<Vec<_>>(),
        ["text/csv", "text/plain"]
    );
    let second = world.run_in(&sandbox, "append a.csv 3,4; rm gone.txt; write new.png x").await;
    assert_eq!(
        kinds(&second),
        [
            ("a.csv".to_owned(), Change::Modified),
            ("gone.txt".to_owned(), Change::Deleted),
            ("new.png".to_owned(), Change::Created)
        ]
    );
    assert!(world.run_in(&sandbox, "echo nothing").await.files.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_environment_is_layered_and_the_operator_has_the_last_word() {
    let world = world().await;
    let mine = RunOptions { env: BTreeMap::from([("MINE".into(), "1".into())]), ..options() };
    let request = RunCode { echo: true, ..code("python", "env", mine) };
    let view = world.engine.run_code(&user("me"), request).await.unwrap();
    check(&view, Verdict::Ok, "BASE=1\nFIXED=1\nFROM=runtime\nMINE=1\nSTOCKADE_ECHO=1\n");
    let over = RunOptions { env: BTreeMap::from([("FROM".into(), "caller".into())]), ..options() };
    let view = world.engine.run_code(&user("me"), code("python", "env", over)).await.unwrap();
    check(&view, Verdict::Ok, "BASE=1\nFIXED=1\nFROM=caller\n");
}

#[tokio::test(start_paused = true)]
async fn a_program_in_the_workspace_is_hidden_and_removed() {
    let world = world().await;
    let view = world.engine.run_code(&user("me"), code("typescript", "echo hi", options())).await;
    let view = view.unwrap();
    check(&view, Verdict::Ok, "hi\n");
    assert!(view.files.is_empty());
    let dirs = world.workspace_dirs();
    let inside = std::fs::read_dir(world.data.path().join("workspaces").join(&dirs[0])).unwrap();
    assert_eq!(inside.count(), 0);
    assert_eq!(view.runtime, "typescript");
}

#[tokio::test(start_paused = true)]
async fn the_first_tool_that_is_there_is_used() {
    let world = world().await;
    let view = world.engine.run_code(&user("me"), code("python-alias", "echo hi", options())).await;
    check(&view.unwrap(), Verdict::Ok, "hi\n");
    let absent = world.engine.run_code(&user("me"), code("absent", "x", options())).await;
    assert_eq!(absent.unwrap_err().code(), "unsupported");
    let view = world.engine.runtimes(&user("me")).await.unwrap();
    assert_eq!(view.missing, ["absent"]);
    assert_eq!(view.runtimes[0].version.as_deref(), Some("fake-lang 1.0"));
    assert_eq!(view.runtimes[0].packages, ["numpy 2.1"]);
    let again = world.engine.run_code(&user("me"), code("absent", "x", options())).await;
    assert_eq!(again.unwrap_err().code(), "unsupported");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_caller_is_kept_to() {
    let world = world().await;
    let limits = LimitsRequest { timeout_s: Some(2.0), ..LimitsRequest::default() };
    let started = Instant::now();
    let request = shell("hang", RunOptions { limits, ..options() });
    let view = world.engine.run_command(&user("me"), request).await.unwrap();
    check(&view, Verdict::Timeout, "");
    assert_eq!(started.elapsed().as_secs(), 2);
    assert!(view.hints[0].contains("2 s"), "{:?}", view.hints);
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_runs_leave_nothing_behind() {
    let world = world_with(|s| s.max_queued = 1000).await;
    let one = async |number: usize| {
        let options = RunOptions { ephemeral: true, ..options() };
        let owner = user(&format!("owner-{}", number % 7));
        let text = format!("echo {number}; exit {}", number % 3);
        world.engine.run_command(&owner, shell(&text, options)).await.unwrap()
    };
    let views = futures::future::join_all((0..500).map(one)).await;
    for (number, view) in views.iter().enumerate() {
        let verdict = if number % 3 == 0 { Verdict::Ok } else { Verdict::Nonzero };
        check(view, verdict, &format!("{number}\n"));
        assert_eq!((&view.sandbox, view.level), (&None, crate::isolation::Assurance::L2));
    }
    settle().await;
    assert_eq!((world.backend.created(), world.backend.live()), (500, 0));
    assert_eq!(world.workspace_dirs(), Vec::<String>::new());
    let health = world.engine.health().await;
    assert_eq!((health.running, health.queued, health.sandboxes), (0, 0, 0));
}
