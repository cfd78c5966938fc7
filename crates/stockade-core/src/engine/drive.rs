//! Drives one process to its outcome. Knows no backend, so every rule here
//! holds for all of them.
//!
//! The agent keeps the limits; the clock here is the backstop for an agent that
//! does not: kill after the wall time and a grace, then the whole sandbox.
//!
//! ```text
//! Watching ──limit + grace, or cancelled──▶ Killing ──grace──▶ sandbox destroyed
//!     └──────────── Exited ────────────────────┴──▶ outcome
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, OptionFuture};
use tokio::time::Instant;

use super::registry::Entry;
use super::run::{Flow, Run};
use super::verdict::{of_cause, of_exit, without_exit};
use crate::backend::{Control, EndCause, Process, ProcessEvent, Stream};
use crate::outcome::{Outcome, Verdict};

/// How long past the wall limit the agent may take, and then the kill.
const GRACE: Duration = Duration::from_secs(2);
/// How long a process of a dead sandbox may take to say its last word.
const LAST_WORD: Duration = Duration::from_millis(500);

/// How the driving ended.
#[derive(Debug)]
pub(crate) enum Driven {
    /// The process is gone.
    Over(Outcome),
    /// The process does not end: its sandbox has to go.
    Wedged(Outcome),
}

enum Stage {
    Watching,
    Killing(EndCause),
}

struct Driver<'run> {
    run: &'run Run,
    control: Arc<dyn Control>,
    stage: Stage,
    deadline: Instant,
    flow: Flow,
    /// Output that waits until the watchers have taken what came before.
    held: Option<(Stream, u64, Bytes)>,
    kill: OptionFuture<BoxFuture<'static, ()>>,
    sandbox_died: Option<Instant>,
}

/// Follows the process until nothing of it is left, or until it is clear that
/// it does not end by itself.
pub(crate) async fn drive(
    run: &Run,
    entry: &Entry,
    mut process: Process,
    wall_time: Duration,
    stdin: Option<Bytes>,
) -> Driven {
    let control = process.control.clone();
    let mut feeding: OptionFuture<_> =
        stdin.map(|bytes| feed(control.clone(), bytes).boxed()).into();
    let mut driver = Driver {
        run,
        control,
        stage: Stage::Watching,
        deadline: Instant::now() + wall_time + GRACE,
        flow: run.flow,
        held: None,
        kill: None.into(),
        sandbox_died: None,
    };
    let mut changes = run.changes();
    loop {
        changes.borrow_and_update();
        let blocked = driver.let_through();
        let dead = driver.sandbox_died.is_some();
        tokio::select! {
            // Output comes last: a program that floods us must not outrun the clock.
            biased;
            () = run.cancelled.cancelled(), if matches!(driver.stage, Stage::Watching) => {
                driver.kill(EndCause::Cancelled);
            }
            () = tokio::time::sleep_until(driver.deadline) => {
                if let Some(driven) = driver.late() {
                    return driven;
                }
            }
            () = entry.died(), if !dead => driver.sandbox_died(),
            Some(()) = &mut driver.kill => driver.kill = None.into(),
            Some(()) = &mut feeding => feeding = None.into(),
            event = process.events.recv(), if !blocked => match event {
                Some(ProcessEvent::Output { stream, offset, bytes }) => {
                    driver.held = Some((stream, offset, bytes));
                }
                Some(ProcessEvent::Exited(exit)) => return Driven::Over(of_exit(&exit)),
                None => return Driven::Over(driver.lost()),
            },
            _ = changes.changed(), if blocked => {}
        }
    }
}

impl Driver<'_> {
    /// Passes held output on as far as the watchers allow. Gives whether some is left.
    fn let_through(&mut self) -> bool {
        while let Some((stream, offset, bytes)) = self.held.take() {
            let piece = match self.flow {
                Flow::Capped => bytes.len(),
                Flow::Lossless if self.run.lags() => {
                    self.held = Some((stream, offset, bytes));
                    return true;
                }
                Flow::Lossless => bytes.len().min(self.run.piece()),
            };
            self.run.output(stream, offset, &bytes[..piece]);
            if piece < bytes.len() {
                let next = offset.saturating_add(u64::try_from(piece).unwrap_or(u64::MAX));
                self.held = Some((stream, next, bytes.slice(piece..)));
            }
        }
        false
    }

    fn kill(&mut self, cause: EndCause) {
        self.stage = Stage::Killing(cause);
        self.deadline = Instant::now() + GRACE;
        // Whoever is too slow must not keep the end from being seen.
        self.flow = Flow::Capped;
        let control = self.control.clone();
        let kill = async move {
            if let Err(error) = control.kill(cause).await {
                tracing::debug!(%error, "the kill was not taken");
            }
        };
        self.kill = Some(kill.boxed()).into();
    }

    /// The deadline has passed.
    fn late(&mut self) -> Option<Driven> {
        if self.sandbox_died.is_some() {
            return Some(Driven::Over(self.lost()));
        }
        match self.stage {
            Stage::Watching => {
                self.kill(EndCause::WallTime);
                None
            }
            Stage::Killing(cause) => {
                let detail = "did not end when told to; its sandbox was removed";
                Some(Driven::Wedged(without_exit(of_cause(cause), detail)))
            }
        }
    }

    fn sandbox_died(&mut self) {
        let soon = Instant::now() + LAST_WORD;
        self.sandbox_died = Some(soon);
        self.deadline = self.deadline.min(soon);
        self.flow = Flow::Capped;
    }

    /// The outcome when the process vanished without an exit.
    fn lost(&self) -> Outcome {
        match self.stage {
            Stage::Killing(cause) => {
                without_exit(of_cause(cause), "its sandbox went away while it was ended")
            }
            Stage::Watching => without_exit(Verdict::Lost, "its sandbox went away under it"),
        }
    }
}

/// Feeds what standard input was given, then closes it. A program that does not
/// read to the end is no failure.
async fn feed(control: Arc<dyn Control>, bytes: Bytes) {
    const PIECE: usize = 64 << 10;
    let mut rest = bytes;
    while !rest.is_empty() {
        let piece = rest.split_to(rest.len().min(PIECE));
        if control.write_stdin(piece).await.is_err() {
            return;
        }
    }
    if let Err(error) = control.close_stdin().await {
        tracing::debug!(%error, "standard input was closed already");
    }
}
