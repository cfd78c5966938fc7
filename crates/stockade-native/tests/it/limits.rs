//! Limits of the whole sandbox, and the verdicts that follow from the kernel's counts.

use std::time::{Duration, Instant};

use stockade_core::backend::{Backend, EndCause, ExitStatus};
use stockade_core::id::SandboxId;
use stockade_core::limits::Limits;

use crate::place::{Place, Ran, command, host_has, run, shell};

async fn ran(script: &str, limits: Limits) -> Ran {
    let place = Place::new();
    let mut spec = place.spec();
    spec.limits = limits;
    let sandbox = place.native.create(&SandboxId::random(), &spec).await.unwrap();
    let mut command = shell(script);
    command.limits = limits;
    run(&sandbox, command).await
}

#[track_caller]
fn check(ran: &Ran, cause: Option<EndCause>) {
    assert_eq!(ran.exit.cause, cause, "{ran:?}");
}

#[tokio::test]
async fn too_much_memory_ends_the_run() {
    if !host_has(&["userns", "cgroup"]) {
        return;
    }
    let limits = Limits { memory_bytes: 48 << 20, ..Limits::DEFAULT };
    // `tail` keeps everything up to the first line end, and there is none.
    check(&ran("exec tail /dev/zero", limits).await, Some(EndCause::Memory));
    // A child is killed by the kernel; the rest of the tree must not go on.
    let begun = Instant::now();
    check(&ran("tail /dev/zero; sleep 20", limits).await, Some(EndCause::Memory));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    // Files in memory are memory.
    let script = "exec dd if=/dev/zero of=/dev/shm/x bs=1M count=200";
    check(&ran(script, limits).await, Some(EndCause::Memory));
}

#[tokio::test]
async fn the_peak_is_that_of_the_run() {
    if !host_has(&["userns", "cgroup"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let script = "my $x = \"x\" x (100 << 20); print length $x";
    let large = run(&sandbox, command(&["perl", "-e", script])).await;
    let small = run(&sandbox, command(&["true"])).await;
    let peak = |ran: &Ran| ran.exit.usage.peak_memory_bytes.unwrap() >> 20;
    assert!((100..400).contains(&peak(&large)), "{large:?}");
    assert!(peak(&small) < 60, "{small:?}");
}

#[tokio::test]
async fn too_many_processes_are_refused() {
    if !host_has(&["userns", "cgroup"]) {
        return;
    }
    let limits = Limits { pids: 16, ..Limits::DEFAULT };
    let ran = ran("for i in $(seq 100); do sleep 5 & done; wait", limits).await;
    check(&ran, Some(EndCause::Pids));
    assert_ne!(ran.exit.status, ExitStatus::Code(0));
}

#[tokio::test]
async fn processor_time_counts_for_the_whole_tree() {
    if !host_has(&["userns", "cgroup"]) {
        return;
    }
    let limits =
        Limits { cpu_time: Duration::from_millis(600), cpu_millis: 2000, ..Limits::DEFAULT };
    // No process of the tree uses more than a little by itself.
    let begun = Instant::now();
    let script = "while :; do seq 20000 >/dev/null; done";
    check(&ran(script, limits).await, Some(EndCause::CpuTime));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_share_of_processors_is_bounded() {
    if !host_has(&["userns", "cgroup"]) {
        return;
    }
    let limits = Limits { cpu_millis: 200, wall_time: Duration::from_secs(2), ..Limits::DEFAULT };
    let ran = ran("while :; do :; done", limits).await;
    check(&ran, Some(EndCause::WallTime));
    let used = Duration::from_micros(ran.exit.usage.user_us + ran.exit.usage.system_us);
    assert!(used < Duration::from_millis(800), "{used:?} of 2 s at a fifth of a processor");
}

#[tokio::test]
async fn tmp_is_bounded() {
    if !host_has(&["userns"]) {
        return;
    }
    let limits = Limits { tmp_bytes: 4 << 20, ..Limits::DEFAULT };
    let ran = ran("dd if=/dev/zero of=/tmp/x bs=1M count=16 2>&1; stat -c %s /tmp/x", limits).await;
    assert!(ran.stdout.contains("No space left"), "{ran:?}");
    assert!(ran.stdout.ends_with("4194304\n"), "{ran:?}");
}

#[tokio::test]
async fn without_a_group_single_processes_are_bounded() {
    if !host_has(&["userns", "user"]) || host_has(&["cgroup"]) {
        return;
    }
    let limits = Limits { memory_bytes: 64 << 20, pids: 16, ..Limits::DEFAULT };
    let large = ran("perl -e '$x = \"x\" x (200 << 20)'", limits).await;
    assert_ne!(large.exit.status, ExitStatus::Code(0), "{large:?}");
    let many = ran("for i in $(seq 100); do sleep 5 & done; wait", limits).await;
    assert_ne!(many.exit.status, ExitStatus::Code(0), "{many:?}");
}
