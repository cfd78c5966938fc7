//! The MCP server: tools for models over the engine.
//!
//! Parses a call, makes one or two engine calls, renders the answer. Holds no
//! policy of its own and keeps no state of a run, so that several servers can
//! stand in front of one engine. Two ways in: [`router`] (Streamable HTTP) and
//! [`serve_stdio`].

mod args;
mod call;
mod catalog;
mod error;
mod facts;
mod http;
mod progress;
mod render;
mod schema;
mod server;
mod sessions;
mod stdio;
mod tools;
mod wait;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use http::router;
pub use stdio::{serve, serve_stdio};

/// Makes download links for files of a workspace.
pub trait LinkMaker: Send + Sync + Debug {
    /// An address from which this file can be fetched without a key, or
    /// `None` when there is none. `workspace_dir` is what `Engine::workspace_dir` gives.
    fn link(&self, workspace_dir: &str, path: &str) -> Option<String>;
}

/// How the MCP server is set up.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// Makes the links that results carry for changed files.
    pub links: Option<Arc<dyn LinkMaker>>,
    /// Where the directories of workspaces are on this machine. When there is no `links`,
    /// results carry `file://` links to it; for stdio only, where the client is on the same machine.
    pub workspace_root: Option<PathBuf>,
    /// Values of `Host` that are answered, with or without a port. Empty answers all:
    /// for servers that check it in front.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that are answered, as `scheme://host:port` (`*` as port takes any).
    /// Requests without `Origin` do not come from a browser and always pass.
    pub allowed_origins: Vec<String>,
    /// Largest message in bytes.
    pub max_message_bytes: usize,
    /// Most sessions of one owner; the least recently used idle one makes room.
    pub max_sessions_per_owner: usize,
    /// Most sessions of all owners together.
    pub max_sessions: usize,
    /// A session without any message is closed after this. Must be longer than the longest run.
    pub session_idle: Duration,
    /// Ends all sessions and streams when it fires.
    pub shutdown: CancellationToken,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            links: None,
            workspace_root: None,
            allowed_hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            allowed_origins: Vec::new(),
            max_message_bytes: 16 << 20,
            max_sessions_per_owner: 50,
            max_sessions: 1000,
            session_idle: Duration::from_secs(6 * 3600),
            shutdown: CancellationToken::new(),
        }
    }
}
