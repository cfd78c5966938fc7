//! A native backend with directories of its own, and short ways to run things in it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stockade_core::backend::{Backend, Exit, ExitStatus, Process, ProcessEvent, Sandbox, Stream};
use stockade_core::id::SandboxId;
use stockade_core::limits::Limits;
use stockade_core::spec::{Command, Image, Network, Overflow, SandboxSpec, Stdin};
use stockade_native::{Native, NativeOptions};

/// A backend, and a workspace for its sandboxes.
pub(crate) struct Place {
    pub(crate) native: Arc<Native>,
    pub(crate) dir: tempfile::TempDir,
}

/// What came out of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    #[expect(dead_code, reason = "shown when a test fails")]
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = NativeOptions { state_dir: dir.path().join("state"), uid_base: None };
        std::fs::create_dir(dir.path().join("workspace")).unwrap();
        Self { native: Native::start(options).unwrap(), dir }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    pub(crate) fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            image: Image::Host { mounts: BTreeMap::new() },
            workspace: self.workspace(),
            limits: Limits::DEFAULT,
            network: Network::None,
            required: Vec::new(),
        }
    }

    pub(crate) async fn sandbox(&self) -> Arc<dyn Sandbox> {
        self.native.create(&SandboxId::random(), &self.spec()).await.unwrap()
    }
}

pub(crate) fn command(argv: &[&str]) -> Command {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp/home")];
    Command {
        argv: argv.iter().map(Into::into).collect(),
        env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        workdir: "/workspace".into(),
        files: Vec::new(),
        stdin: Stdin::Closed,
        limits: Limits::DEFAULT,
        overflow: Overflow::DropMiddle,
        idempotency_key: None,
    }
}

pub(crate) fn shell(script: &str) -> Command {
    command(&["sh", "-c", script])
}

pub(crate) async fn collect(mut process: Process) -> Ran {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let event = tokio::time::timeout(Duration::from_secs(60), process.events.recv());
        match event.await.expect("no run hangs").expect("the sandbox is not lost") {
            ProcessEvent::Output { stream: Stream::Stdout, bytes, .. } => stdout.extend(bytes),
            ProcessEvent::Output { stream: Stream::Stderr, bytes, .. } => stderr.extend(bytes),
            ProcessEvent::Exited(exit) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                return Ran { stdout: text(stdout), stderr: text(stderr), exit };
            }
        }
    }
}

pub(crate) async fn run(sandbox: &Arc<dyn Sandbox>, command: Command) -> Ran {
    collect(sandbox.spawn(command).await.unwrap()).await
}

/// Whether the host was declared to have all of this. Says so when not.
pub(crate) fn host_has(needs: &[&str]) -> bool {
    let declared = std::env::var("STOCKADE_TEST_HOST").unwrap_or_default();
    let missing: Vec<_> =
        needs.iter().filter(|need| !declared.split(',').any(|has| has == **need)).collect();
    for need in &missing {
        println!("skipped: needs {need}");
    }
    missing.is_empty()
}

/// A run that must succeed; its standard output.
pub(crate) async fn output(sandbox: &Arc<dyn Sandbox>, script: &str) -> String {
    let ran = run(sandbox, shell(script)).await;
    assert_eq!(ran.exit.status, ExitStatus::Code(0), "{script}: {ran:?}");
    ran.stdout
}
