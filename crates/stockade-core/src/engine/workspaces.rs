//! Workspaces: directories of files that outlive runs.
//!
//! Each is `workspaces/<32 hexadecimal digits>`, mode 0700. A named one stays
//! until its owner or its age removes it; one without a name goes with its
//! sandbox. Removal is a rename first, so that it is complete for everybody at
//! once, and the deletion follows in the background.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use crate::error::{Error, Result};
use crate::host_dir::{HostDir, Lock, random_hex};
use crate::id::{OwnerId, WorkspaceName};
use crate::path::RelPath;
use crate::store::{Store, WorkspaceRecord};

/// Directories on their way out.
const TRASH: &str = ".trash-";

/// All workspaces of this server. Calls block.
#[derive(Debug)]
pub(crate) struct Workspaces {
    root: HostDir,
    root_path: PathBuf,
    store: Arc<dyn Store>,
    clock: Clock,
    /// How many sandboxes use each directory at the moment.
    in_use: Mutex<HashMap<String, u32>>,
    /// Making and removing by name happens one at a time.
    naming: Mutex<()>,
}

/// A workspace that is in use. It is not removed before this is dropped.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) dir: String,
    pub(crate) path: PathBuf,
    pub(crate) files: HostDir,
    anonymous: bool,
    workspaces: Arc<Workspaces>,
}

impl Workspaces {
    /// Opens the directory of all workspaces, made when it is not there.
    pub(crate) fn open(data_dir: &Path, store: Arc<dyn Store>, clock: Clock) -> Result<Arc<Self>> {
        // Whoever mounts it may stand in another directory.
        let data_dir = std::path::absolute(data_dir)
            .map_err(|e| Error::backend("files", "finding the data directory", e))?;
        let root_path = data_dir.join("workspaces");
        make_root(&root_path)?;
        let root = HostDir::open_trusted(&root_path)?;
        let (in_use, naming) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { root, root_path, store, clock, in_use, naming }))
    }

    fn in_use(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn naming(&self) -> MutexGuard<'_, ()> {
        self.naming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner's workspace of that name, made when it is not there; or a
    /// private one without a name.
    pub(crate) fn take(
        self: &Arc<Self>,
        owner: &OwnerId,
        name: Option<&WorkspaceName>,
    ) -> Result<Workspace> {
        let _naming = self.naming();
        let known = match name {
            Some(name) => self.store.workspace(owner, name)?,
            None => None,
        };
        let record = match known {
            Some(record) => record,
            None => self.make(owner, name)?,
        };
        self.enter(&record)
    }

    /// The owner's workspace of that name, if it is there.
    pub(crate) fn find(
        self: &Arc<Self>,
        owner: &OwnerId,
        name: &WorkspaceName,
    ) -> Result<Workspace> {
        let _naming = self.naming();
        let record = self.store.workspace(owner, name)?;
        self.enter(&record.ok_or_else(|| Error::not_found("workspace", name.as_str()))?)
    }

    /// The workspace in that directory, whoever owns it.
    pub(crate) fn by_dir(self: &Arc<Self>, dir: &str) -> Result<Workspace> {
        let _naming = self.naming();
        let record = if is_dir_name(dir) { self.store.workspace_by_dir(dir)? } else { None };
        self.enter(&record.ok_or_else(|| Error::not_found("workspace", "of this link"))?)
    }

    /// Makes a workspace of that name. Fails when it is there.
    pub(crate) fn create(&self, owner: &OwnerId, name: &WorkspaceName) -> Result<WorkspaceRecord> {
        let _naming = self.naming();
        if self.store.workspace(owner, name)?.is_some() {
            return Err(Error::conflict(
                "workspace",
                "there already; use it or choose another name",
            ));
        }
        self.make(owner, Some(name))
    }

    /// Removes the owner's workspace of that name.
    pub(crate) fn remove(&self, owner: &OwnerId, name: &WorkspaceName) -> Result<()> {
        let trash = {
            let _naming = self.naming();
            let record = self.store.workspace(owner, name)?;
            let record = record.ok_or_else(|| Error::not_found("workspace", name.as_str()))?;
            if self.in_use().contains_key(&record.dir) {
                return Err(Error::conflict("workspace", "in use by a sandbox; stop that first"));
            }
            self.discard(&record.dir)?
        };
        self.delete(trash);
        Ok(())
    }

    /// The records of one owner's named workspaces.
    pub(crate) fn named(&self, owner: &OwnerId) -> Result<Vec<WorkspaceRecord>> {
        let mut records = self.store.workspaces(Some(owner))?;
        records.retain(|record| record.name.is_some());
        records.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(records)
    }

    /// How many named ones there are.
    pub(crate) fn count(&self) -> Result<u64> {
        let records = self.store.workspaces(None)?;
        let named = records.iter().filter(|record| record.name.is_some()).count();
        Ok(u64::try_from(named).unwrap_or(u64::MAX))
    }

    /// Removes workspaces that nobody used for this long.
    pub(crate) fn expire(&self, idle: Duration) -> Result<()> {
        let idle = i64::try_from(idle.as_secs()).unwrap_or(i64::MAX);
        let oldest = self.clock.now().saturating_sub(idle);
        for record in self.store.workspaces(None)? {
            if record.used_at > oldest {
                continue;
            }
            let trash = {
                let _naming = self.naming();
                let used = self.in_use().contains_key(&record.dir);
                let fresh = self.store.workspace_by_dir(&record.dir)?;
                if used || fresh.is_none_or(|fresh| fresh.used_at > oldest) {
                    continue;
                }
                self.discard(&record.dir)?
            };
            self.delete(trash);
        }
        Ok(())
    }

    /// Whether no other process uses this data directory. If so, others that start now
    /// wait until `join`: what they make must not be taken for something old.
    pub(crate) fn alone(&self) -> Result<bool> {
        self.root.lock(Lock::Exclusive)
    }

    /// From now on this process is one of those that use the data directory.
    pub(crate) fn join(&self) -> Result<()> {
        self.root.lock(Lock::Shared).map(|_locked| ())
    }

    /// Takes what an earlier process left out of sight: workspaces without a
    /// name and directories without a record. What is out of sight is deleted
    /// in the background.
    pub(crate) fn sweep(&self) -> Result<()> {
        for record in self.store.workspaces(None)? {
            if record.name.is_none() {
                self.discard(&record.dir)?;
            }
        }
        let mut trash = Vec::new();
        for name in self.root.names()? {
            if name.starts_with(TRASH) {
                trash.push(name);
            } else if !is_dir_name(&name) || self.store.workspace_by_dir(&name)?.is_none() {
                trash.push(self.discard(&name)?);
            }
        }
        for name in trash {
            self.delete(name);
        }
        Ok(())
    }

    /// Keeps what is in use from ageing.
    pub(crate) fn touch_used(&self) -> Result<()> {
        let used: Vec<String> = self.in_use().keys().cloned().collect();
        let now = self.clock.now();
        used.iter().try_for_each(|dir| self.store.touch_workspace(dir, now))
    }

    /// Removes program files and half-written files that an earlier process left
    /// in the workspaces that stay.
    pub(crate) fn sweep_files(&self, older_than: i64) -> Result<()> {
        for record in self.store.workspaces(None)? {
            match self.root.sub(&RelPath::parse(&record.dir)?) {
                Ok(files) => files.sweep_ours(older_than)?,
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn make(&self, owner: &OwnerId, name: Option<&WorkspaceName>) -> Result<WorkspaceRecord> {
        let now = self.clock.now();
        let record = WorkspaceRecord {
            dir: random_hex(),
            owner: owner.clone(),
            name: name.cloned(),
            created_at: now,
            used_at: now,
        };
        // A directory without a record is swept; a record without one would not be.
        self.root.make_private(&record.dir)?;
        if record.name.is_some() {
            self.root.sync()?;
        }
        if let Err(error) = self.store.add_workspace(&record) {
            self.delete(record.dir);
            return Err(error);
        }
        Ok(record)
    }

    fn enter(self: &Arc<Self>, record: &WorkspaceRecord) -> Result<Workspace> {
        let path = RelPath::parse(&record.dir)?;
        let files = match self.root.sub(&path) {
            Err(Error::NotFound { .. }) => {
                self.root.make_private(&record.dir)?;
                self.root.sub(&path)?
            }
            other => other?,
        };
        let now = self.clock.now();
        if record.used_at != now {
            self.store.touch_workspace(&record.dir, now)?;
        }
        *self.in_use().entry(record.dir.clone()).or_default() += 1;
        Ok(Workspace {
            dir: record.dir.clone(),
            path: self.root_path.join(&record.dir),
            files,
            anonymous: record.name.is_none(),
            workspaces: self.clone(),
        })
    }

    /// Takes a workspace out of everybody's sight. Gives the name to delete.
    fn discard(&self, dir: &str) -> Result<String> {
        let trash = format!("{TRASH}{}", random_hex());
        match self.root.rename(dir, &trash) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        self.store.remove_workspace(dir)?;
        Ok(trash)
    }

    fn delete(&self, name: String) {
        let root = self.root.clone();
        let delete = move || {
            if let Err(error) = root.delete_tree(&name) {
                tracing::warn!(%error, "a removed workspace could not be deleted; the next start tries again");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(delete)),
            Err(_) => delete(),
        }
    }
}

impl Workspace {
    /// Removes it now, if it has no name and nobody else uses it. Blocks.
    pub(crate) fn leave(&self) -> Result<()> {
        if !self.anonymous {
            return Ok(());
        }
        let trash = self.workspaces.discard(&self.dir)?;
        self.workspaces.root.delete_tree(&trash)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let mut in_use = self.workspaces.in_use();
        if let Some(users) = in_use.get_mut(&self.dir) {
            *users -= 1;
            if *users == 0 {
                in_use.remove(&self.dir);
            }
        }
    }
}

fn is_dir_name(dir: &str) -> bool {
    dir.len() == 32 && dir.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[expect(clippy::disallowed_methods, reason = "the data directory is the server's own")]
fn make_root(path: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let wrong = |e| Error::backend("files", "preparing the data directory", e);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(wrong)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(wrong)
}
