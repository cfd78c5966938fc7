//! Live sandboxes: who owns which, how long they live, and how they end.
//!
//! ```text
//! Planned ──▶ Creating ──▶ Ready ──▶ Ending ──▶ Gone
//!    │            └───────────────────▲          ▲
//!    └───────────────────────────────────────────┘
//! ```
//!
//! `Planned` is a handle without anything behind it yet: the run that needs it
//! waits for its turn. `Ending` and `Gone` are never found by name again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::workspaces::Workspace;
use crate::backend::Sandbox;
use crate::caller::{Caller, Role};
use crate::error::{Error, Result};
use crate::id::{OwnerId, SandboxId, WorkspaceName};
use crate::isolation::Assurance;
use crate::limits::Limits;
use crate::request::NetworkRequest;
use crate::spec::Image;

/// Handles of sandboxes that are there or will be.
#[derive(Debug)]
pub(crate) struct Registry {
    most_per_owner: usize,
    life: Duration,
    entries: Mutex<HashMap<SandboxId, Arc<Entry>>>,
}

/// One sandbox, from its plan to its end.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: SandboxId,
    pub(crate) owner: OwnerId,
    pub(crate) name: Option<String>,
    pub(crate) workspace_name: Option<WorkspaceName>,
    pub(crate) image: Image,
    pub(crate) network: NetworkRequest,
    pub(crate) limits: Limits,
    pub(crate) idle: Duration,
    pub(crate) made: Instant,
    /// Whether a run made it for itself and nobody has named it since.
    unclaimed: AtomicBool,
    active: AtomicU32,
    used: Mutex<Instant>,
    /// The level of its wall, once there is one.
    level: OnceLock<Assurance>,
    state: watch::Sender<State>,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// A handle only.
    Planned,
    /// The backend is at work.
    Creating,
    /// It lives.
    Ready(Live),
    /// It is being taken down.
    Ending,
    /// Nothing of it is left; or it never came to be, and this is why.
    Gone(Option<Arc<Error>>),
}

/// What stands behind a handle.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) workspace: Arc<Workspace>,
}

/// What a sandbox shall be.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) owner: OwnerId,
    pub(crate) name: Option<String>,
    pub(crate) workspace_name: Option<WorkspaceName>,
    pub(crate) image: Image,
    pub(crate) network: NetworkRequest,
    pub(crate) limits: Limits,
    pub(crate) idle: Duration,
    /// Whether it is made for one run that named none.
    pub(crate) for_a_run: bool,
}

/// Whether a planned sandbox is made now.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is, and whoever asked has to do it; this one has to be ended for it.
    Now(Option<Arc<Entry>>),
    /// Somebody else does it or did.
    ByOthers,
    /// Its owner has all it may have until one of its runs ends.
    Later,
}

/// Keeps a sandbox from expiring while something is going on in it.
#[derive(Debug)]
pub(crate) struct Busy {
    entry: Arc<Entry>,
}

impl Registry {
    /// No sandboxes yet.
    pub(crate) fn new(most_per_owner: u32, life: Duration) -> Self {
        let most_per_owner = usize::try_from(most_per_owner).unwrap_or(usize::MAX);
        Self { most_per_owner, life, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a handle; a name that the owner gave before gives the sandbox it
    /// was given to. A handle costs nothing: what counts is what is made.
    pub(crate) fn reserve(&self, plan: Plan) -> Result<Arc<Entry>> {
        let mut entries = self.entries();
        let own = || entries.values().filter(|entry| entry.owner == plan.owner);
        if let Some(name) = &plan.name
            && let Some(entry) = own().find(|entry| entry.name.as_ref() == Some(name))
        {
            return Ok(entry.clone());
        }
        if own().filter(|entry| !entry.is_unclaimed()).count() >= self.most_per_owner {
            return Err(used_up());
        }
        let entry = Arc::new(Entry::new(plan));
        entries.insert(entry.id.clone(), entry.clone());
        Ok(entry)
    }

    /// Lets a planned sandbox be made, if its owner may have one more. Otherwise
    /// the one longest unused that only ever served its own run makes room and
    /// is given back to be ended.
    pub(crate) fn begin(&self, entry: &Arc<Entry>) -> Result<Begun> {
        let mut entries = self.entries();
        if !matches!(entry.state(), State::Planned) {
            return Ok(Begun::ByOthers);
        }
        let made = |other: &&Arc<Entry>| {
            other.owner == entry.owner && !matches!(other.state(), State::Planned)
        };
        let mut evicted = None;
        if entries.values().filter(made).count() >= self.most_per_owner {
            let by_products = || entries.values().filter(made).filter(|e| e.is_unclaimed());
            if by_products().next().is_none() {
                return Err(used_up());
            }
            let idle = by_products().filter(|other| other.active() == 0);
            let Some(oldest) = idle.min_by_key(|other| other.last_used()).cloned() else {
                return Ok(Begun::Later);
            };
            entries.remove(&oldest.id);
            evicted = Some(oldest);
        }
        entry.advance(|_| Some(State::Creating));
        Ok(Begun::Now(evicted))
    }

    /// The sandbox a caller means: by handle, or by the caller's own name for it.
    pub(crate) fn find(&self, caller: &Caller, wanted: &str) -> Result<Arc<Entry>> {
        SandboxId::parse(wanted)?;
        let entries = self.entries();
        let own = |entry: &&Arc<Entry>| entry.owner == caller.owner;
        let named = |entry: &&Arc<Entry>| entry.name.as_deref() == Some(wanted);
        let visible = |entry: &&Arc<Entry>| caller.role == Role::Admin || own(entry);
        let by_name = entries.values().find(|entry| own(entry) && named(entry));
        let by_handle =
            || entries.values().find(|entry| entry.id.as_str() == wanted && visible(entry));
        let entry = by_name.or_else(by_handle);
        entry.cloned().ok_or_else(|| Error::not_found("sandbox", wanted))
    }

    /// The owner's sandboxes, oldest first.
    pub(crate) fn of(&self, owner: &OwnerId) -> Vec<Arc<Entry>> {
        let mut own: Vec<_> =
            self.entries().values().filter(|entry| entry.owner == *owner).cloned().collect();
        own.sort_by_key(|entry| entry.made);
        own
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries().values().cloned().collect()
    }

    /// Takes a handle out of sight.
    pub(crate) fn forget(&self, entry: &Entry) {
        self.entries().remove(&entry.id);
    }

    /// Holds a sandbox for something that goes on in it. Fails when its life is over.
    pub(crate) fn hold(&self, entry: &Arc<Entry>) -> Result<Busy> {
        let entries = self.entries();
        if !entries.contains_key(&entry.id) {
            return Err(Error::not_found("sandbox", entry.id.as_str()));
        }
        if entry.made.elapsed() >= self.life {
            return Err(Error::conflict("sandbox", "at the end of its life; create a new one"));
        }
        entry.active.fetch_add(1, Ordering::SeqCst);
        entry.touch();
        Ok(Busy { entry: entry.clone() })
    }

    /// Takes every sandbox whose time is over, and that nothing goes on in, out of sight.
    pub(crate) fn take_expired(&self) -> Vec<Arc<Entry>> {
        let mut entries = self.entries();
        let over = |entry: &Entry| {
            let idle = entry.last_used().elapsed() >= entry.idle;
            entry.active() == 0 && (idle || entry.made.elapsed() >= self.life)
        };
        let expired: Vec<_> = entries.values().filter(|entry| over(entry)).cloned().collect();
        for entry in &expired {
            entries.remove(&entry.id);
        }
        expired
    }

    /// How long a sandbox has at most.
    pub(crate) fn life(&self) -> Duration {
        self.life
    }
}

impl Entry {
    fn new(plan: Plan) -> Self {
        let now = Instant::now();
        Self {
            id: SandboxId::random(),
            owner: plan.owner,
            name: plan.name,
            workspace_name: plan.workspace_name,
            image: plan.image,
            network: plan.network,
            limits: plan.limits,
            idle: plan.idle,
            made: now,
            unclaimed: AtomicBool::new(plan.for_a_run),
            active: AtomicU32::new(0),
            used: Mutex::new(now),
            level: OnceLock::new(),
            state: watch::Sender::new(State::Planned),
        }
    }

    /// What goes on in it.
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Ordering::SeqCst)
    }

    /// Notes that somebody named it: it is not a by-product of one run any more.
    pub(crate) fn claim(&self) {
        self.unclaimed.store(false, Ordering::SeqCst);
        self.touch();
    }

    fn is_unclaimed(&self) -> bool {
        self.unclaimed.load(Ordering::SeqCst)
    }

    /// Begins its idle time anew.
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is in its life.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Moves on, if `next` has a next state for the present one. Gives whether it did.
    pub(crate) fn advance(&self, next: impl FnOnce(&State) -> Option<State>) -> bool {
        self.state.send_if_modified(|state| match next(state) {
            Some(next) => {
                *state = next;
                true
            }
            None => false,
        })
    }

    /// Waits until it lives, or tells why it never will.
    pub(crate) async fn live(&self) -> Result<Live> {
        let settled = |state: &State| !matches!(state, State::Planned | State::Creating);
        let mut states = self.state.subscribe();
        // The sender lives as long as `self`.
        let state = states.wait_for(settled).await.map(|state| state.clone());
        match state {
            Ok(State::Ready(live)) => Ok(live),
            Ok(State::Gone(Some(why))) => Err(why.duplicate()),
            _ => Err(Error::not_found("sandbox", self.id.as_str())),
        }
    }

    /// Resolves when it is being taken down or gone.
    pub(crate) async fn died(&self) {
        let over = |state: &State| matches!(state, State::Ending | State::Gone(_));
        let _ = self.state.subscribe().wait_for(over).await;
    }

    /// Resolves when nothing of it is left.
    pub(crate) async fn gone(&self) {
        let gone = |state: &State| matches!(state, State::Gone(_));
        let _ = self.state.subscribe().wait_for(gone).await;
    }

    /// The level of its wall; the lowest while there is no wall yet.
    pub(crate) fn level(&self) -> Assurance {
        if let State::Ready(live) = &*self.state.borrow() {
            self.level.get_or_init(|| live.sandbox.isolation().level);
        }
        self.level.get().copied().unwrap_or(Assurance::L0)
    }
}

fn used_up() -> Error {
    Error::Exhausted { what: "sandboxes of this owner (stop one of them)", retry_after_s: 60 }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.entry.touch();
        self.entry.active.fetch_sub(1, Ordering::SeqCst);
    }
}
