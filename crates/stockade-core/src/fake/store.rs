//! A store that forgets everything when it is dropped.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::id::{OwnerId, RunId, WorkspaceName};
use crate::outcome::Outcome;
use crate::store::{KeyRecord, RunRecord, Store, UnixSeconds, WorkspaceRecord};

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    keys: Vec<KeyRecord>,
    workspaces: Vec<WorkspaceRecord>,
    runs: BTreeMap<RunId, (u64, RunRecord)>,
    next_run: u64,
    revoked: HashSet<String>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(owner: Option<&OwnerId>, candidate: &OwnerId) -> bool {
    owner.is_none_or(|owner| owner == candidate)
}

impl Store for MemoryStore {
    fn add_key(&self, key: &KeyRecord) -> Result<()> {
        let keys = &mut self.tables().keys;
        if keys.iter().any(|known| known.id == key.id || known.hash == key.hash) {
            return Err(Error::conflict("key", "there already"));
        }
        keys.push(key.clone());
        Ok(())
    }

    fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
        Ok(self.tables().keys.iter().find(|key| key.hash == *hash).cloned())
    }

    fn keys(&self) -> Result<Vec<KeyRecord>> {
        Ok(self.tables().keys.clone())
    }

    fn revoke_key(&self, id: &str, at: UnixSeconds) -> Result<()> {
        let mut tables = self.tables();
        let key = tables.keys.iter_mut().find(|key| key.id == id);
        key.ok_or_else(|| Error::not_found("key", id))?.revoked_at = Some(at);
        Ok(())
    }

    fn add_workspace(&self, workspace: &WorkspaceRecord) -> Result<()> {
        let workspaces = &mut self.tables().workspaces;
        let same = |known: &WorkspaceRecord| {
            known.dir == workspace.dir
                || (known.name.is_some()
                    && known.owner == workspace.owner
                    && known.name == workspace.name)
        };
        if workspaces.iter().any(same) {
            return Err(Error::conflict("workspace", "there already"));
        }
        workspaces.push(workspace.clone());
        Ok(())
    }

    fn workspace(&self, owner: &OwnerId, name: &WorkspaceName) -> Result<Option<WorkspaceRecord>> {
        let tables = self.tables();
        let wanted =
            |known: &&WorkspaceRecord| known.owner == *owner && known.name.as_ref() == Some(name);
        Ok(tables.workspaces.iter().find(wanted).cloned())
    }

    fn workspace_by_dir(&self, dir: &str) -> Result<Option<WorkspaceRecord>> {
        Ok(self.tables().workspaces.iter().find(|known| known.dir == dir).cloned())
    }

    fn workspaces(&self, owner: Option<&OwnerId>) -> Result<Vec<WorkspaceRecord>> {
        let tables = self.tables();
        Ok(tables.workspaces.iter().filter(|known| of(owner, &known.owner)).cloned().collect())
    }

    fn touch_workspace(&self, dir: &str, at: UnixSeconds) -> Result<()> {
        for known in &mut self.tables().workspaces {
            if known.dir == dir {
                known.used_at = at;
            }
        }
        Ok(())
    }

    fn remove_workspace(&self, dir: &str) -> Result<()> {
        self.tables().workspaces.retain(|known| known.dir != dir);
        Ok(())
    }

    fn put_run(&self, run: &RunRecord) -> Result<()> {
        let mut tables = self.tables();
        let number = tables.runs.get(&run.id).map_or(tables.next_run, |(number, _)| *number);
        tables.next_run = tables.next_run.max(number + 1);
        tables.runs.insert(run.id.clone(), (number, run.clone()));
        Ok(())
    }

    fn end_open_runs(&self, outcome: &Outcome) -> Result<u64> {
        let mut tables = self.tables();
        let mut ended = 0;
        for (_, run) in tables.runs.values_mut().filter(|(_, run)| run.outcome.is_none()) {
            run.outcome = Some(outcome.clone());
            ended += 1;
        }
        Ok(ended)
    }

    fn runs(&self, owner: Option<&OwnerId>, limit: u32) -> Result<Vec<RunRecord>> {
        let tables = self.tables();
        let mut runs: Vec<_> =
            tables.runs.values().filter(|(_, run)| of(owner, &run.owner)).cloned().collect();
        runs.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    fn revoke_link(&self, nonce: &str, _at: UnixSeconds) -> Result<()> {
        self.tables().revoked.insert(nonce.to_owned());
        Ok(())
    }

    fn link_revoked(&self, nonce: &str) -> Result<bool> {
        Ok(self.tables().revoked.contains(nonce))
    }
}
