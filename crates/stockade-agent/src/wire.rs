//! The wire protocol between the server and the agent.
//!
//! A frame is a little-endian `u32` length and that many bytes: one postcard
//! message with nothing behind it. Every length is capped before anything is
//! allocated. The server treats every byte of an agent as hostile: no paths,
//! no formats, nothing is trusted beyond its type.
//!
//! A *tag* names one conversation about one run. The server picks it. A start
//! whose idempotency key was seen before opens a second conversation about
//! the first run, from its first kept byte on; nothing runs twice.
//!
//! ```text
//! server ── Start ─────────────▶ agent      agent ── Ready ───▶ server
//!        ── Stdin, CloseStdin ─▶                  ── Output ──▶   (any number)
//!        ── Signal, Kill ──────▶                  ── StdinTaken ▶ (credit)
//!        ── Forget ────────────▶                  ── Ended ───▶   (last of a tag)
//! ```

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;

/// Version of this protocol; both sides must have the same.
pub const VERSION: u32 = 1;
/// Largest frame that the agent takes: program files are in it.
pub const MAX_REQUEST: usize = 24 << 20;
/// Largest frame that the server takes.
pub const MAX_EVENT: usize = 128 << 10;
/// Largest piece of output in one event.
pub const OUTPUT_CHUNK: usize = 64 << 10;
/// Bytes of standard input that may be under way before the agent has taken them.
pub const STDIN_WINDOW: usize = 256 << 10;

/// One conversation about one run.
pub type Tag = u64;

/// From the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Starts a run, or finds the one with this idempotency key.
    Start {
        /// The new conversation.
        tag: Tag,
        /// What to run.
        start: Box<Start>,
    },
    /// Feeds standard input; at most `STDIN_WINDOW` bytes ahead of `StdinTaken`.
    Stdin {
        /// The conversation.
        tag: Tag,
        /// The bytes.
        bytes: ByteBuf,
    },
    /// Closes standard input once all that was fed is taken.
    CloseStdin {
        /// The conversation.
        tag: Tag,
    },
    /// Delivers a signal to the program itself.
    Signal {
        /// The conversation.
        tag: Tag,
        /// The signal's number.
        signal: u8,
    },
    /// Ends the whole tree of the run.
    Kill {
        /// The conversation.
        tag: Tag,
        /// What `Ended` will name as cause.
        cause: Cause,
    },
    /// Nobody listens to this conversation any more.
    Forget {
        /// The conversation.
        tag: Tag,
    },
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Program and arguments; the program is looked up in `PATH` of `env` unless it has a slash.
    pub argv: Vec<ByteBuf>,
    /// The whole environment.
    pub env: Vec<(ByteBuf, ByteBuf)>,
    /// Absolute working directory.
    pub workdir: ByteBuf,
    /// Files written before the start, with the program's own identity.
    pub files: Vec<(ByteBuf, ByteBuf)>,
    /// Whether standard input is fed; otherwise it is at its end from the beginning.
    pub stdin: bool,
    /// Whether the program waits for the reader instead of losing the middle of its output.
    pub lossless: bool,
    /// A second start with this key gives the first run.
    pub key: Option<String>,
    /// Limits of the run.
    pub limits: RunLimits,
}

/// Limits that the agent enforces on one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Wall time in milliseconds.
    pub wall_ms: u64,
    /// Processor time of one process in milliseconds (the kernel counts whole seconds).
    pub cpu_ms: u64,
    /// Bytes of each stream that are kept.
    pub output_kept: u32,
    /// Bytes of both streams after which the run is ended.
    pub output_max: u64,
    /// Largest file it may write.
    pub file_bytes: u64,
    /// Open files of one process.
    pub open_files: u32,
    /// Processes of the sandbox's user; a second wall behind the resource group.
    pub processes: u32,
    /// Data segment of one process, where no resource group bounds memory; 0 = not set.
    pub data_bytes: u64,
}

/// Why a run was ended from outside the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The wall-time limit.
    WallTime,
    /// The processor-time limit.
    CpuTime,
    /// The memory limit.
    Memory,
    /// The limit on processes and threads.
    Pids,
    /// The limit on output.
    Output,
    /// The limit on file size or disk.
    Disk,
    /// A caller.
    Cancelled,
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// From the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The agent is there. Always the first event.
    Ready {
        /// Its protocol version.
        version: u32,
    },
    /// Bytes of a stream.
    Output {
        /// The conversation.
        tag: Tag,
        /// The stream.
        stream: Stream,
        /// Position of the first byte in the whole stream. A jump means a dropped middle.
        offset: u64,
        /// The bytes.
        bytes: ByteBuf,
    },
    /// So many bytes of standard input have been taken in all.
    StdinTaken {
        /// The conversation.
        tag: Tag,
        /// Sum since the start.
        total: u64,
    },
    /// The run is over and nothing of it is left. The last event of a tag.
    Ended {
        /// The conversation.
        tag: Tag,
        /// How it ended.
        end: End,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The kernel's word.
    pub status: Status,
    /// Who ended it, when it did not end by itself.
    pub cause: Option<Cause>,
    /// Wall time in microseconds.
    pub wall_us: u64,
    /// User time of the whole tree in microseconds.
    pub user_us: u64,
    /// System time of the whole tree in microseconds.
    pub system_us: u64,
    /// Largest resident set of any one process of the tree, in bytes.
    pub max_rss_bytes: u64,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
}

/// The kernel's word about the end of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It exited with this code.
    Code(u8),
    /// A signal of this number ended it.
    Signal(u8),
    /// It was never started.
    Refused(Refusal),
}

/// Why a program could not be started: the step, and what the kernel said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What was being done.
    pub step: Step,
    /// The kernel's error number.
    pub errno: i32,
}

/// What can fail before a program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The request itself makes no sense (a NUL byte, no program).
    Request,
    /// Making the processes of the run.
    Process,
    /// Mounting the run's own /proc.
    Proc,
    /// Taking the run's identity, dropping capabilities.
    Identity,
    /// Entering the working directory.
    Workdir,
    /// Writing the program files.
    Files,
    /// Setting resource limits.
    Limits,
    /// Restricting the file system.
    Landlock,
    /// Installing the system-call filter.
    Seccomp,
    /// Executing the program.
    Exec,
}

/// A frame that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The length is above the cap.
    TooLong,
    /// The bytes are not exactly one message.
    Malformed,
}

/// Writes one frame to the end of `out`.
pub fn encode<T: Serialize>(message: &T, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let body = postcard::to_extend(message, std::mem::take(out))
        .expect("messages have no maps of unknown length and no failing serializers");
    *out = body;
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes one frame off the front of `bytes`. `None` when it is not all there yet;
/// otherwise the message and the frame's whole length.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], cap: usize) -> Result<Option<(T, usize)>, Broken> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*head) as usize;
    if length > cap {
        return Err(Broken::TooLong);
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(Some((message, length + 4))),
        _ => Err(Broken::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_whole_or_not_at_all() {
        let event = Event::Output {
            tag: 7,
            stream: Stream::Stderr,
            offset: 1 << 40,
            bytes: ByteBuf::from(vec![0, 255, 10]),
        };
        let mut frame = Vec::new();
        encode(&event, &mut frame);
        for cut in 0..frame.len() {
            assert_eq!(decode::<Event>(&frame[..cut], MAX_EVENT), Ok(None), "cut at {cut}");
        }
        assert_eq!(decode(&frame, MAX_EVENT), Ok(Some((event, frame.len()))));
    }

    #[test]
    fn frames_that_lie_are_refused() {
        let mut frame = Vec::new();
        encode(&Event::Ready { version: 1 }, &mut frame);
        assert_eq!(decode::<Event>(&frame, 1), Err(Broken::TooLong));
        frame[0] += 1;
        frame.push(0);
        assert_eq!(decode::<Event>(&frame, MAX_EVENT), Err(Broken::Malformed), "trailing byte");
        assert_eq!(decode::<Event>(&[1, 0, 0, 0, 99], MAX_EVENT), Err(Broken::Malformed));
    }
}
