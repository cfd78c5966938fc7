//! What must survive a restart, and the trait of the thing that keeps it.
//!
//! The server keeps it in SQLite; tests of this crate keep it in memory.
//! Calls are short and blocking; the engine makes them off the async threads.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::caller::Role;
use crate::error::Result;
use crate::id::{OwnerId, RunId, SandboxId, WorkspaceName};
use crate::outcome::Outcome;

/// Seconds since 1970-01-01T00:00:00Z.
pub type UnixSeconds = i64;

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Public name of the key; also the owner of what it makes.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// When it was made.
    pub created_at: UnixSeconds,
    /// When it stops working.
    pub expires_at: Option<UnixSeconds>,
    /// When it was revoked.
    pub revoked_at: Option<UnixSeconds>,
}

/// A directory of files that outlives runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceRecord {
    /// Name of its directory below `workspaces/`: 32 hexadecimal digits, never reused.
    pub dir: String,
    /// Whose it is.
    pub owner: OwnerId,
    /// Its name; `None` for the private workspace of an unnamed sandbox.
    pub name: Option<WorkspaceName>,
    /// When it was made.
    pub created_at: UnixSeconds,
    /// When something in it was last used.
    pub used_at: UnixSeconds,
}

/// One run, as history and audit keep it. Holds no code and no output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its handle.
    pub id: RunId,
    /// Whose it is.
    pub owner: OwnerId,
    /// Where it ran.
    pub sandbox: SandboxId,
    /// The runtime's id, or `command`.
    pub runtime: String,
    /// When it was accepted.
    pub created_at: UnixSeconds,
    /// How it ended; `None` while it runs.
    pub outcome: Option<Outcome>,
}

/// Keeps records.
pub trait Store: fmt::Debug + Send + Sync {
    /// Adds a key. Fails with `Conflict` when the id or the hash is there.
    fn add_key(&self, key: &KeyRecord) -> Result<()>;
    /// The key with this hash, revoked and expired ones included.
    fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<KeyRecord>>;
    /// All keys, oldest first.
    fn keys(&self) -> Result<Vec<KeyRecord>>;
    /// Revokes a key. Fails with `NotFound`.
    fn revoke_key(&self, id: &str, at: UnixSeconds) -> Result<()>;

    /// Adds a workspace. Fails with `Conflict` when the owner has one of that name.
    fn add_workspace(&self, workspace: &WorkspaceRecord) -> Result<()>;
    /// The owner's workspace of that name.
    fn workspace(&self, owner: &OwnerId, name: &WorkspaceName) -> Result<Option<WorkspaceRecord>>;
    /// The workspace in that directory, whoever owns it.
    fn workspace_by_dir(&self, dir: &str) -> Result<Option<WorkspaceRecord>>;
    /// All workspaces of one owner, or of everyone.
    fn workspaces(&self, owner: Option<&OwnerId>) -> Result<Vec<WorkspaceRecord>>;
    /// Notes that a workspace was used.
    fn touch_workspace(&self, dir: &str, at: UnixSeconds) -> Result<()>;
    /// Forgets a workspace.
    fn remove_workspace(&self, dir: &str) -> Result<()>;

    /// Adds a run or replaces its record.
    fn put_run(&self, run: &RunRecord) -> Result<()>;
    /// Ends every run that has no outcome with this one. Returns how many there were.
    fn end_open_runs(&self, outcome: &Outcome) -> Result<u64>;
    /// The newest runs of one owner, or of everyone.
    fn runs(&self, owner: Option<&OwnerId>, limit: u32) -> Result<Vec<RunRecord>>;

    /// Makes every download link of this nonce worthless.
    fn revoke_link(&self, nonce: &str, at: UnixSeconds) -> Result<()>;
    /// Whether a download link was revoked.
    fn link_revoked(&self, nonce: &str) -> Result<bool>;
}
