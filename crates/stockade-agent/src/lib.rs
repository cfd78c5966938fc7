//! Process 1 of every sandbox, and the launcher that makes native ones.
//!
//! One small static program. No async runtime, no threads, no network, and no
//! other crate of ours. It refuses to decide anything: every number in it came
//! with a request.

pub mod agent;
pub mod launcher;
pub mod sys;
pub mod wire;

mod init;
mod landlock;
mod report;
pub mod seccomp;
mod spool;
mod steps;
