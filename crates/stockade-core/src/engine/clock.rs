//! The time of day, in a form that a paused test clock moves too.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::store::UnixSeconds;

/// The machine's clock, plus what a test skipped of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    real: std::time::Instant,
    counted: tokio::time::Instant,
}

impl Clock {
    /// A clock that starts to count now.
    pub(crate) fn new() -> Self {
        Self { real: std::time::Instant::now(), counted: tokio::time::Instant::now() }
    }

    /// Seconds since 1970.
    pub(crate) fn now(&self) -> UnixSeconds {
        let skipped = self.counted.elapsed().saturating_sub(self.real.elapsed());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixSeconds::try_from((since + skipped).as_secs()).unwrap_or(UnixSeconds::MAX)
    }
}
