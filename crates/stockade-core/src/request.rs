//! What callers send and what they see. The only wire types of this crate:
//! REST, MCP and the command line share them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::isolation::Isolation;
use crate::limits::LimitsRequest;
use crate::outcome::{Outcome, Usage, Verdict};

/// Which network a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkRequest {
    /// No network at all.
    #[default]
    None,
    /// Package registries only.
    Packages,
    /// The operator's allow list.
    Allowlist,
    /// The machine's network.
    Open,
}

/// Code in a language.
#[derive(Debug, Clone, Default)]
pub struct RunCode {
    /// The program.
    pub code: String,
    /// Id or alias of a runtime.
    pub language: String,
    /// Where and how.
    pub options: RunOptions,
    /// Packages the program needs.
    pub packages: Vec<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Echo the value of the last expression, where the runtime can.
    pub echo: bool,
}

/// What a command line is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CommandLine {
    /// A text for the shell.
    Shell(String),
    /// Program and arguments.
    Argv(Vec<String>),
}

/// A command.
#[derive(Debug, Clone)]
pub struct RunCommand {
    /// The command.
    pub command: CommandLine,
    /// Where and how.
    pub options: RunOptions,
}

/// Where and how something runs. Shared by code and commands.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// An existing sandbox; without one, one is made.
    pub sandbox: Option<String>,
    /// A workspace by name, made when it is not there; without one, the
    /// sandbox gets a private one that goes away with it.
    pub workspace: Option<String>,
    /// Directory inside the workspace.
    pub workdir: Option<String>,
    /// Text for standard input; the stream ends after it.
    pub stdin: Option<StdinRequest>,
    /// Further environment.
    pub env: BTreeMap<String, String>,
    /// Which network; absent takes the sandbox's.
    pub network: Option<NetworkRequest>,
    /// Limits.
    pub limits: LimitsRequest,
    /// Start in a fresh interpreter even where the sandbox keeps one.
    pub fresh: bool,
    /// A second call with this key gives the first run.
    pub idempotency_key: Option<String>,
    /// How long the call waits for the end before it answers with the run's handle.
    pub wait: Wait,
    /// Remove the sandbox when the run has ended (only for one made by this call).
    pub ephemeral: bool,
    /// Drop nothing of the output: the program waits for the reader.
    pub lossless: bool,
}

/// Where standard input comes from.
#[derive(Debug, Clone)]
pub enum StdinRequest {
    /// This text, then the end.
    Text(String),
    /// Whatever the caller feeds through `continue_run`.
    Open,
}

/// How long a call waits for the end of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Wait {
    /// The configured time below the clients' own time-outs (25 s).
    #[default]
    Default,
    /// This many seconds.
    Seconds(f64),
    /// Not at all: the run goes on in the background.
    Background,
    /// To the end.
    Forever,
}

/// Wait for a run, feed it, signal it, read on.
#[derive(Debug, Clone, Default)]
pub struct ContinueRun {
    /// The run's handle.
    pub run: String,
    /// How long to wait for its end or for new output.
    pub wait: Wait,
    /// Text for its standard input.
    pub input: Option<String>,
    /// Close standard input after `input`.
    pub close_stdin: bool,
    /// A signal by name (`INT`, `SIGTERM`, `KILL`) or number. `KILL` ends the whole tree.
    pub signal: Option<String>,
    /// Where to read on.
    pub stdout_offset: Option<u64>,
    /// Where to read on.
    pub stderr_offset: Option<u64>,
}

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Waiting for a slot.
    Queued,
    /// Its sandbox is being made.
    Starting,
    /// It runs.
    Running,
    /// It has ended; the verdict is there.
    Ended,
}

/// One output stream as far as it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutputView {
    /// The text that is kept, from `offset` on. Bytes that are not UTF-8 appear as U+FFFD.
    pub text: String,
    /// Where `text` begins in the whole stream, in bytes.
    pub offset: u64,
    /// Bytes that the program wrote, kept or not.
    pub total_bytes: u64,
    /// Bytes cut out of the middle of `text`; 0 when nothing is missing.
    pub cut_bytes: u64,
    /// Where in `text` the cut is, as a byte position. Meaningless when `cut_bytes` is 0.
    pub cut_at: u64,
    /// The offset to ask for next.
    pub next_offset: u64,
    /// Whether `text` has U+FFFD for bytes that are not UTF-8.
    pub lossy: bool,
}

/// How a file differs from before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was not there.
    Created,
    /// Its content differs.
    Modified,
    /// It is gone.
    Deleted,
}

/// A file that a run made or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// Path in the workspace.
    pub path: String,
    /// How it differs.
    pub change: Change,
    /// Its size in bytes; 0 when it is gone.
    pub size: u64,
    /// Its media type, from its name.
    pub media_type: String,
}

/// A run as its owner sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// Its handle.
    pub run: String,
    /// The sandbox it runs in; `None` when the sandbox went with it.
    pub sandbox: Option<String>,
    /// The workspace's name, when it has one.
    pub workspace: Option<String>,
    /// The runtime's id, or `command`.
    pub runtime: String,
    /// Where it is in its life.
    pub state: RunState,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// What it has cost so far, or in the end.
    pub usage: Usage,
    /// Standard output.
    pub stdout: OutputView,
    /// Standard error.
    pub stderr: OutputView,
    /// What it made and changed in the workspace.
    pub files: Vec<ChangedFile>,
    /// Whether there are more changed files than are listed.
    pub more_files: bool,
    /// One-line hints for the usual failures: what to do next.
    pub hints: Vec<String>,
    /// The level of the wall it ran behind.
    pub level: crate::isolation::Assurance,
    /// Whether this call found the run of an earlier call with its idempotency key.
    pub replayed: bool,
}

impl RunView {
    /// The verdict, once the run has ended.
    pub fn verdict(&self) -> Option<Verdict> {
        self.outcome.as_ref().map(|outcome| outcome.verdict)
    }
}

/// A sandbox to make.
#[derive(Debug, Clone, Default)]
pub struct CreateSandbox {
    /// A name of the caller's own; an existing sandbox of that name is returned as it is.
    pub name: Option<String>,
    /// `host`, or the path of an unpacked root directory that the operator allowed.
    pub image: Option<String>,
    /// A workspace by name, made when it is not there.
    pub workspace: Option<String>,
    /// Idle time to live in seconds.
    pub ttl_s: Option<u64>,
    /// Limits; `timeout_s` is the default of its runs.
    pub limits: LimitsRequest,
    /// Which network.
    pub network: Option<NetworkRequest>,
}

/// A sandbox as its owner sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxView {
    /// Its handle.
    pub sandbox: String,
    /// The caller's own name for it.
    pub name: Option<String>,
    /// The workspace's name, when it has one.
    pub workspace: Option<String>,
    /// The image.
    pub image: String,
    /// Which network.
    pub network: NetworkRequest,
    /// Runs that are going on.
    pub active_runs: u32,
    /// Seconds since it was made.
    pub age_s: u64,
    /// Seconds after which it is removed if nothing happens.
    pub idle_ttl_s: u64,
    /// Seconds until it is removed whatever happens.
    pub expires_in_s: u64,
    /// Memory limit in MiB.
    pub memory_mb: u64,
    /// Memory in use in bytes, where measured.
    pub memory_bytes: Option<u64>,
    /// The wall, layer by layer.
    pub isolation: Isolation,
}

/// How file content is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// Text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Base 64, standard alphabet with padding.
    #[serde(rename = "base64")]
    Base64,
}

/// Where a file is: in a sandbox's workspace or in a workspace by name. Exactly one is set.
#[derive(Debug, Clone, Default)]
pub struct FilePlace {
    /// A sandbox's handle or name.
    pub sandbox: Option<String>,
    /// A workspace's name.
    pub workspace: Option<String>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Fails when the file is there.
    Create,
    /// Replaces the whole content.
    #[default]
    Overwrite,
    /// Adds to the end.
    Append,
    /// Swaps one exact text (`old`), which must occur exactly once.
    Replace,
}

/// A file's content, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Path in the workspace.
    pub path: String,
    /// The bytes that were asked for.
    pub bytes: Vec<u8>,
    /// Where they begin.
    pub offset: u64,
    /// Size of the whole file.
    pub size: u64,
    /// Media type, from the name.
    pub media_type: String,
}

/// What kind of thing a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; it is never followed.
    Link,
    /// A socket, a pipe or a device.
    Other,
}

/// One name in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Path in the workspace. Bytes that are not UTF-8 appear percent-encoded.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content, in seconds since 1970.
    pub modified: i64,
}

/// A capped listing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// The entries, sorted by path.
    pub entries: Vec<Entry>,
    /// Whether the cap cut the listing.
    pub more: bool,
}

/// A runtime as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeView {
    /// The canonical name.
    pub language: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// What its tool prints as its version; `None` when it is not on this machine.
    pub version: Option<String>,
    /// Packages that are ready, as `name version`.
    pub packages: Vec<String>,
    /// What is special about it here.
    pub notes: String,
}

/// What there is to work with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimesView {
    /// The runtimes that work, best known first.
    pub runtimes: Vec<RuntimeView>,
    /// Table entries whose tools are not on this machine.
    pub missing: Vec<String>,
    /// Default limits, in words.
    pub limits: BTreeMap<String, String>,
    /// Which networks a caller may ask for.
    pub networks: Vec<NetworkRequest>,
    /// The level of the wall.
    pub level: crate::isolation::Assurance,
}

/// A workspace as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceView {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created_at: i64,
    /// When it was last used, in seconds since 1970.
    pub used_at: i64,
}

/// Figures for the health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Runs that are going on.
    pub running: u32,
    /// Most runs at once.
    pub max_concurrent: u32,
    /// Runs that wait for a slot.
    pub queued: u32,
    /// Live sandboxes.
    pub sandboxes: u32,
    /// Workspaces of everyone.
    pub workspaces: u64,
}
