//! What the cases share: sandboxes to work in, and how to run something there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::dialect::{Argv, Dialect};
use crate::backend::{Backend, EndCause, Exit, ExitStatus, Process, ProcessEvent, Sandbox, Stream};
use crate::id::SandboxId;
use crate::limits::Limits;
use crate::path::WORKSPACE_DIR;
use crate::spec::{Command, Image, Network, Overflow, SandboxSpec, Stdin};

/// A backend under examination.
#[derive(Debug)]
pub(super) struct Bench {
    backend: Arc<dyn Backend>,
    pub(super) dialect: Arc<dyn Dialect>,
    root: PathBuf,
    count: AtomicU32,
    made: Mutex<Vec<Place>>,
}

/// A sandbox and its workspace on this machine.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) workspace: PathBuf,
}

/// Everything a process said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) stdout: Vec<(u64, Vec<u8>)>,
    pub(super) stderr: Vec<(u64, Vec<u8>)>,
    /// `None` when the channel closed without an exit.
    pub(super) exit: Option<Exit>,
}

/// Limits of the sandboxes that cases make for themselves.
pub(super) fn limits() -> Limits {
    Limits { wall_time: Duration::from_secs(20), ..Limits::DEFAULT }
}

impl Bench {
    pub(super) fn new(backend: Arc<dyn Backend>, dialect: Arc<dyn Dialect>, root: PathBuf) -> Self {
        Self { backend, dialect, root, count: AtomicU32::new(0), made: Mutex::default() }
    }

    /// A new sandbox with an empty workspace.
    pub(super) async fn place(&self) -> Result<Place, String> {
        self.place_with(limits()).await
    }

    #[expect(clippy::disallowed_methods, reason = "the suite's own directories")]
    pub(super) async fn place_with(&self, limits: Limits) -> Result<Place, String> {
        use std::os::unix::fs::DirBuilderExt;
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let workspace = self.root.join(format!("contract-{number}"));
        std::fs::DirBuilder::new().mode(0o700).create(&workspace).map_err(|e| e.to_string())?;
        let spec = SandboxSpec {
            image: Image::Host { mounts: BTreeMap::new() },
            workspace: workspace.clone(),
            limits,
            network: Network::None,
            required: Vec::new(),
        };
        let sandbox = self.backend.create(&SandboxId::random(), &spec).await.map_err(text)?;
        let place = Place { sandbox, workspace };
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(place.clone());
        Ok(place)
    }

    /// Takes down what the last case left.
    #[expect(clippy::disallowed_methods, reason = "the suite's own directories")]
    pub(super) async fn clear(&self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        for place in made {
            if let Err(error) = place.sandbox.destroy().await {
                tracing::error!(%error, "the suite could not take a sandbox down");
            }
            if let Err(error) = std::fs::remove_dir_all(&place.workspace) {
                tracing::warn!(%error, "the suite could not remove a workspace");
            }
        }
    }
}

impl Place {
    pub(super) async fn start(&self, command: Command) -> Result<Process, String> {
        self.sandbox.spawn(command).await.map_err(text)
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, command: Command) -> Result<Said, String> {
        Ok(listen(self.start(command).await?).await)
    }

    /// Whether a file is in the workspace.
    #[expect(clippy::disallowed_methods, reason = "looks from outside at the suite's own file")]
    pub(super) fn has(&self, file: &str) -> bool {
        std::fs::symlink_metadata(self.workspace.join(file)).is_ok()
    }
}

/// A command with the suite's usual surroundings.
pub(super) fn command(argv: Argv) -> Command {
    let path = "/usr/local/bin:/usr/bin:/bin";
    Command {
        argv: argv.into_iter().map(OsString::from).collect(),
        env: BTreeMap::from([("PATH".into(), path.into())]),
        workdir: PathBuf::from(WORKSPACE_DIR),
        files: Vec::new(),
        stdin: Stdin::Closed,
        limits: limits(),
        overflow: Overflow::DropMiddle,
        idempotency_key: None,
    }
}

/// Takes everything a process says.
pub(super) async fn listen(mut process: Process) -> Said {
    let mut said = Said { stdout: Vec::new(), stderr: Vec::new(), exit: None };
    while let Some(event) = process.events.recv().await {
        match event {
            ProcessEvent::Output { stream: Stream::Stdout, offset, bytes } => {
                said.stdout.push((offset, bytes.to_vec()));
            }
            ProcessEvent::Output { stream: Stream::Stderr, offset, bytes } => {
                said.stderr.push((offset, bytes.to_vec()));
            }
            ProcessEvent::Exited(exit) => said.exit = Some(exit),
        }
    }
    said
}

impl Said {
    /// Standard output, when nothing of it is missing.
    pub(super) fn stdout(&self) -> Result<Vec<u8>, String> {
        whole("stdout", &self.stdout)
    }

    /// Standard error, when nothing of it is missing.
    pub(super) fn stderr(&self) -> Result<Vec<u8>, String> {
        whole("stderr", &self.stderr)
    }

    pub(super) fn exit(&self) -> Result<&Exit, String> {
        self.exit.as_ref().ok_or_else(|| "the channel closed without an exit".to_owned())
    }

    /// Ended by itself with this status.
    pub(super) fn ended(&self, status: &ExitStatus) -> Result<(), String> {
        let exit = self.exit()?;
        same("status", &exit.status, status)?;
        same("cause", &exit.cause, &None)
    }

    /// Was ended for this reason.
    pub(super) fn caused(&self, cause: EndCause) -> Result<(), String> {
        same("cause", &self.exit()?.cause, &Some(cause))
    }
}

fn whole(name: &str, pieces: &[(u64, Vec<u8>)]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for (offset, piece) in pieces {
        same(&format!("offset in {name}"), offset, &length(bytes.len()))?;
        bytes.extend_from_slice(piece);
    }
    Ok(bytes)
}

pub(super) fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    seen: &T,
    expected: &T,
) -> Result<(), String> {
    if seen == expected {
        Ok(())
    } else {
        Err(format!("{what}: saw {seen:?}, expected {expected:?}"))
    }
}

pub(super) fn holds(what: &str, condition: bool) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what.to_owned()) }
}

pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
