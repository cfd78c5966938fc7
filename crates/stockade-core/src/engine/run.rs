//! One run from its acceptance to its end, as everybody sees it.
//!
//! ```text
//! Queued ──▶ Starting ──▶ Running ──▶ Ended
//!    └───────────┴────────────────────▲
//! ```
//!
//! The task that drives the run writes here; callers and watchers read. Nobody
//! waits for a reader except a lossless run, which waits until every watcher
//! has taken what came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::captured::Captured;
use super::registry::Entry;
use crate::backend::{Control, Stream};
use crate::error::{Error, Result};
use crate::id::{OwnerId, RunId};
use crate::outcome::{Outcome, Usage};
use crate::request::{ChangedFile, RunState, RunView};

/// What a run is, and where it stands.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) owner: OwnerId,
    /// The runtime's id, or `command`.
    pub(crate) runtime: String,
    pub(crate) created_at: i64,
    pub(crate) entry: Arc<Entry>,
    pub(crate) input: Input,
    pub(crate) flow: Flow,
    /// Whether the sandbox goes with the run.
    pub(crate) ephemeral: bool,
    /// Fires when a caller ends the run.
    pub(crate) cancelled: CancellationToken,
    progress: Mutex<Progress>,
    /// Counts up with every change, for those who wait for one.
    version: watch::Sender<u64>,
}

/// Whether a caller can feed the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nobody can.
    Fixed,
    /// Through `feed`.
    Open,
}

/// What happens to output that nobody has taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The middle is dropped.
    Capped,
    /// The program waits.
    Lossless,
}

#[derive(Debug)]
struct Progress {
    phase: Phase,
    stdout: Captured,
    stderr: Captured,
    watchers: BTreeMap<u64, Position>,
    next_watcher: u64,
}

/// How far a watcher has come in each stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
}

#[derive(Debug)]
enum Phase {
    Queued,
    Starting,
    Running { control: Arc<dyn Control>, since: Instant },
    Ended(Box<Ended>),
}

/// What is known at the end.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) files: Vec<ChangedFile>,
    pub(crate) more_files: bool,
    pub(crate) hints: Vec<String>,
    /// Why the program was never started, when we failed or refused.
    pub(crate) failure: Option<Arc<Error>>,
}

/// What a new run is made of.
#[derive(Debug)]
pub(crate) struct NewRun {
    pub(crate) owner: OwnerId,
    pub(crate) runtime: String,
    pub(crate) created_at: i64,
    pub(crate) entry: Arc<Entry>,
    pub(crate) input: Input,
    pub(crate) flow: Flow,
    pub(crate) ephemeral: bool,
    pub(crate) kept_bytes: usize,
}

impl Run {
    /// A run that waits for its turn.
    pub(crate) fn new(new: NewRun) -> Arc<Self> {
        let progress = Progress {
            phase: Phase::Queued,
            stdout: Captured::new(new.kept_bytes),
            stderr: Captured::new(new.kept_bytes),
            watchers: BTreeMap::new(),
            next_watcher: 0,
        };
        Arc::new(Self {
            id: RunId::random(),
            owner: new.owner,
            runtime: new.runtime,
            created_at: new.created_at,
            entry: new.entry,
            input: new.input,
            flow: new.flow,
            ephemeral: new.ephemeral,
            cancelled: CancellationToken::new(),
            progress: Mutex::new(progress),
            version: watch::Sender::new(0),
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// Tells of every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// It has a slot.
    pub(crate) fn starting(&self) {
        self.progress().phase = Phase::Starting;
        self.changed();
    }

    /// Its program runs.
    pub(crate) fn running(&self, control: Arc<dyn Control>) {
        self.progress().phase = Phase::Running { control, since: Instant::now() };
        self.changed();
    }

    /// It has ended. The first end counts.
    pub(crate) fn end(&self, mut ended: Ended) {
        {
            let mut progress = self.progress();
            if matches!(progress.phase, Phase::Ended(_)) {
                return;
            }
            // The agent is not trusted to count less than what it sent.
            let usage = &mut ended.outcome.usage;
            usage.stdout_bytes = usage.stdout_bytes.max(progress.stdout.total());
            usage.stderr_bytes = usage.stderr_bytes.max(progress.stderr.total());
            progress.phase = Phase::Ended(Box::new(ended));
        }
        self.changed();
    }

    /// Takes output.
    pub(crate) fn output(&self, stream: Stream, offset: u64, bytes: &[u8]) {
        self.progress().stream_mut(stream).push(offset, bytes);
        self.changed();
    }

    /// Bytes that can be taken at once without dropping what no watcher has seen.
    pub(crate) fn piece(&self) -> usize {
        self.progress().stdout.piece()
    }

    /// Whether a watcher has not taken everything yet.
    pub(crate) fn lags(&self) -> bool {
        let progress = self.progress();
        let (stdout, stderr) = (progress.stdout.total(), progress.stderr.total());
        progress.watchers.values().any(|at| at.stdout < stdout || at.stderr < stderr)
    }

    /// The end of standard error, for hints.
    pub(crate) fn stderr_text(&self) -> String {
        self.progress().stderr.view(0, true).text
    }

    /// Bytes of output that are kept.
    pub(crate) fn kept(&self) -> usize {
        let progress = self.progress();
        progress.stdout.kept() + progress.stderr.kept()
    }

    /// How to act on the program, once it runs.
    pub(crate) fn control(&self) -> Result<Option<Arc<dyn Control>>> {
        match &self.progress().phase {
            Phase::Queued | Phase::Starting => Ok(None),
            Phase::Running { control, .. } => Ok(Some(control.clone())),
            Phase::Ended(_) => Err(Error::conflict("run", "ended already; start another one")),
        }
    }

    /// Where it stands.
    pub(crate) fn state(&self) -> RunState {
        match self.progress().phase {
            Phase::Queued => RunState::Queued,
            Phase::Starting => RunState::Starting,
            Phase::Running { .. } => RunState::Running,
            Phase::Ended(_) => RunState::Ended,
        }
    }

    /// What is known at the end, once it has come.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match &self.progress().phase {
            Phase::Ended(ended) => Some((**ended).clone()),
            Phase::Queued | Phase::Starting | Phase::Running { .. } => None,
        }
    }

    /// Resolves at the end.
    pub(crate) async fn finished(&self) {
        let ended = |_: &u64| self.state() == RunState::Ended;
        // The sender lives as long as `self`.
        let _ = self.changes().wait_for(ended).await;
    }

    /// Bytes that came so far.
    pub(crate) fn totals(&self) -> Position {
        let progress = self.progress();
        Position { stdout: progress.stdout.total(), stderr: progress.stderr.total() }
    }

    /// Adds a watcher at the first kept byte. Gives its number.
    pub(crate) fn add_watcher(&self) -> u64 {
        let mut progress = self.progress();
        let number = progress.next_watcher;
        progress.next_watcher += 1;
        progress.watchers.insert(number, Position::default());
        number
    }

    /// Notes how far a watcher has come.
    pub(crate) fn watcher_at(&self, number: u64, position: Position) {
        self.progress().watchers.insert(number, position);
        self.changed();
    }

    /// Forgets a watcher: nobody waits for it any more.
    pub(crate) fn drop_watcher(&self, number: u64) {
        self.progress().watchers.remove(&number);
        self.changed();
    }

    /// The next kept bytes of a stream after an offset.
    pub(crate) fn next_output(
        &self,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> Option<(u64, bytes::Bytes)> {
        self.progress().stream(stream).next(from, most)
    }

    /// The run as its owner sees it, its output from these offsets on.
    pub(crate) fn view(&self, from: Position) -> RunView {
        let state = self.state();
        let progress = self.progress();
        let over = matches!(progress.phase, Phase::Ended(_));
        let ended = match &progress.phase {
            Phase::Ended(ended) => Some(ended),
            Phase::Queued | Phase::Starting | Phase::Running { .. } => None,
        };
        let gone = over && self.ephemeral;
        RunView {
            run: self.id.to_string(),
            sandbox: (!gone).then(|| self.entry.id.to_string()),
            workspace: self.entry.workspace_name.as_ref().map(ToString::to_string),
            runtime: self.runtime.clone(),
            state: if over { RunState::Ended } else { state },
            outcome: ended.map(|ended| ended.outcome.clone()),
            usage: progress.usage(),
            stdout: progress.stdout.view(from.stdout, over),
            stderr: progress.stderr.view(from.stderr, over),
            files: ended.map(|ended| ended.files.clone()).unwrap_or_default(),
            more_files: ended.is_some_and(|ended| ended.more_files),
            hints: ended.map(|ended| ended.hints.clone()).unwrap_or_default(),
            level: self.entry.level(),
            replayed: false,
        }
    }
}

impl Progress {
    fn stream(&self, stream: Stream) -> &Captured {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    fn stream_mut(&mut self, stream: Stream) -> &mut Captured {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn usage(&self) -> Usage {
        let so_far = Usage {
            stdout_bytes: self.stdout.total(),
            stderr_bytes: self.stderr.total(),
            ..Usage::default()
        };
        match &self.phase {
            Phase::Ended(ended) => ended.outcome.usage,
            Phase::Running { since, .. } => {
                let wall_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                Usage { wall_us, ..so_far }
            }
            Phase::Queued | Phase::Starting => so_far,
        }
    }
}
