//! Tells a client that asked for it how a long call goes.
//!
//! Notifications only ever grow, as the protocol demands, and are few: one
//! with new output at most each second, one without at most each ten.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::Instant;

/// Between two notifications when nothing happens.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between two notifications when output comes.
const AT_OUTPUT: Duration = Duration::from_secs(1);

/// The progress of one call.
#[derive(Debug)]
pub(crate) struct Progress {
    token: ProgressToken,
    peer: Peer<RoleServer>,
    pace: Pace,
}

impl Progress {
    /// `None` when the client did not ask.
    pub(crate) fn new(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self { token, peer: context.peer.clone(), pace: Pace::new(Instant::now()) })
    }

    /// Output came: `bytes` so far.
    pub(crate) async fn output(&mut self, bytes: u64) {
        self.pace.bytes = bytes;
        if self.pace.due(Instant::now(), AT_OUTPUT) {
            self.send().await;
        }
    }

    /// Time went by.
    pub(crate) async fn beat(&mut self) {
        if self.pace.due(Instant::now(), HEARTBEAT) {
            self.send().await;
        }
    }

    async fn send(&mut self) {
        let (progress, message) = self.pace.next(Instant::now());
        let notification =
            ProgressNotificationParam::new(self.token.clone(), progress).with_message(message);
        // A client that is gone is noticed when the answer is sent.
        if let Err(error) = self.peer.notify_progress(notification).await {
            tracing::debug!(%error, "progress was not delivered");
        }
    }
}

/// When to send what.
#[derive(Debug)]
struct Pace {
    started: Instant,
    sent: Instant,
    last: f64,
    bytes: u64,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { started: now, sent: now, last: 0.0, bytes: 0 }
    }

    fn due(&self, now: Instant, gap: Duration) -> bool {
        now.duration_since(self.sent) >= gap
    }

    fn next(&mut self, now: Instant) -> (f64, String) {
        let elapsed = now.duration_since(self.started);
        self.sent = now;
        self.last = (elapsed.as_secs_f64() * 1000.0).round() / 1000.0;
        let seconds = elapsed.as_secs();
        (self.last, format!("running, {seconds} s so far, {} bytes of output", self.bytes))
    }
}
