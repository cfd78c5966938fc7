//! What the engine works by, and what passes through it that is not a wire type.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use crate::backend::Stream;
use crate::isolation::Layer;
use crate::limits::Limits;
use crate::outcome::Outcome;
use crate::request::{NetworkRequest, WriteMode};
use crate::runtime::Runtime;

/// What the engine works by: resolved, complete, plain data.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where workspaces are kept: `<data_dir>/workspaces/<dir>`.
    pub data_dir: PathBuf,
    /// Limits of those who ask for none.
    pub default_limits: Limits,
    /// What callers may ask for at most.
    pub ceiling: Limits,
    /// Layers without which nothing runs.
    pub required_layers: Vec<Layer>,
    /// Networks a caller may ask for. `None` is always allowed.
    pub networks: Vec<NetworkRequest>,
    /// Directory on the machine -> absolute path inside, read-only.
    pub host_mounts: BTreeMap<PathBuf, PathBuf>,
    /// Root directories that may be named as image.
    pub image_roots: Vec<PathBuf>,
    /// The runtimes, best known first.
    pub runtimes: Vec<Runtime>,
    /// Packages that are ready, by runtime id, as `name version`.
    pub packages: BTreeMap<String, Vec<String>>,
    /// Environment of every program; callers and runtimes override it.
    pub base_env: BTreeMap<String, String>,
    /// Environment that nobody overrides, for example `FILE_BASE_URL`.
    pub fixed_env: BTreeMap<String, String>,
    /// Runs at once.
    pub max_concurrent: u32,
    /// Runs that may wait for a slot.
    pub max_queued: u32,
    /// How long a call waits for the end of a run by default.
    pub answer_within: Duration,
    /// A sandbox without activity is removed after this.
    pub sandbox_idle: Duration,
    /// A sandbox is removed after this, whatever happens.
    pub sandbox_life: Duration,
    /// Live sandboxes per owner.
    pub max_sandboxes_per_owner: u32,
    /// A workspace without use is removed after this; `None` keeps it for ever.
    pub workspace_idle: Option<Duration>,
    /// How long an ended run can still be asked for.
    pub run_retention: Duration,
    /// Bytes a workspace may hold.
    pub workspace_bytes: u64,
}

/// A stream of bytes from a caller or to one.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;

/// Something that happened to a run, for those who watch it live.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// Bytes of a stream, at this position of the whole stream.
    Output {
        /// The stream.
        stream: Stream,
        /// Position of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// It ended. Nothing follows.
    Ended(Outcome),
}

/// What to write into a file, and how.
#[derive(Debug, Clone)]
pub struct FileWrite {
    /// The new content, or the part to add or to put in place of `old`.
    pub content: Vec<u8>,
    /// How.
    pub mode: WriteMode,
    /// For `replace`: the exact bytes to swap.
    pub old: Option<Vec<u8>>,
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListFiles {
    /// A directory; absent or empty is the workspace itself.
    pub path: Option<String>,
    /// A glob over whole paths, for example `**/*.csv`.
    pub glob: Option<String>,
    /// How deep; 1 (the directory itself) unless a glob is given.
    pub depth: Option<u32>,
}

/// A file that is open for download.
pub struct Download {
    /// The content from the wanted offset on.
    pub reader: Reader,
    /// Size of the whole file.
    pub size: u64,
    /// Last change, seconds since 1970.
    pub modified: i64,
    /// Media type, from the name.
    pub media_type: String,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("size", &self.size).finish_non_exhaustive()
    }
}

/// A run as a live stream: what was kept so far comes first.
#[derive(Debug)]
pub struct RunWatch {
    /// Handle of the run.
    pub run: String,
    /// Handle of its sandbox.
    pub sandbox: String,
    /// What happens. Ends after `RunEvent::Ended`.
    pub events: mpsc::Receiver<RunEvent>,
}
