//! Everything this system can do. REST, MCP and the command line are ways to ask.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use crate::backend::{Backend, Stream};
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::isolation::{Isolation, Layer};
use crate::limits::Limits;
use crate::outcome::Outcome;
use crate::request::{
    ContinueRun, CreateSandbox, FileContent, FilePlace, Health, Listing, NetworkRequest, RunCode,
    RunCommand, RunView, RuntimesView, SandboxView, WorkspaceView, WriteMode,
};
use crate::runtime::Runtime;
use crate::store::Store;

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

/// Everything this system can do.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    backend: Arc<dyn Backend>,
    store: Arc<dyn Store>,
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

fn unfinished<T>() -> Result<T> {
    Err(Error::Unsupported { feature: "this call", hint: "not built yet".to_owned() })
}

impl Engine {
    /// Sweeps what an earlier process left, then is ready for calls.
    pub async fn start(
        settings: Settings,
        backend: Arc<dyn Backend>,
        store: Arc<dyn Store>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { settings, backend, store }))
    }

    /// What the engine works by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where records are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What the host enforces, as last probed.
    pub async fn isolation(&self) -> Result<Isolation> {
        self.backend.probe().await
    }

    /// Runs code. Answers at its end, or after `options.wait` with the run's handle.
    pub async fn run_code(
        self: &Arc<Self>,
        _caller: &Caller,
        _request: RunCode,
    ) -> Result<RunView> {
        unfinished()
    }

    /// Runs a command. Answers at its end, or after `options.wait` with the run's handle.
    pub async fn run_command(
        self: &Arc<Self>,
        _caller: &Caller,
        _request: RunCommand,
    ) -> Result<RunView> {
        unfinished()
    }

    /// Starts code and gives its live stream; dropping the stream cancels the run.
    pub async fn stream_code(
        self: &Arc<Self>,
        _caller: &Caller,
        _request: RunCode,
    ) -> Result<RunWatch> {
        unfinished()
    }

    /// Waits for a run, feeds it, signals it, reads on.
    pub async fn continue_run(&self, _caller: &Caller, _request: ContinueRun) -> Result<RunView> {
        unfinished()
    }

    /// The run as it stands.
    pub async fn run(&self, _caller: &Caller, _run: &str) -> Result<RunView> {
        unfinished()
    }

    /// Watches a run live, from its first kept byte.
    pub async fn watch(&self, _caller: &Caller, _run: &str) -> Result<RunWatch> {
        unfinished()
    }

    /// Feeds a run's standard input.
    pub async fn feed(&self, _caller: &Caller, _run: &str, _input: Bytes) -> Result<()> {
        unfinished()
    }

    /// Closes a run's standard input.
    pub async fn close_stdin(&self, _caller: &Caller, _run: &str) -> Result<()> {
        unfinished()
    }

    /// Ends a run and its whole tree.
    pub async fn cancel(&self, _caller: &Caller, _run: &str) -> Result<()> {
        unfinished()
    }

    /// Makes a sandbox, or gives the caller's existing one of that name.
    pub async fn create_sandbox(
        &self,
        _caller: &Caller,
        _request: CreateSandbox,
    ) -> Result<SandboxView> {
        unfinished()
    }

    /// The caller's sandboxes.
    pub async fn sandboxes(&self, _caller: &Caller) -> Result<Vec<SandboxView>> {
        unfinished()
    }

    /// One sandbox, by handle or name.
    pub async fn sandbox(&self, _caller: &Caller, _sandbox: &str) -> Result<SandboxView> {
        unfinished()
    }

    /// Ends a sandbox: its runs are cancelled, nothing of it is left.
    pub async fn stop_sandbox(&self, _caller: &Caller, _sandbox: &str) -> Result<()> {
        unfinished()
    }

    /// Reads a part of a file (at most 8 MiB).
    pub async fn read_file(
        &self,
        _caller: &Caller,
        _place: &FilePlace,
        _path: &str,
        _range: (u64, u64),
    ) -> Result<FileContent> {
        unfinished()
    }

    /// Writes a file from memory; parents are made. Gives the new size.
    pub async fn write_file(
        &self,
        _caller: &Caller,
        _place: &FilePlace,
        _path: &str,
        _content: FileWrite,
    ) -> Result<u64> {
        unfinished()
    }

    /// Writes a file from a stream; atomic, parents are made. Gives its size.
    pub async fn upload(
        &self,
        _caller: &Caller,
        _place: &FilePlace,
        _path: &str,
        _content: Reader,
    ) -> Result<u64> {
        unfinished()
    }

    /// Opens a file for download from an offset on.
    pub async fn download(
        &self,
        _caller: &Caller,
        _place: &FilePlace,
        _path: &str,
        _offset: u64,
    ) -> Result<Download> {
        unfinished()
    }

    /// Opens a file of the workspace in this directory, for a download link that
    /// was checked already.
    pub async fn download_linked(&self, _dir: &str, _path: &str, _offset: u64) -> Result<Download> {
        unfinished()
    }

    /// The directory name of a place's workspace, for download links.
    pub async fn workspace_dir(&self, _caller: &Caller, _place: &FilePlace) -> Result<String> {
        unfinished()
    }

    /// Lists a directory down to `depth`, or what a glob matches; capped at 1,000 entries.
    pub async fn list_files(
        &self,
        _caller: &Caller,
        _place: &FilePlace,
        _request: ListFiles,
    ) -> Result<Listing> {
        unfinished()
    }

    /// Removes a file or an empty directory.
    pub async fn remove_file(
        &self,
        _caller: &Caller,
        _place: &FilePlace,
        _path: &str,
    ) -> Result<()> {
        unfinished()
    }

    /// The caller's named workspaces.
    pub async fn workspaces(&self, _caller: &Caller) -> Result<Vec<WorkspaceView>> {
        unfinished()
    }

    /// Makes a workspace. Fails with `Conflict` when it is there.
    pub async fn create_workspace(&self, _caller: &Caller, _name: &str) -> Result<WorkspaceView> {
        unfinished()
    }

    /// Removes a workspace and everything in it. Fails with `Conflict` while a sandbox uses it.
    pub async fn remove_workspace(&self, _caller: &Caller, _name: &str) -> Result<()> {
        unfinished()
    }

    /// Languages, versions, packages, limits and networks.
    pub async fn runtimes(&self, _caller: &Caller) -> Result<RuntimesView> {
        unfinished()
    }

    /// Figures for the health check. Needs no caller.
    pub async fn health(&self) -> Health {
        Health {
            running: 0,
            max_concurrent: self.settings.max_concurrent,
            queued: 0,
            sandboxes: 0,
            workspaces: 0,
        }
    }

    /// No new work; running work gets `grace`, then is cancelled. Nothing is left afterwards.
    pub async fn shutdown(&self, _grace: Duration) {
        self.backend.shutdown().await;
    }
}
