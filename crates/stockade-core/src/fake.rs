//! A backend without a wall and a store without a disk, for tests.
//!
//! Nothing is started: programs are words of a tiny language (`fake/script.rs`),
//! and all waiting is the async clock's, so that a paused clock skips it. What
//! the seam promises holds: `contract::suite` passes on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{Backend, Sandbox};
use crate::error::{Error, Result};
use crate::id::SandboxId;
use crate::isolation::{Assurance, Enforcement, Isolation, Layer};
use crate::spec::SandboxSpec;

mod dialect;
mod process;
mod sandbox;
mod script;
mod store;

pub use dialect::FakeDialect;
pub use store::MemoryStore;

use sandbox::FakeSandbox;

/// A backend that keeps everything in memory.
#[derive(Debug, Default)]
pub struct FakeBackend {
    live: Arc<Mutex<HashMap<SandboxId, Arc<FakeSandbox>>>>,
    created: AtomicUsize,
    create_takes: Mutex<Duration>,
    failures: AtomicUsize,
    left_over: Mutex<Vec<(SandboxId, Arc<FakeSandbox>)>>,
    closed: std::sync::atomic::AtomicBool,
}

impl FakeBackend {
    /// A backend with no sandboxes.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Sandboxes that are there now.
    pub fn live(&self) -> usize {
        self.sandboxes().len()
    }

    /// Sandboxes that were ever made.
    pub fn created(&self) -> usize {
        self.created.load(Ordering::SeqCst)
    }

    /// Makes every sandbox take this long to come up.
    pub fn create_takes(&self, time: Duration) {
        *self.create_takes.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    /// Makes the next `count` sandboxes fail to come up.
    pub fn fail_next(&self, count: usize) {
        self.failures.store(count, Ordering::SeqCst);
    }

    /// Lets a sandbox die by itself.
    pub fn let_die(&self, sandbox: &str) {
        let id = SandboxId::parse(sandbox).ok();
        let found = id.and_then(|id| self.sandboxes().remove(&id));
        if let Some(sandbox) = found {
            sandbox.die();
        }
    }

    /// Leaves a sandbox for `recover` to find, as an earlier process would.
    pub fn leave_over(&self, spec: &SandboxSpec) {
        let sandbox = Arc::new(FakeSandbox::new(spec, full(), Box::new(|| {})));
        let mut left = self.left_over.lock().unwrap_or_else(PoisonError::into_inner);
        left.push((SandboxId::random(), sandbox));
    }

    /// Sandboxes of an earlier process that are still there.
    pub fn left_over(&self) -> usize {
        let left = self.left_over.lock().unwrap_or_else(PoisonError::into_inner);
        left.iter().filter(|(_, sandbox)| !sandbox.is_dead()).count()
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<FakeSandbox>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wall that the fake claims to be, so that every assertion is made.
fn full() -> Isolation {
    let by = || Enforcement::Full { by: "pretence".to_owned() };
    let layers: BTreeMap<Layer, Enforcement> =
        Layer::ALL.into_iter().map(|layer| (layer, by())).collect();
    Isolation { level: Assurance::L2, layers }
}

#[async_trait]
impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn probe(&self) -> Result<Isolation> {
        Ok(full())
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>> {
        let takes = *self.create_takes.lock().unwrap_or_else(PoisonError::into_inner);
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        full().satisfies(&spec.required)?;
        let fails = |left: usize| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(Error::backend("fake", "making a sandbox", "it was told to fail"));
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::conflict("backend", "shut down"));
        }
        let (live, gone) = (self.live.clone(), id.clone());
        let forget = move || {
            live.lock().unwrap_or_else(PoisonError::into_inner).remove(&gone);
        };
        let sandbox = Arc::new(FakeSandbox::new(spec, full(), Box::new(forget)));
        self.created.fetch_add(1, Ordering::SeqCst);
        self.sandboxes().insert(id.clone(), sandbox.clone());
        Ok(sandbox)
    }

    async fn recover(&self) -> Result<Vec<(SandboxId, Arc<dyn Sandbox>)>> {
        let left = self.left_over.lock().unwrap_or_else(PoisonError::into_inner);
        let all =
            left.iter().map(|(id, sandbox)| (id.clone(), sandbox.clone() as Arc<dyn Sandbox>));
        Ok(all.collect())
    }

    async fn shutdown(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let all: Vec<_> = self.sandboxes().values().cloned().collect();
        for sandbox in all {
            sandbox.die();
        }
    }
}
