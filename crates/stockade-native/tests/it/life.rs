//! Beginnings and ends of sandboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use stockade_core::backend::{Backend, ExitStatus, ProcessEvent};
use stockade_core::id::SandboxId;
use stockade_core::spec::Image;
use tokio::time::timeout;

use crate::place::{Place, command, host_has, output, run, shell};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn destroying_ends_runs_and_may_be_repeated() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let mut process = sandbox.spawn(shell("sleep 600")).await.unwrap();
    sandbox.destroy().await.unwrap();
    sandbox.destroy().await.unwrap();
    timeout(SOON, sandbox.gone()).await.unwrap();
    let closed = async {
        while let Some(event) = process.events.recv().await {
            assert!(!matches!(event, ProcessEvent::Exited(_)), "lost, not exited: {event:?}");
        }
    };
    timeout(SOON, closed).await.unwrap();
    assert_eq!(sandbox.spawn(command(&["true"])).await.unwrap_err().code(), "conflict");
}

#[tokio::test]
async fn a_sandbox_runs_many_and_reports_its_use() {
    if !host_has(&["userns", "cgroup"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    for number in 0..5 {
        assert_eq!(
            output(&sandbox, &format!("echo {number} | tee -a log")).await,
            format!("{number}\n")
        );
    }
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.memory_bytes.unwrap() > 0 && usage.cpu_us.unwrap() > 0, "{usage:?}");
    assert_eq!(usage.pids, Some(1), "only the agent is left");
    assert_eq!(std::fs::read_to_string(place.workspace().join("log")).unwrap(), "0\n1\n2\n3\n4\n");
}

#[tokio::test]
async fn a_sandbox_whose_process_1_dies_is_gone() {
    if !host_has(&["userns", "root", "cgroup"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let mut process = sandbox.spawn(shell("sleep 600")).await.unwrap();
    let killed = crate::leaks::kill_agents(place.dir.path());
    assert_eq!(killed, 1);
    timeout(SOON, sandbox.gone()).await.unwrap();
    assert!(timeout(SOON, process.events.recv()).await.unwrap().is_none());
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_built_says_why_and_leaves_nothing() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let check = async |change: &dyn Fn(&mut stockade_core::spec::SandboxSpec), expected: &str| {
        let mut spec = place.spec();
        change(&mut spec);
        let error = place.native.create(&SandboxId::random(), &spec).await.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(source.as_deref().unwrap_or_default().contains(expected), "{error}: {source:?}");
    };
    let mount =
        |from: &str, to: &str| Image::Host { mounts: BTreeMap::from([(from.into(), to.into())]) };
    check(&|spec| spec.workspace = "/nowhere".into(), "workspace: No such file").await;
    check(&|spec| spec.image = mount("/nowhere", "/opt/x"), "/nowhere: No such file").await;
    check(&|spec| spec.image = mount("/usr/share", "/etc/x"), "cannot be a mount point").await;
    check(&|spec| spec.image = Image::Root("/usr/share/doc".into()), "no plain directory").await;
    let sandbox = place.sandbox().await;
    assert_eq!(output(&sandbox, "echo ok").await, "ok\n");
}

#[tokio::test]
async fn shutting_down_ends_everything() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let _process = sandbox.spawn(shell("sleep 600")).await.unwrap();
    timeout(SOON, place.native.shutdown()).await.unwrap();
    timeout(SOON, sandbox.gone()).await.unwrap();
    let error = place.native.create(&SandboxId::random(), &place.spec()).await.unwrap_err();
    assert_eq!(error.code(), "conflict");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn sandboxes_live_side_by_side() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let made = futures::future::join_all((0..8).map(|_| place.sandbox())).await;
    let runs = made.iter().enumerate().map(|(number, sandbox)| async move {
        let ran = run(
            sandbox,
            shell(&format!("echo {number} >/tmp/own.{number}; sleep 0.1; cat /tmp/own.*")),
        )
        .await;
        assert_eq!((ran.exit.status, ran.stdout), (ExitStatus::Code(0), format!("{number}\n")));
    });
    futures::future::join_all(runs).await;
}
