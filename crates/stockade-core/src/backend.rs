//! The seam: one way of isolating untrusted code.
//!
//! A backend holds no policy. Every number and every default was decided
//! before a call arrives here. Every run is started by our agent, which is
//! process 1 of the sandbox; core never sees how its messages travel.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::error::Result;
use crate::id::SandboxId;
use crate::isolation::Isolation;
use crate::outcome::Usage;
use crate::spec::{Command, SandboxSpec};

/// Makes sandboxes.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// The name used in configuration and reports.
    fn name(&self) -> &'static str;

    /// What this host can enforce at this moment. Really tries each layer.
    async fn probe(&self) -> Result<Isolation>;

    /// Builds a sandbox, or fails if a required layer cannot be enforced.
    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>>;

    /// Sandboxes that an earlier process of this server left running.
    /// Whatever cannot be taken over is removed before this returns.
    async fn recover(&self) -> Result<Vec<(SandboxId, Arc<dyn Sandbox>)>>;

    /// Ends everything this backend started. Nothing can be created afterwards.
    async fn shutdown(&self);
}

/// A live isolated place.
#[async_trait]
pub trait Sandbox: fmt::Debug + Send + Sync {
    /// What is enforced here in fact, layer by layer.
    fn isolation(&self) -> &Isolation;

    /// Starts a command. A command that cannot be started (no such program,
    /// not executable) still gives a process: its exit says `Refused`.
    async fn spawn(&self, command: Command) -> Result<Process>;

    /// What the sandbox uses right now.
    async fn usage(&self) -> Result<SandboxUsage>;

    /// Resolves when the sandbox has died by itself or was destroyed.
    async fn gone(&self);

    /// Idempotent; returns once nothing of the sandbox is left.
    async fn destroy(&self) -> Result<()>;
}

/// What a sandbox uses at one moment. `None` where the host cannot measure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SandboxUsage {
    /// Memory in use, in bytes.
    pub memory_bytes: Option<u64>,
    /// Most memory in use at once since the sandbox was made, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Processor time since the sandbox was made, in microseconds.
    pub cpu_us: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// One running command: what comes out of it, and how to act on it.
#[derive(Debug)]
pub struct Process {
    /// What happens, in order. The last event is `Exited`; after it the channel closes.
    /// A channel that closes without `Exited` means that the sandbox is lost.
    pub events: mpsc::Receiver<ProcessEvent>,
    /// How to act on the process.
    pub control: Arc<dyn Control>,
}

/// Which output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Bytes of a stream. `offset` counts all bytes the program wrote to that
    /// stream; a jump means that the middle was dropped to keep the cap.
    Output {
        /// The stream.
        stream: Stream,
        /// Position of the first byte in the whole stream.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The process and its whole tree are gone.
    Exited(Exit),
}

/// How a process ended, as the kernel and the agent saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// What the kernel reported.
    pub status: ExitStatus,
    /// Who ended it, when it did not end by itself.
    pub cause: Option<EndCause>,
    /// What it cost.
    pub usage: Usage,
}

/// The kernel's word about the end of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(u8),
    /// A signal of this number ended it.
    Signal(u8),
    /// It could not be started; one sentence says why.
    Refused(String),
}

/// Why a run was ended from outside the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndCause {
    /// The wall-time limit.
    WallTime,
    /// The processor-time limit.
    CpuTime,
    /// The memory limit, from the kernel's own count of out-of-memory kills.
    Memory,
    /// The limit on processes and threads, from the kernel's own count.
    Pids,
    /// The limit on output.
    Output,
    /// The limit on file size or disk.
    Disk,
    /// A caller.
    Cancelled,
}

/// Acts on one running process.
#[async_trait]
pub trait Control: fmt::Debug + Send + Sync {
    /// Feeds standard input. Waits while the program does not read.
    async fn write_stdin(&self, bytes: Bytes) -> Result<()>;
    /// Closes standard input.
    async fn close_stdin(&self) -> Result<()>;
    /// Delivers a signal to the program (not to its whole tree).
    async fn signal(&self, signal: u8) -> Result<()>;
    /// Ends the whole tree. The exit will name this cause unless the program
    /// had ended by itself before.
    async fn kill(&self, cause: EndCause) -> Result<()>;
}
