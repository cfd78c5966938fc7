//! A place that is no place: it knows its processes and whether it lives.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::process::{self, Recording};
use crate::backend::{Process, Sandbox, SandboxUsage};
use crate::error::{Error, Result};
use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::spec::{Command, SandboxSpec};

/// One sandbox of the fake.
pub(super) struct FakeSandbox {
    isolation: Isolation,
    pub(super) workspace: PathBuf,
    pub(super) limits: Limits,
    dead: CancellationToken,
    keyed: Mutex<HashMap<String, Arc<Recording>>>,
    on_death: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for FakeSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSandbox").field("dead", &self.is_dead()).finish_non_exhaustive()
    }
}

impl FakeSandbox {
    pub(super) fn new(
        spec: &SandboxSpec,
        isolation: Isolation,
        on_death: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            isolation,
            workspace: spec.workspace.clone(),
            limits: spec.limits,
            dead: CancellationToken::new(),
            keyed: Mutex::default(),
            on_death,
        }
    }

    /// Ends it with everything in it.
    pub(super) fn die(&self) {
        (self.on_death)();
        self.dead.cancel();
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }
}

#[async_trait]
impl Sandbox for FakeSandbox {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn spawn(&self, command: Command) -> Result<Process> {
        if self.is_dead() {
            return Err(Error::conflict("sandbox", "gone"));
        }
        let Some(key) = command.idempotency_key.clone() else {
            return Ok(process::start(self, command, &self.dead).0);
        };
        let mut keyed = self.keyed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recording) = keyed.get(&key) {
            return Ok(recording.replay());
        }
        let (process, recording) = process::start(self, command, &self.dead);
        keyed.insert(key, recording);
        Ok(process)
    }

    async fn usage(&self) -> Result<SandboxUsage> {
        let (memory, pids) = (Some(8 << 20), Some(1));
        Ok(SandboxUsage { memory_bytes: memory, peak_memory_bytes: memory, cpu_us: Some(1), pids })
    }

    async fn gone(&self) {
        self.dead.cancelled().await;
    }

    async fn destroy(&self) -> Result<()> {
        self.die();
        Ok(())
    }
}
