//! Vocabulary, policy and engine of Stockade. Knows no HTTP, no MCP and no backend.
//!
//! | word | meaning |
//! |---|---|
//! | image | a read-only root file system with runtimes in it |
//! | runtime | how one language runs: one table entry |
//! | workspace | a directory of files that outlives runs; has an owner and mostly a name |
//! | sandbox | a live isolated place: image, workspace, limits, network |
//! | run | one execution in a sandbox: queued, starting, running, ended with a verdict |
//! | limits | what a run or a sandbox may use at most |
//! | verdict | how a run ended, out of a closed set |
//! | backend | what makes sandboxes |
//! | assurance | how strong the wall really is, probed, not assumed |
//! | agent | our small static program that is process 1 in every sandbox |
//! | launcher | our small process that makes native sandboxes; the only one with privileges |

pub mod backend;
pub mod caller;
#[cfg(feature = "test-support")]
pub mod contract;
pub mod engine;
pub mod error;
#[cfg(feature = "test-support")]
pub mod fake;
mod host_dir;
pub mod id;
pub mod isolation;
pub mod limits;
pub mod outcome;
pub mod path;
pub mod request;
pub mod runtime;
pub mod spec;
pub mod store;

pub use error::{Error, Result};
