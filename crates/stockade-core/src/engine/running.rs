//! What callers do with runs: start, watch, feed, signal, end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::run::{Input, Position, Run};
use super::types::RunWatch;
use super::watch::{OnDrop, watch};
use super::{CANCEL_WITHIN, Engine, ask};
use crate::backend::Control;
use crate::caller::{Action, Caller};
use crate::error::{Error, Result};
use crate::request::{ContinueRun, RunCode, RunCommand, RunState, RunView};

const SIGKILL: u8 = 9;
/// Signals by name, without `SIG`.
const SIGNALS: [(&str, u8); 16] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", SIGKILL),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

impl Engine {
    /// Runs code. Answers at its end, or after `options.wait` with the run's handle.
    pub async fn run_code(self: &Arc<Self>, caller: &Caller, request: RunCode) -> Result<RunView> {
        caller.may(Action::Run)?;
        let ask = ask::code(&self.settings, &self.runs, request)?;
        let wait = ask.wait;
        let submitted = self.submit(caller, ask)?;
        let replayed = submitted.replayed();
        answer(&self.begin(submitted), replayed, wait).await
    }

    /// Runs a command. Answers at its end, or after `options.wait` with the run's handle.
    pub async fn run_command(
        self: &Arc<Self>,
        caller: &Caller,
        request: RunCommand,
    ) -> Result<RunView> {
        caller.may(Action::Run)?;
        let RunCommand { command, options } = request;
        let ask = ask::command(&self.settings, &self.runs, command, options)?;
        let wait = ask.wait;
        let submitted = self.submit(caller, ask)?;
        let replayed = submitted.replayed();
        answer(&self.begin(submitted), replayed, wait).await
    }

    /// Starts code and gives its live stream; dropping the stream cancels the run.
    pub async fn stream_code(
        self: &Arc<Self>,
        caller: &Caller,
        request: RunCode,
    ) -> Result<RunWatch> {
        caller.may(Action::Run)?;
        let ask = ask::code(&self.settings, &self.runs, request)?;
        let submitted = self.submit(caller, ask)?;
        // The run of an earlier call is not this caller's to end.
        let on_drop = if submitted.replayed() { OnDrop::Detach } else { OnDrop::Cancel };
        // Watched before it begins: a lossless run loses nothing.
        let watch = watch(&submitted.run, on_drop);
        self.begin(submitted);
        Ok(watch)
    }

    /// Waits for a run, feeds it, signals it, reads on.
    pub async fn continue_run(&self, caller: &Caller, request: ContinueRun) -> Result<RunView> {
        caller.may(Action::Run)?;
        let run = self.runs.find(caller, &request.run)?;
        let wait = ask::wait(&self.settings, request.wait)?;
        let signal = request.signal.as_deref().map(signal_number).transpose()?;
        if let Some(input) = request.input {
            self.write_stdin(&run, Bytes::from(input)).await?;
        }
        if request.close_stdin {
            self.end_stdin(&run).await?;
        }
        match signal {
            Some(SIGKILL) => run.cancelled.cancel(),
            Some(signal) => self.control(&run).await?.signal(signal).await?,
            None => {}
        }
        let offsets = (request.stdout_offset, request.stderr_offset);
        let news = wait_for_news(&run, offsets);
        match wait {
            Some(wait) => drop(timeout(wait, news).await),
            None => news.await,
        }
        let from = Position { stdout: offsets.0.unwrap_or(0), stderr: offsets.1.unwrap_or(0) };
        Ok(run.view(from))
    }

    /// The run as it stands.
    pub async fn run(&self, caller: &Caller, run: &str) -> Result<RunView> {
        caller.may(Action::Read)?;
        Ok(self.runs.find(caller, run)?.view(Position::default()))
    }

    /// Watches a run live, from its first kept byte.
    pub async fn watch(&self, caller: &Caller, run: &str) -> Result<RunWatch> {
        caller.may(Action::Read)?;
        Ok(watch(&self.runs.find(caller, run)?, OnDrop::Detach))
    }

    /// Feeds a run's standard input.
    pub async fn feed(&self, caller: &Caller, run: &str, input: Bytes) -> Result<()> {
        caller.may(Action::Run)?;
        let run = self.runs.find(caller, run)?;
        self.write_stdin(&run, input).await
    }

    /// Feeds a run's standard input, however long the program takes to read it.
    /// Fails when the run ends before.
    pub async fn feed_patiently(&self, caller: &Caller, run: &str, input: Bytes) -> Result<()> {
        caller.may(Action::Run)?;
        let run = self.runs.find(caller, run)?;
        let control = self.input_of(&run).await?;
        tokio::select! {
            fed = control.write_stdin(input) => fed,
            () = run.finished() => Err(Error::conflict("run", "over")),
        }
    }

    /// Closes a run's standard input.
    pub async fn close_stdin(&self, caller: &Caller, run: &str) -> Result<()> {
        caller.may(Action::Run)?;
        let run = self.runs.find(caller, run)?;
        self.end_stdin(&run).await
    }

    /// Ends a run and its whole tree.
    pub async fn cancel(&self, caller: &Caller, run: &str) -> Result<()> {
        caller.may(Action::Run)?;
        let run = self.runs.find(caller, run)?;
        run.cancelled.cancel();
        let ended = timeout(CANCEL_WITHIN, run.finished()).await;
        ended.map_err(|e| Error::backend("server", "ending a run; it is still being tried", e))
    }

    async fn write_stdin(&self, run: &Run, input: Bytes) -> Result<()> {
        let control = self.input_of(run).await?;
        let feeding = control.write_stdin(input);
        match timeout(self.patience(), feeding).await {
            Ok(fed) => fed,
            Err(_) => Err(Error::conflict(
                "run",
                "not reading its input, which was given in part or not at all; wait for it or end it",
            )),
        }
    }

    async fn end_stdin(&self, run: &Run) -> Result<()> {
        self.input_of(run).await?.close_stdin().await
    }

    async fn input_of(&self, run: &Run) -> Result<Arc<dyn Control>> {
        if run.input == Input::Fixed {
            return Err(Error::conflict(
                "standard input",
                "not open: it was given at the start or not at all; start a run with it kept open",
            ));
        }
        self.control(run).await
    }

    /// How to act on a run's program; waits a while for one that has not started.
    async fn control(&self, run: &Run) -> Result<Arc<dyn Control>> {
        let mut changes = run.changes();
        let started = async {
            loop {
                changes.borrow_and_update();
                if let Some(control) = run.control()? {
                    return Ok(control);
                }
                // The sender lives as long as the run.
                let _ = changes.changed().await;
            }
        };
        timeout(self.patience(), started).await.unwrap_or_else(|_| {
            Err(Error::conflict("run", "still waiting for its turn; try again when it runs"))
        })
    }

    /// How long a call waits for a program to take something.
    fn patience(&self) -> Duration {
        self.settings.answer_within.max(Duration::from_secs(1))
    }
}

async fn answer(run: &Run, replayed: bool, wait: Option<Duration>) -> Result<RunView> {
    match wait {
        Some(wait) => drop(timeout(wait, run.finished()).await),
        None => run.finished().await,
    }
    if let Some(failure) = run.ended().and_then(|ended| ended.failure) {
        return Err(failure.duplicate());
    }
    Ok(RunView { replayed, ..run.view(Position::default()) })
}

/// Resolves at the end, or when there is output beyond an offset that was named.
async fn wait_for_news(run: &Run, offsets: (Option<u64>, Option<u64>)) {
    let mut changes = run.changes();
    let beyond = |offset: Option<u64>, total: u64| offset.is_some_and(|offset| total > offset);
    let news = |_: &u64| {
        let totals = run.totals();
        run.state() == RunState::Ended
            || beyond(offsets.0, totals.stdout)
            || beyond(offsets.1, totals.stderr)
    };
    // The sender lives as long as the run.
    let _ = changes.wait_for(news).await;
}

fn signal_number(raw: &str) -> Result<u8> {
    let upper = raw.trim().to_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    match name.parse() {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err(Error::invalid("signal", "must be a name like INT, TERM or KILL, or 1 to 64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (raw, number) in [("INT", 2), ("sigterm", 15), (" KILL ", 9), ("64", 64), ("1", 1)] {
            assert_eq!(signal_number(raw).unwrap(), number, "{raw}");
        }
        for raw in ["", "0", "65", "-1", "SIGFOO", "9.5"] {
            assert!(signal_number(raw).is_err(), "{raw}");
        }
    }
}
