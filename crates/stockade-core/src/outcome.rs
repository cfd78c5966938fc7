//! How a run ended: exactly one verdict out of a closed set, with its figures.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run ended. Taken from the kernel, never guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Exit code 0.
    Ok,
    /// Exit code 1 to 255.
    Nonzero,
    /// Ended by a signal that we did not send.
    Signal,
    /// The wall-time limit ended it.
    Timeout,
    /// The processor-time limit ended it.
    CpuLimit,
    /// The memory limit ended it.
    MemoryLimit,
    /// The limit on processes and threads made it fail.
    PidsLimit,
    /// It wrote more output than it may.
    OutputLimit,
    /// It filled its disk.
    DiskLimit,
    /// A caller ended it.
    Cancelled,
    /// The sandbox vanished under it.
    Lost,
    /// It was never started: the program cannot be executed as asked.
    Refused,
    /// We failed. Nothing is known about the program.
    Internal,
}

impl Verdict {
    /// The name used on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Nonzero => "nonzero",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::CpuLimit => "cpu_limit",
            Self::MemoryLimit => "memory_limit",
            Self::PidsLimit => "pids_limit",
            Self::OutputLimit => "output_limit",
            Self::DiskLimit => "disk_limit",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::Internal => "internal",
        }
    }
}

/// What a run cost. Fields are `None` where the host cannot measure them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Time from the start of the program to its end, in microseconds.
    pub wall_us: u64,
    /// Processor time in user mode of the whole tree, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel of the whole tree, in microseconds.
    pub system_us: u64,
    /// Most memory in use at once by the largest process, or by the whole
    /// sandbox where a resource group measures it, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Bytes written to standard output, kept or not.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, kept or not.
    pub stderr_bytes: u64,
}

impl Usage {
    /// The wall time as a duration.
    pub fn wall(&self) -> Duration {
        Duration::from_micros(self.wall_us)
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// The exit code, when the program exited by itself.
    pub exit_code: Option<u8>,
    /// The signal's number, when a signal ended it (ours included).
    pub signal: Option<u8>,
    /// What it cost.
    pub usage: Usage,
    /// One sentence about the cause, for verdicts that need one.
    pub detail: Option<String>,
}
