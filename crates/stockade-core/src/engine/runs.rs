//! The runs that can be asked for: those that go on, and ended ones for a while.
//!
//! Also keeps the promise of idempotency keys: per owner, one key is one run.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::run::Run;
use crate::caller::{Caller, Role};
use crate::error::{Error, Result};
use crate::id::{OwnerId, RunId};
use crate::request::RunState;

/// Ended runs kept per owner.
const ENDED_PER_OWNER: usize = 1000;
/// Bytes of output of ended runs kept per owner.
const OUTPUT_PER_OWNER: usize = 64 << 20;

/// All runs that can be asked for.
#[derive(Debug)]
pub(crate) struct Runs {
    retention: Duration,
    hashers: [RandomState; 2],
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    runs: HashMap<RunId, Arc<Run>>,
    keys: HashMap<(OwnerId, String), (Fingerprint, RunId)>,
    ended: HashMap<OwnerId, Shelf>,
}

/// The ended runs of one owner, oldest first.
#[derive(Debug, Default)]
struct Shelf {
    runs: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    run: RunId,
    key: Option<String>,
    bytes: usize,
    at: Instant,
}

/// What a request was, in 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u64; 2]);

/// An idempotency key with what it was used for.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) fingerprint: Fingerprint,
}

/// What became of a request for a run.
#[derive(Debug)]
pub(crate) enum Admitted<T> {
    /// It is a new run.
    New(Arc<Run>, T),
    /// The key had its run already.
    Again(Arc<Run>),
}

impl Runs {
    /// Keeps ended runs for `retention`.
    pub(crate) fn new(retention: Duration) -> Self {
        let hashers = [RandomState::new(), RandomState::new()];
        Self { retention, hashers, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request is, for comparison with another one of the same key.
    pub(crate) fn fingerprint(&self, request: &impl Hash) -> Fingerprint {
        Fingerprint([self.hashers[0].hash_one(request), self.hashers[1].hash_one(request)])
    }

    /// Adds the run that `make` gives, unless the key has one already.
    pub(crate) fn admit<T>(
        &self,
        owner: &OwnerId,
        key: Option<&Key>,
        make: impl FnOnce() -> Result<(Arc<Run>, T)>,
    ) -> Result<Admitted<T>> {
        let mut table = self.table();
        if let Some(key) = key
            && let Some((fingerprint, run)) = table.keys.get(&(owner.clone(), key.key.clone()))
        {
            if *fingerprint != key.fingerprint {
                return Err(Error::conflict(
                    "idempotency_key",
                    "used for another request already; choose a new key",
                ));
            }
            if let Some(run) = table.runs.get(run) {
                return Ok(Admitted::Again(run.clone()));
            }
        }
        let (run, rest) = make()?;
        table.runs.insert(run.id.clone(), run.clone());
        if let Some(key) = key {
            let value = (key.fingerprint, run.id.clone());
            table.keys.insert((owner.clone(), key.key.clone()), value);
        }
        Ok(Admitted::New(run, rest))
    }

    /// The caller's run of that handle.
    pub(crate) fn find(&self, caller: &Caller, wanted: &str) -> Result<Arc<Run>> {
        let id = RunId::parse(wanted)?;
        let table = self.table();
        let visible = |run: &&Arc<Run>| caller.role == Role::Admin || run.owner == caller.owner;
        let run = table.runs.get(&id).filter(visible);
        run.cloned().ok_or_else(|| Error::not_found("run", wanted))
    }

    /// Runs that have not ended.
    pub(crate) fn open(&self) -> Vec<Arc<Run>> {
        let table = self.table();
        table.runs.values().filter(|run| run.state() != RunState::Ended).cloned().collect()
    }

    /// Counts an ended run among those that are kept for a while.
    pub(crate) fn shelve(&self, run: &Run, key: Option<String>) {
        let mut table = self.table();
        let bytes = run.kept();
        let shelf = table.ended.entry(run.owner.clone()).or_default();
        shelf.runs.push_back(Kept { run: run.id.clone(), key, bytes, at: Instant::now() });
        shelf.bytes += bytes;
        let mut surplus = Vec::new();
        while shelf.runs.len() > ENDED_PER_OWNER
            || (shelf.bytes > OUTPUT_PER_OWNER && shelf.runs.len() > 1)
        {
            surplus.extend(shelf.take_oldest());
        }
        table.forget(&run.owner, surplus);
    }

    /// Forgets what was kept long enough.
    pub(crate) fn expire(&self) {
        let mut table = self.table();
        let owners: Vec<OwnerId> = table.ended.keys().cloned().collect();
        for owner in owners {
            let Some(shelf) = table.ended.get_mut(&owner) else { continue };
            let mut old = Vec::new();
            while shelf.runs.front().is_some_and(|kept| kept.at.elapsed() >= self.retention) {
                old.extend(shelf.take_oldest());
            }
            if shelf.runs.is_empty() {
                table.ended.remove(&owner);
            }
            table.forget(&owner, old);
        }
    }
}

impl Shelf {
    fn take_oldest(&mut self) -> Option<Kept> {
        let oldest = self.runs.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }
}

impl Table {
    fn forget(&mut self, owner: &OwnerId, old: Vec<Kept>) {
        for kept in old {
            self.runs.remove(&kept.run);
            if let Some(key) = kept.key {
                self.keys.remove(&(owner.clone(), key));
            }
        }
    }
}
