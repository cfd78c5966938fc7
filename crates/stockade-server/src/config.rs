//! Configuration: one table of keys, four sources, all problems at once.
//!
//! Defaults are overridden by one TOML file, that by `STOCKADE_*` environment
//! variables, those by flags. `Config` is what comes out: complete, typed, no
//! `Option` that means "default". Whatever is not in the table is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stockade_core::isolation::Layer;
use stockade_core::limits::Limits;
use stockade_core::request::NetworkRequest;
use stockade_core::runtime::Runtime;

mod resolve;
mod sources;
mod table;

pub use sources::{Inputs, Origin};
pub use table::{KEYS, Key, Kind};

/// Everything that can be configured, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where state and workspaces are kept.
    pub data_dir: PathBuf,
    /// The HTTP side.
    pub server: Server,
    /// How logs are written.
    pub log: Log,
    /// Limits of those who ask for none.
    pub default_limits: Limits,
    /// What callers may ask for at most.
    pub ceiling: Limits,
    /// What callers may have at all.
    pub policy: Policy,
    /// Numbers of the engine.
    pub engine: EngineNumbers,
    /// How long download links work.
    pub link_ttl: Duration,
    /// Further read-only directories of the host image: on the machine -> inside.
    pub mounts: BTreeMap<PathBuf, PathBuf>,
    /// Further runtimes, or replacements of built-in ones.
    pub runtimes: Vec<Runtime>,
    /// Every value with its origin, for `stockade config show`.
    pub shown: Vec<Shown>,
}

/// The HTTP side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where to listen.
    pub listen: SocketAddr,
    /// How clients reach us, without a slash at the end.
    pub public_base_url: String,
    /// Further values of `Host` that are answered.
    pub allowed_hosts: Vec<String>,
    /// Further values of `Origin` that are answered.
    pub allowed_origins: Vec<String>,
    /// How long running work may go on after a request to stop.
    pub shutdown_grace: Duration,
    /// Largest JSON body in bytes.
    pub max_body_bytes: usize,
    /// Largest upload in bytes.
    pub max_upload_bytes: u64,
    /// Connections at once.
    pub max_connections: usize,
}

/// How logs are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// As JSON, one object a line, instead of text.
    pub json: bool,
    /// Targets and levels, as `tracing_subscriber` takes them: `info,rmcp=warn`.
    pub level: String,
}

/// What callers may have at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Networks besides `none`.
    pub networks: Vec<NetworkRequest>,
    /// Layers without which nothing runs.
    pub required_layers: Vec<Layer>,
    /// Root directories that may be named as image.
    pub image_roots: Vec<PathBuf>,
}

/// Numbers of the engine. Units are in the names of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineNumbers {
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

/// One value as `stockade config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Shown {
    /// The key.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// Where it came from.
    pub origin: String,
}

/// Something wrong in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where the value stands.
    pub origin: String,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

/// Reads all sources and resolves them, or gives every problem there is.
pub fn load(inputs: &Inputs) -> Result<Config, Vec<Problem>> {
    let (values, mut problems) = sources::collect(inputs);
    let config = resolve::resolve(inputs, &values, &mut problems);
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}
