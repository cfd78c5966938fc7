//! Everything this system can do. REST, MCP and the command line are ways to ask.
//!
//! | file | idea |
//! |---|---|
//! | `ask` | takes a request apart: inside, everything is known to be right |
//! | `submit` | admits a run: its sandbox, its place in the queue, its key |
//! | `execute` | carries a run out, from its turn to its record |
//! | `drive` | follows one process to its outcome, with the backstop clock |
//! | `run`, `captured`, `watch` | a run as everybody sees it, its output, its live stream |
//! | `runs`, `scheduler` | which runs can be asked for, and which comes next |
//! | `registry`, `sandboxes` | live sandboxes, and how they come and go |
//! | `workspaces`, `files` | directories of files, and what callers do with them |
//! | `program`, `tools` | from a table entry to a command, and what is in an image |

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::isolation::Isolation;
use crate::outcome::Verdict;
use crate::request::{Health, RunState};
use crate::store::Store;

mod ask;
mod background;
mod captured;
mod clock;
mod drive;
mod execute;
mod files;
mod hints;
mod life;
mod program;
mod records;
mod registry;
mod run;
mod running;
mod runs;
mod runtimes;
mod sandboxes;
mod scheduler;
mod submit;
#[cfg(test)]
mod tests;
mod tools;
mod types;
mod verdict;
mod watch;
mod workspaces;

pub use types::{Download, FileWrite, ListFiles, Reader, RunEvent, RunWatch, Settings};

use clock::Clock;
use records::Records;
use registry::Registry;
use runs::Runs;
use sandboxes::{Sandboxes, blocking};
use scheduler::Scheduler;
use tools::Tools;
use workspaces::Workspaces;

/// Smallest cap on kept output with which views make sense.
const LEAST_KEPT: u32 = 1024;
/// How long runs may take to end after they were cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);

/// Everything this system can do.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    backend: Arc<dyn Backend>,
    store: Arc<dyn Store>,
    clock: Clock,
    probed: tokio::sync::OnceCell<Isolation>,
    workspaces: Arc<Workspaces>,
    sandboxes: Arc<Sandboxes>,
    scheduler: Arc<Scheduler>,
    runs: Runs,
    records: Records,
    tools: Tools,
    /// Tasks that carry runs out.
    tasks: TaskTracker,
    /// Fires when no new work is taken any more.
    closing: CancellationToken,
    /// Fires when the background tasks shall stop; also on drop.
    background: OnceLock<tokio_util::sync::DropGuard>,
}

impl Engine {
    /// Sweeps what an earlier process left, then is ready for calls.
    pub async fn start(
        settings: Settings,
        backend: Arc<dyn Backend>,
        store: Arc<dyn Store>,
    ) -> Result<Arc<Self>> {
        check_settings(&settings)?;
        let clock = Clock::new();
        let workspaces = {
            let (data_dir, store) = (settings.data_dir.clone(), store.clone());
            blocking(move || Workspaces::open(&data_dir, store, clock)).await?
        };
        let registry = Registry::new(settings.max_sandboxes_per_owner, settings.sandbox_life);
        let required = settings.required_layers.clone();
        let engine = Arc::new(Self {
            sandboxes: Sandboxes::new(registry, backend.clone(), workspaces.clone(), required),
            scheduler: Scheduler::new(settings.max_concurrent, settings.max_queued),
            runs: Runs::new(settings.run_retention),
            records: Records::new(store.clone()),
            tools: Tools::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            background: OnceLock::new(),
            probed: tokio::sync::OnceCell::new(),
            workspaces,
            settings,
            backend,
            store,
            clock,
        });
        engine.sweep().await?;
        background::begin(&engine);
        Ok(engine)
    }

    /// Removes what an earlier process left, unless another one is still there.
    async fn sweep(&self) -> Result<()> {
        let (workspaces, store) = (self.workspaces.clone(), self.store.clone());
        let alone = blocking(move || {
            let alone = workspaces.alone()?;
            if alone {
                workspaces.sweep()?;
                let outcome =
                    verdict::without_exit(Verdict::Lost, "the server ended while it was running");
                store.end_open_runs(&outcome)?;
            }
            workspaces.join()?;
            Ok(alone)
        })
        .await?;
        if !alone {
            tracing::info!("another process uses this data directory; nothing is swept");
            return Ok(());
        }
        self.sandboxes.remove_old().await
    }

    /// What the engine works by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where records are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What the host enforces, as last probed.
    pub async fn isolation(&self) -> Result<Isolation> {
        self.probed.get_or_try_init(|| self.backend.probe()).await.cloned()
    }

    /// Figures for the health check. Needs no caller.
    pub async fn health(&self) -> Health {
        let (running, queued) = self.scheduler.figures();
        let workspaces = self.workspaces.clone();
        let workspaces = blocking(move || workspaces.count()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the workspaces could not be counted");
            0
        });
        Health {
            running,
            max_concurrent: self.settings.max_concurrent,
            queued,
            sandboxes: u32::try_from(self.sandboxes.registry.all().len()).unwrap_or(u32::MAX),
            workspaces,
        }
    }

    /// No new work; running work gets `grace`, then is cancelled. Nothing is left afterwards.
    pub async fn shutdown(&self, grace: Duration) {
        self.closing.cancel();
        self.tasks.close();
        for run in self.runs.open() {
            if run.state() == RunState::Queued {
                run.cancelled.cancel();
            }
        }
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            for run in self.runs.open() {
                run.cancelled.cancel();
            }
            if tokio::time::timeout(CANCEL_WITHIN, self.tasks.wait()).await.is_err() {
                tracing::error!("some runs could not be ended in time");
            }
        }
        self.sandboxes.shutdown().await;
        self.records.flush().await;
    }

    /// Fails once the server ends.
    fn open_for_work(&self) -> Result<()> {
        if self.closing.is_cancelled() {
            return Err(Error::conflict(
                "the server",
                "shutting down; try again after its restart",
            ));
        }
        Ok(())
    }
}

fn check_settings(settings: &Settings) -> Result<()> {
    if settings.default_limits.output_kept_bytes < LEAST_KEPT {
        return Err(Error::invalid("output_kept_bytes", "must be at least 1024"));
    }
    Ok(())
}
