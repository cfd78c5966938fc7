//! Carries one run out: waits for its turn, has its sandbox made, prepares the
//! program, drives it, looks at what changed, and keeps the record.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::Engine;
use super::ask::{Ask, in_field};
use super::drive::{Driven, drive};
use super::hints::{Ending, hints};
use super::program::{self, Prepared, Work};
use super::registry::{Busy, Live, State};
use super::run::{Ended, Flow, Run};
use super::sandboxes::blocking;
use super::scheduler::{Slot, Ticket};
use super::submit::missing;
use super::tools::{Asking, Tool};
use super::verdict;
use super::workspaces::Workspace;
use crate::backend::Process;
use crate::error::{Error, Result};
use crate::host_dir::Snapshot;
use crate::limits::Limits;
use crate::outcome::{Outcome, Verdict};
use crate::request::StdinRequest;
use crate::spec::{Command, Overflow, Stdin};
use crate::store::RunRecord;

/// Changed files that are listed.
const CHANGES: usize = 100;
/// How long a backend may take to start a program.
const SPAWN_WITHIN: Duration = Duration::from_secs(30);

/// What it takes to carry a run out.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ask: Ask,
    pub(crate) limits: Limits,
    pub(crate) busy: Busy,
    pub(crate) ticket: Ticket,
}

/// Carries a run out. Whatever happens, the run ends.
pub(crate) async fn execute(engine: Arc<Engine>, run: Arc<Run>, job: Job) {
    engine.record(&run);
    let key = job.ask.key.as_ref().map(|key| key.key.clone());
    let carried = tokio::spawn(carry_out(engine.clone(), run.clone(), job)).await;
    let (ended, held) = carried.unwrap_or_else(|panicked| {
        let error = Error::backend("server", "carrying a run out", panicked);
        (failed(error), None)
    });
    log(&run, &ended);
    run.end(ended);
    engine.record(&run);
    engine.runs.shelve(&run, key);
    let never_used = matches!(run.entry.state(), State::Planned) && run.entry.active() <= 1;
    if (run.ephemeral || never_used)
        && let Err(error) = engine.sandboxes.end(&run.entry).await
    {
        tracing::warn!(run = %run.id, %error, "the sandbox of an ended run is still there");
    }
    // The slot and the sandbox were held until here.
    drop(held);
}

type Held = (Option<Slot>, Busy);

async fn carry_out(engine: Arc<Engine>, run: Arc<Run>, job: Job) -> (Ended, Option<Held>) {
    let Job { ask, limits, busy, ticket } = job;
    let slot = tokio::select! {
        biased;
        () = run.cancelled.cancelled() => None,
        slot = ticket.slot() => slot,
    };
    if slot.is_none() {
        return (before_start(), Some((None, busy)));
    }
    run.starting();
    let ended = match engine.run_in_sandbox(&run, &ask, &limits).await {
        Ok(ended) => ended,
        Err(error) => failed(error),
    };
    (ended, Some((slot, busy)))
}

impl Engine {
    async fn run_in_sandbox(&self, run: &Run, ask: &Ask, limits: &Limits) -> Result<Ended> {
        let entry = &run.entry;
        let live = tokio::select! {
            biased;
            () = run.cancelled.cancelled() => return Ok(before_start()),
            live = self.sandboxes.live(entry) => live?,
        };
        let prepared = self.prepare(run, &live, ask).await?;
        let before = begin(&live.workspace, ask, &prepared).await?;
        let hidden = prepared.hidden.clone();
        let command = command(run, ask, limits, prepared);
        let driven = self.start_and_drive(run, &live, ask, command).await;
        let after = finish(&live.workspace, ask, hidden).await;
        let outcome = driven?;
        let (files, more_files) = after?.changes_since(&before, CHANGES);
        let hints = hints(&Ending {
            outcome: &outcome,
            stderr: &run.stderr_text(),
            network: entry.network,
            memory_mb: entry.limits.memory_bytes >> 20,
            wall_s: limits.wall_time.as_secs_f64(),
        });
        Ok(Ended { outcome, files, more_files, hints, failure: None })
    }

    async fn start_and_drive(
        &self,
        run: &Run,
        live: &Live,
        ask: &Ask,
        command: Command,
    ) -> Result<Outcome> {
        let wall_time = command.limits.wall_time;
        let input = match &ask.options.stdin {
            Some(StdinRequest::Text(text)) => Some(Bytes::from(text.clone())),
            Some(StdinRequest::Open) | None => None,
        };
        let Some(process) = self.spawn(run, live, command).await? else {
            let detail = "the sandbox did not start the program in time and was removed";
            return Ok(verdict::without_exit(Verdict::Internal, detail));
        };
        // Asked while it lives: the answer outlives it.
        run.entry.level();
        run.running(process.control.clone());
        match drive(run, &run.entry, process, wall_time, input).await {
            Driven::Over(outcome) => Ok(outcome),
            Driven::Wedged(outcome) => {
                self.sandboxes.begin_end(&run.entry);
                Ok(outcome)
            }
        }
    }

    /// Starts the program; `None` when the sandbox does not answer, which ends it.
    async fn spawn(&self, run: &Run, live: &Live, command: Command) -> Result<Option<Process>> {
        let entry = &run.entry;
        tokio::select! {
            spawned = timeout(SPAWN_WITHIN, live.sandbox.spawn(command)) => match spawned {
                Ok(spawned) => spawned.map(Some),
                Err(_) => {
                    self.sandboxes.begin_end(entry);
                    Ok(None)
                }
            },
            () = entry.died() => Err(Error::conflict("sandbox", "gone; run it again without it")),
        }
    }

    /// The program in the form the agent starts.
    async fn prepare(&self, run: &Run, live: &Live, ask: &Ask) -> Result<Prepared> {
        let code = match &ask.work {
            Work::Command(command) => return Ok(program::of_command(command)),
            Work::Code(code) => code,
        };
        let runtime = &self.settings.runtimes[code.runtime];
        let image = &run.entry.image;
        let tool = match (self.tools.known(image, runtime), runtime.tools.as_slice()) {
            (Some(tool), _) => tool,
            (None, []) => Tool::Found { program: String::new(), version: None },
            // Whether it is there shows when it is started.
            (None, [only]) => Tool::Found { program: only.clone(), version: None },
            (None, _) => self.tools.find(image, runtime, &live.sandbox, &self.asking()).await?,
        };
        match tool {
            Tool::Found { program, .. } => {
                Ok(program::of_code(code, runtime, &program, &run.id, &ask.workdir))
            }
            Tool::Missing => Err(missing(runtime)),
        }
    }

    /// How tools are asked for their versions.
    pub(crate) fn asking(&self) -> Asking<'_> {
        Asking {
            base_env: &self.settings.base_env,
            fixed_env: &self.settings.fixed_env,
            limits: self.settings.default_limits,
        }
    }

    fn record(&self, run: &Run) {
        self.records.put(RunRecord {
            id: run.id.clone(),
            owner: run.owner.clone(),
            sandbox: run.entry.id.clone(),
            runtime: run.runtime.clone(),
            created_at: run.created_at,
            outcome: run.ended().map(|ended| ended.outcome),
        });
    }
}

/// What the backend is told to start.
fn command(run: &Run, ask: &Ask, limits: &Limits, prepared: Prepared) -> Command {
    Command {
        argv: prepared.argv.into_iter().map(Into::into).collect(),
        env: ask.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        workdir: program::inside(&ask.workdir),
        files: prepared.file.into_iter().collect(),
        stdin: if ask.options.stdin.is_some() { Stdin::Piped } else { Stdin::Closed },
        limits: *limits,
        overflow: match run.flow {
            Flow::Capped => Overflow::DropMiddle,
            Flow::Lossless => Overflow::Wait,
        },
        idempotency_key: Some(run.id.to_string()),
    }
}

/// Checks the working directory, looks at the tree, and writes a hidden program file.
async fn begin(workspace: &Arc<Workspace>, ask: &Ask, prepared: &Prepared) -> Result<Snapshot> {
    let (files, workdir) = (workspace.files.clone(), ask.workdir.clone());
    let hidden = match (&prepared.hidden, &ask.work) {
        (Some(name), Work::Code(code)) => Some((name.clone(), code.code.clone())),
        _ => None,
    };
    blocking(move || {
        files.sub(&workdir).map_err(|error| match error {
            Error::NotFound { .. } => Error::invalid(
                "workdir",
                format!("`{}` is not there; make it first", workdir.to_text()),
            ),
            other => in_field(other, "workdir"),
        })?;
        let before = files.snapshot();
        if let Some((name, code)) = hidden {
            files.write_ours(&workdir.join(name.as_ref())?, code.as_bytes())?;
        }
        Ok(before)
    })
    .await
}

/// Removes the hidden program file and looks at the tree again.
async fn finish(workspace: &Arc<Workspace>, ask: &Ask, hidden: Option<String>) -> Result<Snapshot> {
    let (files, workdir) = (workspace.files.clone(), ask.workdir.clone());
    blocking(move || {
        if let Some(name) = hidden {
            match files.remove(&workdir.join(name.as_ref())?) {
                // The program may have removed itself, or its directory.
                Ok(()) | Err(Error::NotFound { .. } | Error::Invalid { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files.snapshot())
    })
    .await
}

fn before_start() -> Ended {
    ended(verdict::without_exit(Verdict::Cancelled, "ended before its program started"))
}

fn failed(error: Error) -> Ended {
    let outcome = verdict::of_failure(&error);
    Ended { failure: Some(Arc::new(error)), ..ended(outcome) }
}

fn ended(outcome: Outcome) -> Ended {
    Ended { outcome, files: Vec::new(), more_files: false, hints: Vec::new(), failure: None }
}

fn log(run: &Run, ended: &Ended) {
    let (verdict, runtime) = (ended.outcome.verdict.name(), run.runtime.as_str());
    match &ended.failure {
        Some(error) if matches!(**error, Error::Backend { .. }) => {
            tracing::error!(run = %run.id, runtime, verdict, %error, source = ?error, "run failed");
        }
        _ => {}
    }
    let outcome = &ended.outcome;
    let usage = &outcome.usage;
    // One record a run, without code, output or secrets.
    tracing::info!(
        target: "audit",
        owner = %run.owner,
        run = %run.id,
        sandbox = %run.entry.id,
        runtime,
        verdict,
        exit_code = outcome.exit_code,
        wall_ms = usage.wall_us / 1000,
        stdout_bytes = usage.stdout_bytes,
        stderr_bytes = usage.stderr_bytes,
        "run ended"
    );
}
