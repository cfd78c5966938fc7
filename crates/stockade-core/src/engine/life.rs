//! What callers do with sandboxes: make, look, stop.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::registry::{Entry, Plan, State};
use super::{CANCEL_WITHIN, Engine, ask};
use crate::backend::SandboxUsage;
use crate::caller::{Action, Caller};
use crate::error::{Error, Result};
use crate::id::{SandboxId, WorkspaceName};
use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::request::{CreateSandbox, SandboxView};
use crate::spec::Image;

/// How the machine's own root is called.
const HOST: &str = "host";
/// How long a backend may take to measure a sandbox.
const MEASURE_WITHIN: Duration = Duration::from_secs(1);

impl Engine {
    /// Makes a sandbox, or gives the caller's existing one of that name.
    pub async fn create_sandbox(
        &self,
        caller: &Caller,
        request: CreateSandbox,
    ) -> Result<SandboxView> {
        caller.may(Action::Run)?;
        self.open_for_work()?;
        let plan = self.plan(caller, request)?;
        let entry = self.sandboxes.registry.reserve(plan)?;
        entry.claim();
        let _busy = self.sandboxes.registry.hold(&entry)?;
        self.sandboxes.live(&entry).await?;
        self.view(&entry, 1).await
    }

    /// The caller's sandboxes.
    pub async fn sandboxes(&self, caller: &Caller) -> Result<Vec<SandboxView>> {
        caller.may(Action::Read)?;
        let own = self.sandboxes.registry.of(&caller.owner);
        futures::future::try_join_all(own.iter().map(|entry| self.view(entry, 0))).await
    }

    /// One sandbox, by handle or name.
    pub async fn sandbox(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView> {
        caller.may(Action::Read)?;
        let entry = self.sandboxes.registry.find(caller, sandbox)?;
        self.view(&entry, 0).await
    }

    /// Ends a sandbox: its runs are cancelled, nothing of it is left.
    pub async fn stop_sandbox(&self, caller: &Caller, sandbox: &str) -> Result<()> {
        caller.may(Action::Run)?;
        let entry = self.sandboxes.registry.find(caller, sandbox)?;
        // Out of sight first: no run comes in any more.
        self.sandboxes.registry.forget(&entry);
        let runs: Vec<_> =
            self.runs.open().into_iter().filter(|run| run.entry.id == entry.id).collect();
        for run in &runs {
            run.cancelled.cancel();
        }
        let all = futures::future::join_all(runs.iter().map(|run| run.finished()));
        if timeout(CANCEL_WITHIN, all).await.is_err() {
            tracing::warn!(sandbox = %entry.id, "its runs did not end in time; it is removed under them");
        }
        self.sandboxes.end(&entry).await
    }

    fn plan(&self, caller: &Caller, request: CreateSandbox) -> Result<Plan> {
        let CreateSandbox { name, image, workspace, ttl_s, limits, network } = request;
        if let Some(name) = &name {
            SandboxId::parse(name).map_err(|error| ask::in_field(error, "name"))?;
        }
        let (defaults, ceiling) = (&self.settings.default_limits, &self.settings.ceiling);
        Ok(Plan {
            owner: caller.owner.clone(),
            name,
            workspace_name: workspace.as_deref().map(WorkspaceName::parse).transpose()?,
            image: self.image(image.as_deref())?,
            network: ask::network(&self.settings, network.unwrap_or_default())?,
            limits: Limits::resolve(&limits, defaults, ceiling)?,
            idle: self.idle(ttl_s)?,
            for_a_run: false,
        })
    }

    fn idle(&self, asked: Option<u64>) -> Result<Duration> {
        let life = self.sandboxes.registry.life();
        match asked.map(Duration::from_secs) {
            None => Ok(self.settings.sandbox_idle.min(life)),
            Some(asked) if !asked.is_zero() && asked <= life => Ok(asked),
            Some(asked) => Err(Error::invalid(
                "ttl_s",
                format!("{} is outside 1 to {} s", asked.as_secs(), life.as_secs()),
            )),
        }
    }

    fn image(&self, asked: Option<&str>) -> Result<Image> {
        match asked {
            None | Some(HOST) => Ok(self.host_image()),
            Some(root) => {
                let root = Path::new(root);
                if self.settings.image_roots.iter().any(|allowed| allowed == root) {
                    return Ok(Image::Root(root.to_path_buf()));
                }
                Err(Error::denied(
                    "this image; use `host`, or let the operator add its directory to the allowed image roots",
                ))
            }
        }
    }

    /// A sandbox as its owner sees it; `own` counts what the asking call itself holds.
    async fn view(&self, entry: &Arc<Entry>, own: u32) -> Result<SandboxView> {
        let age = entry.made.elapsed();
        let life = self.sandboxes.registry.life();
        let (isolation, usage) = self.measure(entry).await?;
        Ok(SandboxView {
            sandbox: entry.id.to_string(),
            name: entry.name.clone(),
            workspace: entry.workspace_name.as_ref().map(ToString::to_string),
            image: match &entry.image {
                Image::Host { .. } => HOST.to_owned(),
                Image::Root(root) => root.display().to_string(),
            },
            network: entry.network,
            active_runs: entry.active().saturating_sub(own),
            age_s: age.as_secs(),
            idle_ttl_s: entry.idle.as_secs(),
            expires_in_s: life.saturating_sub(age).as_secs(),
            memory_mb: entry.limits.memory_bytes >> 20,
            memory_bytes: usage.memory_bytes,
            isolation,
        })
    }

    async fn measure(&self, entry: &Entry) -> Result<(Isolation, SandboxUsage)> {
        let State::Ready(live) = entry.state() else {
            return Ok((self.isolation().await?, SandboxUsage::default()));
        };
        let isolation = live.sandbox.isolation().clone();
        let usage = match timeout(MEASURE_WITHIN, live.sandbox.usage()).await {
            Ok(Ok(usage)) => usage,
            // A sandbox that just went away, or does not answer, is still shown.
            Ok(Err(_)) | Err(_) => SandboxUsage::default(),
        };
        Ok((isolation, usage))
    }
}
