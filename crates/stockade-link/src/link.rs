//! One connected agent.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use stockade_agent::wire::{self, Event, Request, Tag};
use stockade_core::backend::{Exit, Process, ProcessEvent};
use stockade_core::spec::Command;
use stockade_core::{Error, Result};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::inbound::Events;
use crate::process::Remote;
use crate::{convert, outbound};

/// Completes an exit with what only the backend knows (the resource group's counts)
/// before anyone sees it. `None` comes in when the agent vanished before the end of
/// the run; the backend may know why, and `None` going out means that the run is lost.
/// Must resolve soon.
pub type Amend = Arc<dyn Fn(Option<Exit>) -> BoxFuture<'static, Option<Exit>> + Send + Sync>;

/// Leaves an exit as it is.
pub fn unamended() -> Amend {
    Arc::new(|exit| futures::future::ready(exit).boxed())
}

/// Requests that may wait for a slow agent.
const REQUESTS_WAITING: usize = 64;
/// Events of one process that may wait for a slow reader.
const EVENTS_WAITING: usize = 64;

/// What the reading task knows about one process.
struct Listener {
    events: mpsc::Sender<ProcessEvent>,
    taken: watch::Sender<u64>,
    program: String,
    amend: Amend,
}

type Listeners = Arc<Mutex<HashMap<Tag, Listener>>>;

/// One connected agent. Dropping it ends the agent, and the sandbox with it.
pub struct Link {
    requests: mpsc::Sender<Request>,
    listeners: Listeners,
    next_tag: AtomicU64,
    closed: CancellationToken,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("closed", &self.closed.is_cancelled()).finish_non_exhaustive()
    }
}

impl Link {
    /// Waits for the agent's greeting and takes the stream over. Has no clock of its
    /// own: the caller bounds the wait.
    pub async fn connect(stream: UnixStream) -> Result<Self> {
        let (reader, writer) = stream.into_split();
        let mut events = Events::new(reader);
        match events.next().await {
            Some(Event::Ready { version: wire::VERSION }) => {}
            Some(Event::Ready { version }) => {
                let text = format!("its protocol is version {version}, ours {}", wire::VERSION);
                return Err(Error::backend("agent", "greeting the server", text));
            }
            _ => return Err(Error::backend("agent", "greeting the server", "it is gone")),
        }
        let (requests, waiting) = mpsc::channel(REQUESTS_WAITING);
        let link = Self {
            requests,
            listeners: Listeners::default(),
            next_tag: AtomicU64::new(1),
            closed: CancellationToken::new(),
        };
        tokio::spawn(outbound::write(writer, waiting));
        tokio::spawn(read(events, link.listeners.clone(), link.closed.clone()));
        Ok(link)
    }

    /// Starts a command. Its exit passes through `amend` before anyone sees it.
    pub async fn spawn(&self, command: &Command, amend: Amend) -> Result<Process> {
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        let (events_in, events) = mpsc::channel(EVENTS_WAITING);
        let (taken_in, taken) = watch::channel(0);
        let program = command.argv.first().map(|name| name.to_string_lossy().into_owned());
        let listener = Listener {
            events: events_in,
            taken: taken_in,
            program: program.unwrap_or_default(),
            amend,
        };
        lock(&self.listeners).insert(tag, listener);
        let start = Box::new(convert::start(command));
        let sent = self.requests.send(Request::Start { tag, start }).await;
        if sent.is_err() || self.closed.is_cancelled() {
            lock(&self.listeners).remove(&tag);
            return Err(Error::conflict("sandbox", "gone"));
        }
        let requests = self.requests.clone();
        let control = Remote { tag, requests, taken, fed: tokio::sync::Mutex::new(0) };
        Ok(Process { events, control: Arc::new(control) })
    }

    /// Resolves when the agent is gone.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

fn lock(listeners: &Listeners) -> std::sync::MutexGuard<'_, HashMap<Tag, Listener>> {
    // Nothing that can panic happens under this lock.
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(mut events: Events, listeners: Listeners, closed: CancellationToken) {
    while let Some(event) = events.next().await {
        match event {
            Event::Ready { .. } => {}
            Event::Output { tag, stream, offset, bytes } => {
                let Some(listener) = sender(&listeners, tag) else { continue };
                let stream = convert::stream(stream);
                let bytes = Bytes::from(bytes.into_vec());
                // A reader that is slow holds its agent up; that is what bounds memory here.
                // One that is gone (the channel is closed) is passed over.
                let _ = listener.send(ProcessEvent::Output { stream, offset, bytes }).await;
            }
            Event::StdinTaken { tag, total } => {
                if let Some(listener) = lock(&listeners).get(&tag) {
                    listener.taken.send_replace(total);
                }
            }
            Event::Ended { tag, end } => {
                let Some(listener) = lock(&listeners).remove(&tag) else { continue };
                let exit = convert::exit(&end, &listener.program);
                tokio::spawn(listener.end(Some(exit)));
            }
        }
    }
    closed.cancel();
    let orphans: Vec<_> = lock(&listeners).drain().map(|(_, listener)| listener).collect();
    for listener in orphans {
        tokio::spawn(listener.end(None));
    }
}

impl Listener {
    /// Says the last word, off the reading task: the backend may take a moment for it.
    /// Without one the channel just closes, and the process is lost.
    async fn end(self, exit: Option<Exit>) {
        // Feeding ends at once, whatever the backend still has to look up.
        drop(self.taken);
        if let Some(exit) = (self.amend)(exit).await {
            let _ = self.events.send(ProcessEvent::Exited(exit)).await;
        }
    }
}

fn sender(listeners: &Listeners, tag: Tag) -> Option<mpsc::Sender<ProcessEvent>> {
    lock(listeners).get(&tag).map(|listener| listener.events.clone())
}
