//! The backend itself: keeps a launcher alive and makes sandboxes through it.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_bytes::ByteBuf;
use stockade_agent::launcher::protocol::{Config, ProbeReport};
use stockade_core::backend::{Backend, Sandbox};
use stockade_core::id::SandboxId;
use stockade_core::isolation::Isolation;
use stockade_core::spec::{Network, SandboxSpec};
use stockade_core::{Error, Result};
use stockade_link::Link;
use tokio::net::UnixStream;

use crate::control::Launcher;
use crate::sandbox::NativeSandbox;
use crate::{NAME, convert, probe};

/// An agent that does not greet within this time never will.
const GREETING_TIME: Duration = Duration::from_secs(10);
/// A launcher that hung up has this time to end its sandboxes.
const LEAVE_TIME: Duration = Duration::from_secs(10);
/// First of all ids that this program gives to sandboxes, far above any user's.
const FIRST_ID: u32 = 0x7000_0000;
/// Ids of one state directory: 64 launchers with two ids for each sandbox.
const IDS: u32 = 64 * 2 * SANDBOXES;
const SANDBOXES: u32 = 1024;
/// State directories that are told apart by their ids.
const RANGES: u32 = 1024;

/// What the backend needs to know.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    /// A directory of its own, made if missing; servers that run at the same time may share it.
    pub state_dir: PathBuf,
    /// First of 131072 user and group ids for sandboxes, used only as root. Nobody
    /// else on the machine may have them. `None`: a range far above usual ids, by state directory.
    pub uid_base: Option<u32>,
}

/// The native backend.
#[derive(Debug)]
pub struct Native {
    config: Config,
    current: Mutex<Current>,
}

#[derive(Debug)]
enum Current {
    Launcher(Arc<Launcher>, Option<Arc<ProbeReport>>),
    /// The last one could not be started.
    None,
    Closed,
}

impl Native {
    /// Starts the launcher. To be called early, before the server has grown and
    /// outside a runtime. A host that forbids sandboxes is no error here:
    /// `probe` and `create` say what is missing.
    ///
    /// # Errors
    /// Fails when the state directory cannot be used.
    pub fn start(options: NativeOptions) -> Result<Arc<Self>> {
        let failed = |source: std::io::Error| {
            Error::backend(NAME, "making its state directory; check its path and owner", source)
        };
        let NativeOptions { state_dir, uid_base } = options;
        std::fs::create_dir_all(&state_dir).map_err(failed)?;
        let state_dir = std::path::absolute(state_dir).map_err(failed)?;
        let id_base = uid_base.unwrap_or_else(|| range_of(&state_dir));
        let state_dir = ByteBuf::from(state_dir.as_os_str().as_bytes());
        let config = Config { state_dir, id_base, sandboxes: SANDBOXES };
        let current = match Launcher::start(config.clone()) {
            Ok(launcher) => Current::Launcher(launcher, None),
            Err(error) => {
                tracing::warn!(backend = NAME, error = chain(&error), "no launcher yet");
                Current::None
            }
        };
        Ok(Arc::new(Self { config, current: Mutex::new(current) }))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launcher, a new one if the last has died, and what it found last.
    async fn launcher(&self) -> Result<(Arc<Launcher>, Option<Arc<ProbeReport>>)> {
        match &*self.current() {
            Current::Launcher(launcher, report) if launcher.lives() => {
                return Ok((Arc::clone(launcher), report.clone()));
            }
            Current::Closed => return Err(Error::conflict(NAME, "shut down")),
            Current::Launcher(..) | Current::None => {}
        }
        let config = self.config.clone();
        let started = tokio::task::spawn_blocking(|| Launcher::start(config))
            .await
            .map_err(|error| Error::backend(NAME, "starting the launcher", error))?;
        let mut current = self.current();
        match (&*current, started) {
            (Current::Closed, _) => Err(Error::conflict(NAME, "shut down")),
            // Somebody else was faster; ours goes when it is dropped and hung up.
            (Current::Launcher(launcher, report), Ok(ours)) if launcher.lives() => {
                ours.hang_up();
                Ok((Arc::clone(launcher), report.clone()))
            }
            (_, Ok(launcher)) => {
                *current = Current::Launcher(Arc::clone(&launcher), None);
                Ok((launcher, None))
            }
            (_, Err(error)) => {
                *current = Current::None;
                Err(error)
            }
        }
    }

    async fn probed(&self) -> Result<(Arc<Launcher>, Arc<ProbeReport>)> {
        let (launcher, report) = self.launcher().await?;
        if let Some(report) = report {
            return Ok((launcher, report));
        }
        let report = Arc::from(launcher.probe().await?);
        if let Current::Launcher(_, kept) = &mut *self.current() {
            *kept = Some(Arc::clone(&report));
        }
        Ok((launcher, report))
    }
}

/// Ids of a state directory: the same at every start, and seldom another's.
fn range_of(state_dir: &std::path::Path) -> u32 {
    let bytes = state_dir.as_os_str().as_bytes();
    let hash = bytes
        .iter()
        .fold(0x811C_9DC5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    FIRST_ID + (hash % RANGES) * IDS
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Result<Isolation> {
        let report = match self.launcher().await {
            Ok((launcher, _)) => launcher.probe().await?,
            Err(Error::Conflict { what, state }) => return Err(Error::Conflict { what, state }),
            Err(error) => return Ok(probe::without_launcher(&chain(&error))),
        };
        let isolation = probe::isolation(&report);
        if let Current::Launcher(_, kept) = &mut *self.current() {
            *kept = Some(Arc::from(report));
        }
        Ok(isolation)
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>> {
        let (launcher, report) = self.probed().await?;
        let mut isolation = probe::isolation(&report);
        if spec.network == Network::Open {
            probe::open_network(&mut isolation);
        }
        isolation.satisfies(&spec.required)?;
        let failed = |source: std::io::Error| {
            Error::backend(NAME, "making the channel to the agent", source)
        };
        let (ours, theirs) = StdStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let (number, ownership, notices) =
            launcher.create(convert::plan(spec), theirs.into()).await?;
        probe::ownership(&mut isolation, ownership);
        let stream = UnixStream::from_std(ours).map_err(failed)?;
        let greeted = tokio::time::timeout(GREETING_TIME, Link::connect(stream)).await;
        let link = match greeted {
            Ok(Ok(link)) => link,
            Ok(Err(error)) => {
                launcher.destroy(number).await?;
                return Err(error);
            }
            Err(elapsed) => {
                launcher.destroy(number).await?;
                return Err(Error::backend(NAME, "waiting for the agent", elapsed));
            }
        };
        tracing::debug!(backend = NAME, sandbox = %id, number, "sandbox made");
        Ok(Arc::new(NativeSandbox::new(launcher, number, link, notices, isolation)))
    }

    /// Sandboxes end with their launcher, and the launcher with its server: there is
    /// never one to take over. What a killed launcher left was swept at the start.
    async fn recover(&self) -> Result<Vec<(SandboxId, Arc<dyn Sandbox>)>> {
        Ok(Vec::new())
    }

    async fn shutdown(&self) {
        let last = std::mem::replace(&mut *self.current(), Current::Closed);
        if let Current::Launcher(launcher, _) = last {
            launcher.hang_up();
            if tokio::time::timeout(LEAVE_TIME, launcher.ended()).await.is_err() {
                tracing::warn!(backend = NAME, "the launcher did not end in time");
            }
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if let Current::Launcher(launcher, _) = &*self.current() {
            launcher.hang_up();
        }
    }
}
