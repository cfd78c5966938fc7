//! Waits for a run, and lets go in time: at its end, when the client's patience
//! is over, or when the client gives the call up, which ends the run.

use std::time::Duration;

use serde_json::Value;
use stockade_core::backend::Stream;
use stockade_core::engine::{RunEvent, RunWatch};
use stockade_core::request::{RunState, RunView, Wait};
use tokio::time::{Instant, sleep_until};

use crate::call::Call;
use crate::error::{Failure, Outcome};
use crate::progress::HEARTBEAT;

/// After output came, this long without more means that the program waits for input.
const QUIET: Duration = Duration::from_millis(300);
/// Longest wait that a caller can ask for.
const MOST: Duration = Duration::from_secs(600);

/// What else than its end is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing else.
    Ended,
    /// Output beyond these offsets (stdout, stderr): an answer to input that was fed.
    Answered(u64, u64),
}

/// A wait in seconds as an argument gives it.
pub(crate) fn patience(call: &Call<'_>, field: &str, asked: Option<f64>) -> Outcome<Duration> {
    let Some(seconds) = asked else { return Ok(call.engine.settings().answer_within) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(wait) if wait <= MOST => Ok(wait),
        _ => {
            let most = MOST.as_secs();
            Err(Failure::argument(
                field,
                format!(
                    "{} is outside 0 to {most} seconds; a run goes on when the wait is over",
                    Value::from(seconds)
                ),
            ))
        }
    }
}

/// Waits for a run that was started with [`Wait::Background`]; gives it as it then stands.
pub(crate) async fn follow(
    call: &mut Call<'_>,
    started: RunView,
    wait: Duration,
) -> Outcome<RunView> {
    if started.state == RunState::Ended {
        return Ok(started);
    }
    watch(call, &started.run, wait, Until::Ended).await?;
    let view = call.engine.run(&call.caller, &started.run).await?;
    Ok(RunView { replayed: started.replayed, ..view })
}

/// Returns when there is reason to look at the run again.
pub(crate) async fn watch(
    call: &mut Call<'_>,
    run: &str,
    wait: Duration,
    until: Until,
) -> Outcome<()> {
    if wait.is_zero() {
        return Ok(());
    }
    let mut watch: RunWatch = call.engine.watch(&call.caller, run).await?;
    let deadline = Instant::now() + wait;
    let mut answered: Option<Instant> = None;
    let mut seen = Seen::default();
    loop {
        let wake = answered.map_or(deadline, |at| at.min(deadline));
        // Checked here as well: a flood of output keeps the branches below the first from running.
        if wake <= Instant::now() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = call.cancelled.cancelled() => {
                return Ok(call.engine.cancel(&call.caller, run).await?);
            }
            event = watch.events.recv() => match event {
                Some(RunEvent::Output { stream, offset, bytes }) => {
                    let end = offset + bytes.len() as u64;
                    seen.note(stream, end);
                    if seen.beyond(until) {
                        answered = Some(Instant::now() + QUIET);
                    }
                    if let Some(progress) = &mut call.progress {
                        progress.output(seen.total()).await;
                    }
                }
                Some(RunEvent::Ended(_)) | None => return Ok(()),
            },
            () = sleep_until(wake) => return Ok(()),
            () = tokio::time::sleep(HEARTBEAT), if call.progress.is_some() => {
                if let Some(progress) = &mut call.progress {
                    progress.beat().await;
                }
            }
        }
    }
}

/// How far the streams have come.
#[derive(Debug, Default)]
struct Seen {
    stdout: u64,
    stderr: u64,
}

impl Seen {
    fn note(&mut self, stream: Stream, end: u64) {
        let seen = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        *seen = end.max(*seen);
    }

    fn beyond(&self, until: Until) -> bool {
        match until {
            Until::Ended => false,
            Until::Answered(stdout, stderr) => self.stdout > stdout || self.stderr > stderr,
        }
    }

    fn total(&self) -> u64 {
        self.stdout + self.stderr
    }
}

/// A run is always started without waiting: its handle must be known for the call to be
/// cancelled, and for progress.
pub(crate) const START: Wait = Wait::Background;
