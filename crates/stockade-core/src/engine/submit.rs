//! Admits runs: checks what depends on the sandbox, takes a handle, a place in
//! the queue and the idempotency key, all or nothing, and starts the task.

use std::sync::Arc;

use super::ask::{self, Ask};
use super::program::Work;
use super::registry::{Busy, Entry, Plan};
use super::run::{Flow, Input, NewRun, Run};
use super::runs::Admitted;
use super::scheduler::Ticket;
use super::tools::Tool;
use super::{Engine, execute};
use crate::caller::{Action, Caller};
use crate::error::{Error, Result};
use crate::id::WorkspaceName;
use crate::limits::{Limits, LimitsRequest};
use crate::request::{NetworkRequest, RunOptions, StdinRequest};
use crate::runtime::Runtime;
use crate::spec::Image;

/// Where a run goes.
#[derive(Debug)]
enum Target {
    /// A sandbox that is there.
    Existing(Arc<Entry>),
    /// One that is made for it.
    New(Plan),
}

/// A run that was admitted.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) run: Arc<Run>,
    /// What is left to do; nothing for the run of an earlier call.
    job: Option<execute::Job>,
}

impl Submitted {
    /// Whether it is the run of an earlier call.
    pub(crate) fn replayed(&self) -> bool {
        self.job.is_none()
    }
}

impl Engine {
    /// Takes a run in. It waits for `begin`.
    pub(crate) fn submit(&self, caller: &Caller, ask: Ask) -> Result<Submitted> {
        caller.may(Action::Run)?;
        self.open_for_work()?;
        let (target, limits) = self.target(caller, &ask.options)?;
        let image = match &target {
            Target::Existing(entry) => &entry.image,
            Target::New(plan) => &plan.image,
        };
        self.check_runtime(&ask.work, image, &limits)?;
        let ephemeral = ask.options.ephemeral && matches!(target, Target::New(_));
        let admitted = self.runs.admit(&caller.owner, ask.key.as_ref(), || {
            let (entry, busy, ticket) = self.take_place(caller, target)?;
            let run = Run::new(self.new_run(caller, &ask, entry, ephemeral));
            Ok((run, (busy, ticket)))
        })?;
        match admitted {
            Admitted::Again(run) => Ok(Submitted { run, job: None }),
            Admitted::New(run, (busy, ticket)) => {
                let job = Some(execute::Job { ask, limits, busy, ticket });
                Ok(Submitted { run, job })
            }
        }
    }

    /// Lets a run go on by itself.
    pub(crate) fn begin(self: &Arc<Self>, submitted: Submitted) -> Arc<Run> {
        let Submitted { run, job } = submitted;
        if let Some(job) = job {
            self.tasks.spawn(execute::execute(self.clone(), run.clone(), job));
        }
        run
    }

    fn take_place(&self, caller: &Caller, target: Target) -> Result<(Arc<Entry>, Busy, Ticket)> {
        let ticket = self.scheduler.enter(&caller.owner)?;
        let entry = match target {
            Target::Existing(entry) => entry,
            Target::New(plan) => self.sandboxes.registry.reserve(plan)?,
        };
        let busy = self.sandboxes.registry.hold(&entry)?;
        Ok((entry, busy, ticket))
    }

    fn new_run(&self, caller: &Caller, ask: &Ask, entry: Arc<Entry>, ephemeral: bool) -> NewRun {
        let runtime = match &ask.work {
            Work::Code(code) => self.settings.runtimes[code.runtime].id.clone(),
            Work::Command(_) => "command".to_owned(),
        };
        let input = match ask.options.stdin {
            Some(StdinRequest::Open) => Input::Open,
            Some(StdinRequest::Text(_)) | None => Input::Fixed,
        };
        let kept = entry.limits.output_kept_bytes;
        NewRun {
            owner: caller.owner.clone(),
            runtime,
            created_at: self.clock.now(),
            entry,
            input,
            flow: if ask.options.lossless { Flow::Lossless } else { Flow::Capped },
            ephemeral,
            kept_bytes: usize::try_from(kept).unwrap_or(usize::MAX),
        }
    }

    fn target(&self, caller: &Caller, options: &RunOptions) -> Result<(Target, Limits)> {
        let workspace = options.workspace.as_deref().map(WorkspaceName::parse).transpose()?;
        let Some(wanted) = &options.sandbox else {
            let network = ask::network(&self.settings, options.network.unwrap_or_default())?;
            let (defaults, ceiling) = (&self.settings.default_limits, &self.settings.ceiling);
            let limits = Limits::resolve(&options.limits, defaults, ceiling)?;
            let plan = Plan {
                owner: caller.owner.clone(),
                name: None,
                workspace_name: workspace,
                image: self.host_image(),
                network,
                limits,
                idle: self.settings.sandbox_idle.min(self.settings.sandbox_life),
                for_a_run: true,
            };
            return Ok((Target::New(plan), limits));
        };
        let entry = self.sandboxes.registry.find(caller, wanted)?;
        same_workspace(&entry, workspace.as_ref())?;
        same_network(&entry, options.network)?;
        let limits = self.limits_in(&entry, &options.limits)?;
        entry.claim();
        Ok((Target::Existing(entry), limits))
    }

    /// The limits of a run in a sandbox whose own are set.
    fn limits_in(&self, entry: &Entry, asked: &LimitsRequest) -> Result<Limits> {
        for (field, set) in [
            ("memory_mb", asked.memory_mb.is_some()),
            ("cpus", asked.cpus.is_some()),
            ("pids", asked.pids.is_some()),
        ] {
            if set {
                return Err(Error::invalid(
                    field,
                    "is fixed for the life of a sandbox; create a sandbox with it, or leave `sandbox` out",
                ));
            }
        }
        Limits::resolve(asked, &entry.limits, &self.settings.ceiling)
    }

    fn check_runtime(&self, work: &Work, image: &Image, limits: &Limits) -> Result<()> {
        let Work::Code(code) = work else { return Ok(()) };
        let runtime = &self.settings.runtimes[code.runtime];
        let least = runtime.min_memory_mb;
        if limits.memory_bytes < least.saturating_mul(1 << 20) {
            let has = limits.memory_bytes >> 20;
            return Err(Error::invalid(
                "memory_mb",
                format!("{has} MiB is too little for {}; it needs at least {least}", runtime.id),
            ));
        }
        match self.tools.known(image, runtime) {
            Some(Tool::Missing) => Err(missing(runtime)),
            Some(Tool::Found { .. }) | None => Ok(()),
        }
    }

    /// The machine's own root, with what the operator mounts into it.
    pub(crate) fn host_image(&self) -> Image {
        Image::Host { mounts: self.settings.host_mounts.clone() }
    }
}

/// The answer when a language is in the table but not in the image.
pub(crate) fn missing(runtime: &Runtime) -> Error {
    Error::Unsupported {
        feature: "this language here",
        hint: format!(
            "{} needs one of {} and none is in the image; choose another language (`list_runtimes`), or ask the operator to install it",
            runtime.id,
            runtime.tools.join(", ")
        ),
    }
}

fn same_workspace(entry: &Entry, asked: Option<&WorkspaceName>) -> Result<()> {
    match asked {
        Some(asked) if entry.workspace_name.as_ref() != Some(asked) => {
            let has = match &entry.workspace_name {
                Some(name) => format!("`{name}`"),
                None => "a private one".to_owned(),
            };
            Err(Error::invalid(
                "workspace",
                format!(
                    "the sandbox has {has}, which stays; leave one of `sandbox` and `workspace` out"
                ),
            ))
        }
        _ => Ok(()),
    }
}

fn same_network(entry: &Entry, asked: Option<NetworkRequest>) -> Result<()> {
    match asked {
        Some(asked) if asked != entry.network => Err(Error::conflict(
            "sandbox",
            format!(
                "made with network `{:?}`, which stays; create another one with the network you need",
                entry.network
            )
            .to_lowercase(),
        )),
        _ => Ok(()),
    }
}
