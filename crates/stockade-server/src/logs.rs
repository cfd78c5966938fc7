//! Logs: to standard error, as text or JSON. Audit records have the target `audit`.

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::config::Log;

/// Starts logging. Later calls change nothing.
pub fn start(log: &Log) {
    let filter: Targets = log.level.parse().unwrap_or_default();
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = if log.json {
        layer.json().flatten_event(true).boxed()
    } else {
        layer.with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    // Fails only when a subscriber is there already, as in tests.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
