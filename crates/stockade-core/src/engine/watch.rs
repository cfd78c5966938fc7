//! Shows a run live: what was kept first, then what comes, then the end.
//!
//! Each watcher has its own task and its own position, so a slow one delays
//! nobody: it misses the middle, which shows as a jump in the offsets.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::run::{Position, Run};
use super::types::{RunEvent, RunWatch};
use crate::backend::Stream;

/// Events that wait for the watcher.
const WAITING: usize = 16;
/// Bytes in one event.
const PIECE: usize = 64 << 10;

/// What happens to the run when its watcher goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// It goes on.
    Detach,
    /// It is cancelled.
    Cancel,
}

/// Begins to watch a run from its first kept byte.
pub(crate) fn watch(run: &Arc<Run>, on_drop: OnDrop) -> RunWatch {
    let (events, receiver) = mpsc::channel(WAITING);
    let number = run.add_watcher();
    let watcher = Watcher { run: run.clone(), number, at: Position::default(), events };
    let cancel = match on_drop {
        OnDrop::Cancel => Some(run.cancelled.clone()),
        OnDrop::Detach => None,
    };
    tokio::spawn(watcher.forward(cancel));
    let sandbox = run.entry.id.to_string();
    RunWatch { run: run.id.to_string(), sandbox, events: receiver }
}

struct Watcher {
    run: Arc<Run>,
    number: u64,
    at: Position,
    events: mpsc::Sender<RunEvent>,
}

/// The receiver is gone.
struct Dropped;

impl Watcher {
    async fn forward(mut self, cancel: Option<CancellationToken>) {
        if self.forward_all().await.is_err()
            && let Some(cancel) = cancel
        {
            cancel.cancel();
        }
    }

    async fn forward_all(&mut self) -> Result<(), Dropped> {
        let mut changes = self.run.changes();
        loop {
            changes.borrow_and_update();
            // Asked before the output is taken: nothing comes after the end.
            let ended = self.run.ended();
            while self.forward_next(Stream::Stdout).await?
                | self.forward_next(Stream::Stderr).await?
            {}
            if let Some(ended) = ended {
                return self.send(RunEvent::Ended(ended.outcome)).await;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = self.events.closed() => return Err(Dropped),
            }
        }
    }

    /// Sends the next bytes of a stream. Gives whether there were any.
    async fn forward_next(&mut self, stream: Stream) -> Result<bool, Dropped> {
        let from = match stream {
            Stream::Stdout => self.at.stdout,
            Stream::Stderr => self.at.stderr,
        };
        let Some((offset, bytes)) = self.run.next_output(stream, from, PIECE) else {
            return Ok(false);
        };
        let next = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.send(RunEvent::Output { stream, offset, bytes }).await?;
        match stream {
            Stream::Stdout => self.at.stdout = next,
            Stream::Stderr => self.at.stderr = next,
        }
        self.run.watcher_at(self.number, self.at);
        Ok(true)
    }

    async fn send(&self, event: RunEvent) -> Result<(), Dropped> {
        self.events.send(event).await.map_err(|_gone| Dropped)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.run.drop_watcher(self.number);
    }
}
