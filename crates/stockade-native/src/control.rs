//! The conversation with one launcher.
//!
//! Requests go out from any task; one thread takes the answers, hands each to
//! who waits for it, and in the end waits for the process. A thread rather than
//! a task, so that nothing here is tied to a runtime. When the launcher dies,
//! every waiting caller is told at once: their ends of the channels close.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{SendFlags, Shutdown};
use stockade_agent::launcher::packet;
use stockade_agent::launcher::protocol::{
    Config, Failure, Figures, Id, Ownership, Plan, ProbeReport, Reply, Request,
};
use stockade_core::{Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{NAME, convert, launch};

/// Between tries to send to a launcher that has its hands full.
const SEND_PAUSE: Duration = Duration::from_millis(1);
const SEND_TRIES: u32 = 5000;
/// For everything that the launcher does not wait for anybody for.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// Something that happened to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The kernel killed something in it for want of memory.
    OutOfMemory,
    /// Nothing of it is left; what it used in all. A channel that closes says the same
    /// without figures.
    Gone(Figures),
}

/// One launcher, as long as it lives.
pub(crate) struct Launcher {
    socket: OwnedFd,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    /// Fires when the process has ended and was reaped.
    ended: CancellationToken,
}

/// Who waits for which answer.
#[derive(Default)]
struct Waiting {
    closed: bool,
    created: HashMap<Id, oneshot::Sender<Result<Ownership, Failure>>>,
    destroyed: HashMap<Id, Vec<oneshot::Sender<()>>>,
    figures: HashMap<Id, VecDeque<oneshot::Sender<Option<Figures>>>>,
    probes: VecDeque<oneshot::Sender<Box<ProbeReport>>>,
    notices: HashMap<Id, mpsc::UnboundedSender<Notice>>,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher")
            .field("ended", &self.ended.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Launcher {
    /// Starts a launcher and waits until it is ready. Blocks.
    pub(crate) fn start(config: Config) -> Result<Arc<Self>> {
        let failed = |doing| move |source: io::Error| Error::backend(NAME, doing, source);
        let (socket, child) = launch::launch().map_err(failed("starting the launcher"))?;
        let greeting = Request::Start(config);
        packet::send(&socket, &greeting, None, SendFlags::empty())
            .map_err(failed("greeting the launcher"))?;
        let answer = packet::receive::<Reply>(&socket, &mut Vec::new())
            .map_err(failed("waiting for the launcher"))?;
        let launcher = Arc::new(Self {
            socket,
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            ended: CancellationToken::new(),
        });
        let listening = Arc::clone(&launcher);
        std::thread::Builder::new()
            .name("launcher".to_owned())
            .spawn(move || listening.listen(child))
            .map_err(failed("starting the launcher's thread"))?;
        match answer {
            Some((Reply::Started, _)) => Ok(launcher),
            Some((Reply::StartFailed(failure), _)) => {
                Err(convert::failure("starting the launcher", &failure))
            }
            _ => Err(Error::backend(NAME, "starting the launcher", "it ended at once")),
        }
    }

    fn listen(&self, mut child: Child) {
        let mut buffer = Vec::new();
        while let Ok(Some((reply, _))) = packet::receive(&self.socket, &mut buffer) {
            self.hand_out(reply);
        }
        let mut waiting = self.waiting();
        *waiting = Waiting { closed: true, ..Waiting::default() };
        drop(waiting);
        // It ends by itself when we hang up; when it did not, it must not stay.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        let _ = child.wait();
        self.ended.cancel();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, reply: Reply) {
        let mut waiting = self.waiting();
        match reply {
            Reply::Started | Reply::StartFailed(_) => {}
            Reply::Probed(report) => {
                waiting.probes.pop_front().map(|probe| probe.send(report));
            }
            Reply::Created { id, ownership, .. } => {
                waiting.created.remove(&id).map(|created| created.send(Ok(ownership)));
            }
            Reply::Failed { id, failure } => {
                waiting.notices.remove(&id);
                waiting.created.remove(&id).map(|created| created.send(Err(failure)));
            }
            Reply::Figures { id, figures } => {
                let queue = waiting.figures.get_mut(&id);
                queue.and_then(VecDeque::pop_front).map(|asked| asked.send(figures));
            }
            Reply::Destroyed { id, figures } | Reply::Died { id, figures } => {
                waiting.figures.remove(&id);
                waiting.notices.remove(&id).map(|notices| notices.send(Notice::Gone(figures)));
                for asked in waiting.destroyed.remove(&id).unwrap_or_default() {
                    let _ = asked.send(());
                }
            }
            Reply::OutOfMemory { id } => {
                waiting.notices.get(&id).map(|notices| notices.send(Notice::OutOfMemory));
            }
        }
    }

    /// Registers a waiter and sends; in that order, or the answer could find nobody.
    async fn ask<T>(
        &self,
        request: &Request,
        fd: Option<BorrowedFd<'_>>,
        register: impl FnOnce(&mut Waiting, oneshot::Sender<T>),
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.closed {
                return Err(gone());
            }
            register(&mut waiting, sender);
        }
        self.send(request, fd).await?;
        match tokio::time::timeout(ANSWER_TIME, answer).await {
            Ok(answer) => answer.map_err(|_closed| gone()),
            Err(elapsed) => Err(Error::backend(NAME, "waiting for the launcher", elapsed)),
        }
    }

    async fn send(&self, request: &Request, fd: Option<BorrowedFd<'_>>) -> Result<()> {
        for _ in 0..SEND_TRIES {
            match packet::send(&self.socket, request, fd, SendFlags::DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(SEND_PAUSE).await;
                }
                sent => {
                    return sent
                        .map_err(|error| Error::backend(NAME, "asking the launcher", error));
                }
            }
        }
        Err(Error::backend(NAME, "asking the launcher", "it does not listen"))
    }

    /// Builds a sandbox. The notices end when nothing of it is left.
    pub(crate) async fn create(
        &self,
        plan: Plan,
        channel: OwnedFd,
    ) -> Result<(Id, Ownership, mpsc::UnboundedReceiver<Notice>)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (notices_in, notices) = mpsc::unbounded_channel();
        let request = Request::Create { id, plan: Box::new(plan) };
        // If the caller gives up in between, the sandbox must not stay.
        let mut abandoned = Abandoned { launcher: self, id: Some(id) };
        let created = self
            .ask(&request, Some(channel.as_fd()), |waiting, sender| {
                waiting.created.insert(id, sender);
                waiting.notices.insert(id, notices_in);
            })
            .await?;
        match created {
            Ok(ownership) => {
                abandoned.id = None;
                Ok((id, ownership, notices))
            }
            Err(failure) => Err(convert::failure("building the sandbox", &failure)),
        }
    }

    /// Reads what a sandbox uses; nothing when it is gone.
    pub(crate) async fn figures(&self, id: Id, restart_peak: bool) -> Result<Option<Figures>> {
        let request = Request::Figures { id, restart_peak };
        self.ask(&request, None, |waiting, sender| {
            waiting.figures.entry(id).or_default().push_back(sender);
        })
        .await
    }

    /// Ends a sandbox. Returns once nothing of it is left.
    pub(crate) async fn destroy(&self, id: Id) -> Result<()> {
        let asked = self
            .ask(&Request::Destroy { id }, None, |waiting, sender| {
                waiting.destroyed.entry(id).or_default().push(sender);
            })
            .await;
        match asked {
            // With the launcher, all its sandboxes are gone.
            Err(_) if self.waiting().closed => Ok(()),
            asked => asked,
        }
    }

    /// Asks to end a sandbox and does not wait. For callers that cannot.
    pub(crate) fn destroy_soon(&self, id: Id) {
        // A full buffer means a launcher in trouble; the link that closes ends the sandbox too.
        let _ = packet::send(&self.socket, &Request::Destroy { id }, None, SendFlags::DONTWAIT);
    }

    /// Really tries every layer.
    pub(crate) async fn probe(&self) -> Result<Box<ProbeReport>> {
        self.ask(&Request::Probe, None, |waiting, sender| waiting.probes.push_back(sender)).await
    }

    /// Whether it still takes requests.
    pub(crate) fn lives(&self) -> bool {
        !self.waiting().closed
    }

    /// Hangs up: the launcher ends every sandbox, cleans up and goes.
    pub(crate) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Resolves when the process has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// A sandbox whose maker may vanish while it is being made.
struct Abandoned<'a> {
    launcher: &'a Launcher,
    id: Option<Id>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.launcher.waiting().created.remove(&id);
            self.launcher.destroy_soon(id);
        }
    }
}

fn gone() -> Error {
    Error::backend(NAME, "asking the launcher", "it is gone; the next sandbox starts a new one")
}
