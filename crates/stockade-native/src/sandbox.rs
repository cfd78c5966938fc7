//! One live sandbox, as the engine sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use stockade_agent::launcher::protocol::{Figures, Id};
use stockade_core::backend::{Control, EndCause, Exit, Process, Sandbox, SandboxUsage};
use stockade_core::isolation::{Enforcement, Isolation, Layer};
use stockade_core::spec::Command;
use stockade_core::{Error, Result};
use stockade_link::{Amend, Link};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::control::{Launcher, Notice};
use crate::watch::Runs;
use crate::{NAME, convert};

/// How often processor time is compared with its limit.
const SAMPLE: Duration = Duration::from_millis(100);

/// How long the end of a lost run waits for the sandbox's last figures.
const LAST_WORD: Duration = Duration::from_secs(5);

/// How far the user's limit on processes lies above the group's.
const SECOND_WALL_PIDS: u32 = 16;

/// A sandbox. Dropping it asks for its end and does not wait.
pub(crate) struct NativeSandbox {
    inner: Arc<Inner>,
    isolation: Isolation,
}

struct Inner {
    launcher: Arc<Launcher>,
    id: Id,
    link: Link,
    runs: Runs,
    gone: CancellationToken,
    /// What it used in all, once it is gone.
    last: OnceLock<Figures>,
}

impl fmt::Debug for NativeSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeSandbox").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl NativeSandbox {
    pub(crate) fn new(
        launcher: Arc<Launcher>,
        id: Id,
        link: Link,
        notices: mpsc::UnboundedReceiver<Notice>,
        isolation: Isolation,
    ) -> Self {
        let gone = CancellationToken::new();
        let inner = Arc::new(Inner {
            launcher,
            id,
            link,
            runs: Runs::default(),
            gone,
            last: OnceLock::new(),
        });
        // Ends by itself: when the sandbox is gone, nobody sends notices any more.
        tokio::spawn(mind(Arc::clone(&inner), notices));
        Self { inner, isolation }
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        if !self.inner.gone.is_cancelled() {
            self.inner.launcher.destroy_soon(self.inner.id);
        }
    }
}

#[async_trait]
impl Sandbox for NativeSandbox {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn spawn(&self, mut command: Command) -> Result<Process> {
        if self.inner.gone.is_cancelled() {
            return Err(Error::conflict("sandbox", "gone; make a new one"));
        }
        let cpu_us = u64::try_from(command.limits.cpu_time.as_micros()).unwrap_or(u64::MAX);
        if matches!(self.isolation.layers.get(&Layer::Pids), Some(Enforcement::Full { .. })) {
            // The group refuses first, and counts: the limit of the user is a second wall.
            command.limits.pids = command.limits.pids.saturating_add(SECOND_WALL_PIDS);
        }
        let number = self.inner.runs.begin(cpu_us);
        let spawned = self.inner.link.spawn(&command, self.inner.amend(number)).await;
        match &spawned {
            Ok(process) => self.inner.runs.controlled(number, &process.control),
            Err(_) => self.inner.runs.forget(number),
        }
        spawned
    }

    async fn usage(&self) -> Result<SandboxUsage> {
        let figures = self.inner.launcher.figures(self.inner.id, false).await?;
        figures
            .map(|figures| convert::usage(&figures))
            .ok_or_else(|| Error::conflict("sandbox", "gone; make a new one"))
    }

    async fn gone(&self) {
        self.inner.gone.cancelled().await;
    }

    async fn destroy(&self) -> Result<()> {
        if self.inner.gone.is_cancelled() {
            return Ok(());
        }
        self.inner.launcher.destroy(self.inner.id).await?;
        self.inner.gone.cancel();
        Ok(())
    }
}

impl Inner {
    fn amend(self: &Arc<Self>, number: u64) -> Amend {
        let inner = Arc::clone(self);
        Arc::new(move |exit| {
            let inner = Arc::clone(&inner);
            async move {
                let Some(exit) = exit else { return inner.last_word(number).await };
                let alone = inner.runs.is_alone(number);
                let figures = inner.figures(alone).await;
                Some(inner.runs.end(number, exit, figures.as_ref()))
            }
            .boxed()
        })
    }

    /// The end of a run whose agent vanished. The kernel may have chosen the agent too
    /// when the sandbox ran out of memory; its count says so.
    async fn last_word(&self, number: u64) -> Option<Exit> {
        let _ = tokio::time::timeout(LAST_WORD, self.gone.cancelled()).await;
        self.runs.vanished(number, self.last.get())
    }

    /// Figures, or nothing: a run's end must not wait for a launcher in trouble.
    async fn figures(&self, restart_peak: bool) -> Option<Figures> {
        let asked = self.launcher.figures(self.id, restart_peak);
        tokio::time::timeout(Duration::from_secs(2), asked).await.ok()?.ok()?
    }

    async fn end(&self, controls: Vec<Arc<dyn Control>>, cause: EndCause) {
        for control in controls {
            if let Err(error) = control.kill(cause).await {
                tracing::debug!(backend = NAME, sandbox = self.id, %error, "a run had ended already");
            }
        }
    }
}

/// Watches a sandbox from its start until nothing of it is left.
async fn mind(inner: Arc<Inner>, mut notices: mpsc::UnboundedReceiver<Notice>) {
    let mut clock = tokio::time::interval(SAMPLE);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hung_up = false;
    loop {
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(Notice::OutOfMemory) => {
                    inner.end(inner.runs.controls(), EndCause::Memory).await;
                }
                Some(Notice::Gone(figures)) => {
                    // Said once, and only this task hears it.
                    let _ = inner.last.set(figures);
                    break;
                }
                None => break,
            },
            () = inner.link.closed(), if !hung_up => {
                // An agent that says nothing any more, or nonsense, ends with its sandbox.
                hung_up = true;
                inner.launcher.destroy_soon(inner.id);
            }
            _ = clock.tick(), if inner.runs.any() => {
                if let Some(figures) = inner.figures(false).await {
                    let spent = inner.runs.sample(&figures);
                    inner.end(spent, EndCause::CpuTime).await;
                }
            }
        }
    }
    inner.gone.cancel();
}
