//! What the server and the launcher say to each other.
//!
//! One postcard message per packet of a `SOCK_SEQPACKET` pair, descriptors
//! beside it. Both ends are ours and trust each other; the strict decoding is
//! there to find our own mistakes. The launcher answers a request once, names
//! its sandbox in the answer, and may say `Died` or `OutOfMemory` at any time.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Largest message in either direction: it must fit into a socket's buffer.
pub const MAX_MESSAGE: usize = 128 << 10;

/// A sandbox, as numbered by the server. Never used twice with one launcher.
pub type Id = u64;

/// From the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Always first, and only once.
    Start(Config),
    /// Builds a throw-away sandbox and looks at it from both sides.
    Probe,
    /// Builds a sandbox. Comes with one descriptor: the agent's end of its channel.
    Create {
        /// The new sandbox.
        id: Id,
        /// What to build.
        plan: Box<Plan>,
    },
    /// Reads what a sandbox uses.
    Figures {
        /// The sandbox.
        id: Id,
        /// Whether the peak of memory starts anew after this reading.
        restart_peak: bool,
    },
    /// Ends a sandbox and all that is in it.
    Destroy {
        /// The sandbox.
        id: Id,
    },
}

/// What the launcher needs to know once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// A directory of ours: journals of instances, and the place where roots are put together.
    pub state_dir: ByteBuf,
    /// First of the user and group ids that sandboxes get, when started as root.
    pub id_base: u32,
    /// How many sandboxes may be alive at once; each takes two ids.
    pub sandboxes: u32,
}

/// A sandbox to build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The root file system.
    pub image: Image,
    /// The directory that appears at `/workspace`.
    pub workspace: ByteBuf,
    /// What it may reach.
    pub network: Network,
    /// Bounds of the whole sandbox.
    pub bounds: Bounds,
}

/// A read-only root file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Image {
    /// The machine's own `/usr`, and directories of the machine at paths inside.
    Host {
        /// Directory on the machine, absolute path inside.
        mounts: Vec<(ByteBuf, ByteBuf)>,
    },
    /// An unpacked root directory.
    Root(ByteBuf),
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Network {
    /// Its own loopback only.
    None,
    /// Whatever the machine reaches.
    Open,
}

/// Bounds of a whole sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Memory, swap included.
    pub memory_bytes: u64,
    /// Processes and threads of programs.
    pub pids: u32,
    /// Thousandths of a processor.
    pub cpu_millis: u32,
    /// Size of /tmp, and of /dev/shm.
    pub tmp_bytes: u64,
}

/// From the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to `Start`.
    Started,
    /// The answer to `Start` when nothing can be done here.
    StartFailed(Failure),
    /// The answer to `Probe`.
    Probed(Box<ProbeReport>),
    /// The sandbox stands, and its agent is about to say so on its channel.
    Created {
        /// The sandbox.
        id: Id,
        /// Its process 1, as the machine numbers it.
        pid: i32,
        /// How its workspace is owned.
        ownership: Ownership,
    },
    /// The sandbox could not be built; nothing of it is left.
    Failed {
        /// The sandbox.
        id: Id,
        /// What failed.
        failure: Failure,
    },
    /// The answer to `Figures`; nothing for a sandbox that is not there.
    Figures {
        /// The sandbox.
        id: Id,
        /// What it uses.
        figures: Option<Figures>,
    },
    /// Nothing of the sandbox is left. Also said of one that was never there.
    Destroyed {
        /// The sandbox.
        id: Id,
        /// What it used in all.
        figures: Figures,
    },
    /// The sandbox ended by itself; nothing of it is left.
    Died {
        /// The sandbox.
        id: Id,
        /// What it used in all.
        figures: Figures,
    },
    /// The kernel killed something in the sandbox for want of memory.
    OutOfMemory {
        /// The sandbox.
        id: Id,
    },
}

/// Something that could not be done: the step, and what the kernel said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was being done, as a phrase.
    pub step: String,
    /// The kernel's error number; 0 where the kernel was not asked.
    pub errno: i32,
}

/// How the files of a workspace are owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// By the server's user, whatever happens inside.
    Server,
    /// Files made inside belong to the sandbox's own id: the file system cannot map owners.
    Sandbox,
}

/// What a sandbox uses. `None` where nothing measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Memory in use, in bytes.
    pub memory: Option<u64>,
    /// Most memory in use at once, in bytes, since it was made or last restarted.
    pub peak: Option<u64>,
    /// Processor time in microseconds.
    pub cpu_us: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Times that a new process or thread was refused.
    pub pids_refused: Option<u64>,
}

/// What stands behind each part of the wall on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Whether the launcher has the machine's root.
    pub root: bool,
    /// Why no sandbox could be built, if so; the findings below are then empty.
    pub failure: Option<Failure>,
    /// What was seen from within.
    pub inside: Inside,
    /// What bounds memory; nothing if nothing does.
    pub memory: Option<String>,
    /// What bounds processes.
    pub pids: Option<String>,
    /// What bounds processors.
    pub cpu: Option<String>,
    /// Whether a whole group is killed at once by the kernel.
    pub group_kill: bool,
    /// Whether owners of workspaces are mapped.
    pub ownership: Option<Ownership>,
    /// What could not be had of a resource group, and why.
    pub group_problem: Option<String>,
}

/// A throw-away sandbox as seen by a program in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "findings that do not depend on each other")]
pub struct Inside {
    /// The root is read-only.
    pub root_read_only: bool,
    /// A file of the machine that lies outside the image cannot be found.
    pub host_hidden: bool,
    /// Process ids in /proc other than 1.
    pub foreign_processes: u32,
    /// Network interfaces other than loopback.
    pub foreign_interfaces: u32,
    /// The filter let an allowed call through and refused a forbidden one.
    pub filter_works: bool,
    /// Landlock's version; 0 where the kernel has none.
    pub landlock: u32,
    /// A program would have no capability and could gain none.
    pub no_privileges: bool,
}

/// Takes exactly one message.
///
/// # Errors
/// Fails when the bytes are anything but one message.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (message, []) => Ok(message),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

/// The bytes of one message.
///
/// # Errors
/// Fails when the message does not fit into a packet.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, postcard::Error> {
    let bytes = postcard::to_extend(message, Vec::new())?;
    if bytes.len() > MAX_MESSAGE {
        return Err(postcard::Error::SerializeBufferFull);
    }
    Ok(bytes)
}
