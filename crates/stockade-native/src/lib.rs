//! The backend made from the Linux kernel alone.
//!
//! This side holds no privilege and makes no sandbox: it asks the launcher, a
//! small process that is started before the server grows, and talks to the
//! agent in each sandbox over a stream of its own. It makes no policy.

mod control;
mod convert;
mod launch;
mod native;
mod probe;
mod sandbox;
mod watch;

pub use native::{Native, NativeOptions};

/// The name of this backend in configuration and reports.
const NAME: &str = "native";
