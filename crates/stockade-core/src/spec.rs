//! What a backend is told to build and to run: resolved, complete, plain data.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::isolation::Layer;
use crate::limits::Limits;

/// A sandbox to build.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSpec {
    /// The root file system.
    pub image: Image,
    /// The directory that appears at `/workspace`, on the machine of the server.
    pub workspace: PathBuf,
    /// Limits of the sandbox as a whole and defaults of its runs.
    pub limits: Limits,
    /// What it may reach.
    pub network: Network,
    /// Layers without which it must not be built.
    pub required: Vec<Layer>,
}

/// A read-only root file system with runtimes in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Image {
    /// The machine's own `/usr`, with further directories mounted read-only.
    Host {
        /// Directory on the machine -> absolute path inside.
        mounts: BTreeMap<PathBuf, PathBuf>,
    },
    /// An unpacked root directory.
    Root(PathBuf),
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// Its own loopback only.
    None,
    /// The machine's network, as the operator allowed.
    Open,
}

/// A command to start in a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Program and arguments. The program is looked up in `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// Absolute directory inside the sandbox.
    pub workdir: PathBuf,
    /// Files the agent writes before the start, outside the workspace, owned by the program.
    pub files: Vec<ProgramFile>,
    /// Where standard input comes from.
    pub stdin: Stdin,
    /// Limits of this run.
    pub limits: Limits,
    /// What to do when output comes faster than it is read.
    pub overflow: Overflow,
    /// A second start with the same key gives the first run.
    pub idempotency_key: Option<String>,
}

/// A file that the agent writes before a run starts, below `/tmp/run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFile {
    /// Absolute path inside the sandbox.
    pub path: PathBuf,
    /// Its content.
    pub content: Vec<u8>,
}

/// Where standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: reads see the end at once.
    Closed,
    /// The caller feeds it through `Control`.
    Piped,
}

/// What to do when output comes faster than it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Keep head and tail, drop the middle; the program never waits.
    DropMiddle,
    /// Drop nothing; the program waits, as with a pipe.
    Wait,
}
