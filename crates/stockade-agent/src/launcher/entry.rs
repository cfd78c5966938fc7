//! One sandbox as the launcher sees it.
//!
//! ```text
//! starting ── report ──▶ standing ── destroy / death ──▶ dying ── reaped, groups removed ──▶ gone
//!     └────── bad report, or none in time ─────────────────▶┘
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::failure::refuse;
use super::identity::Identity;
use super::limiter::{Group, OomWatch};
use super::protocol::{Failure, Figures, Id, Ownership, Reply};
use super::{CREATE_TIME, REMOVE_TIME, TICK, Wake, pipe, watch};
use crate::sys;

/// How long after a memory event the kernel's count may still rise.
const LATE_COUNT: Duration = Duration::from_millis(500);

/// One sandbox.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Id,
    pub(crate) pid: i32,
    pidfd: OwnedFd,
    pub(crate) identity: Identity,
    pub(crate) group: Group,
    oom: Option<OomWatch>,
    oom_told: u64,
    oom_look: Option<Instant>,
    phase: Phase,
    last: Figures,
    reaped: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    Starting { report: pipe::Parent, ownership: Ownership, since: Instant },
    Standing,
    Failed(Failure),
    Destroyed,
}

/// What a new process 1 is known by.
#[derive(Debug)]
pub(crate) struct Born {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) report: pipe::Parent,
    pub(crate) ownership: Ownership,
}

impl Entry {
    pub(crate) fn new(id: Id, born: Born, identity: Identity, group: Group) -> Self {
        let Born { pid, pidfd, report, ownership } = born;
        let oom = group.watch_oom();
        let phase = Phase::Starting { report, ownership, since: Instant::now() };
        Self {
            id,
            pid,
            pidfd,
            identity,
            group,
            oom,
            oom_told: 0,
            oom_look: None,
            phase,
            last: Figures::default(),
            reaped: None,
        }
    }

    /// Adds what may happen to it to an event queue.
    pub(super) fn watch(&self, queue: &OwnedFd) -> Result<(), Failure> {
        watch(queue, &self.pidfd, Wake::Death(self.id), EventFlags::IN | EventFlags::ONESHOT)?;
        match &self.oom {
            Some(OomWatch::Counter(fd)) => {
                watch(queue, fd, Wake::Memory(self.id), EventFlags::IN | EventFlags::ET)?;
            }
            Some(OomWatch::File(fd)) => {
                watch(queue, fd, Wake::Memory(self.id), EventFlags::PRI | EventFlags::ET)?;
            }
            None => {}
        }
        match &self.phase {
            Phase::Starting { report, .. } => {
                watch(queue, report, Wake::Report(self.id), EventFlags::IN | EventFlags::ONESHOT)
            }
            _ => Ok(()),
        }
    }

    /// Waits here for the report, for callers that have no event queue.
    pub(crate) fn wait_for_report(&mut self) -> Result<Ownership, Failure> {
        let Phase::Starting { report, ownership, .. } = &mut self.phase else {
            return refuse("a second report");
        };
        let ownership = *ownership;
        let seconds = i64::try_from(CREATE_TIME.as_secs()).unwrap_or(i64::MAX);
        report.report(seconds)?;
        self.phase = Phase::Standing;
        Ok(ownership)
    }

    /// Takes the report that has come. The answer to the server, if it is known now.
    pub(super) fn reported(&mut self) -> Option<Reply> {
        let Phase::Starting { report, ownership, .. } = &mut self.phase else { return None };
        let ownership = *ownership;
        match report.take_report() {
            Ok(()) => {
                self.phase = Phase::Standing;
                Some(Reply::Created { id: self.id, pid: self.pid, ownership })
            }
            Err(failure) => {
                self.fail(failure);
                None
            }
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.phase = Phase::Failed(failure);
        self.kill();
    }

    pub(super) fn give_up_when_late(&mut self) {
        if let Phase::Starting { since, .. } = &self.phase
            && since.elapsed() > CREATE_TIME
        {
            self.fail(Failure { step: "waiting for the sandbox".into(), errno: libc::ETIME });
        }
    }

    /// Ends it on request.
    pub(crate) fn destroy(&mut self) {
        self.phase = Phase::Destroyed;
        self.kill();
    }

    fn kill(&self) {
        if self.reaped.is_some() {
            return;
        }
        self.group.kill();
        // The kernel ends the whole process namespace with its process 1.
        let _ = sys::pidfd_signal(self.pidfd.as_fd(), libc::SIGKILL);
    }

    /// Takes note of its death, if it is dead.
    pub(crate) fn reap(&mut self) {
        if self.reaped.is_none() && !matches!(sys::wait(self.pid, false), Ok(None)) {
            self.last = self.group.figures();
            self.reaped = Some(Instant::now());
        }
    }

    /// Waits for its death, for callers that have no event queue.
    pub(crate) fn reap_now(&mut self) {
        let _ = sys::wait(self.pid, true);
        self.reap();
    }

    pub(super) fn is_reaped(&self) -> bool {
        self.reaped.is_some()
    }

    /// Whether the kernel has held its group for too long after its death.
    pub(crate) fn removal_is_late(&self) -> bool {
        self.reaped.is_some_and(|since| since.elapsed() > REMOVE_TIME)
    }

    /// What the server is told when nothing is left.
    pub(super) fn last_words(&mut self) -> Reply {
        let (id, figures) = (self.id, self.last);
        match std::mem::replace(&mut self.phase, Phase::Destroyed) {
            Phase::Starting { .. } => {
                let failure =
                    Failure { step: "a sandbox ended before it was ready".into(), errno: 0 };
                Reply::Failed { id, failure }
            }
            Phase::Failed(failure) => Reply::Failed { id, failure },
            Phase::Standing => Reply::Died { id, figures },
            Phase::Destroyed => Reply::Destroyed { id, figures },
        }
    }

    pub(super) fn figures(&self, restart_peak: bool) -> Figures {
        let figures = self.group.figures();
        if restart_peak {
            self.group.restart_peak();
        }
        figures
    }

    /// The kernel says that memory ran out. It may count its kill a little later.
    pub(super) fn memory_event(&mut self) {
        match &self.oom {
            Some(OomWatch::Counter(fd)) => {
                let _ = rustix::io::read(fd, &mut [0; 8]);
            }
            Some(OomWatch::File(fd)) => {
                // Reading is what arms the event again.
                let _ = rustix::io::pread(fd, &mut [0; 512], 0);
            }
            None => {}
        }
        self.oom_look = Some(Instant::now());
    }

    pub(super) fn late_memory_kill(&mut self) -> Option<Reply> {
        let since = self.oom_look?;
        let kills = self.group.figures().oom_kills.unwrap_or(0);
        if kills > self.oom_told {
            self.oom_told = kills;
            self.oom_look = None;
            return Some(Reply::OutOfMemory { id: self.id });
        }
        if since.elapsed() > LATE_COUNT {
            self.oom_look = None;
        }
        None
    }

    /// When it must be looked at, even if nothing happens.
    pub(super) fn wants_look_in(&self) -> Option<Duration> {
        if self.oom_look.is_some() || self.reaped.is_some() {
            return Some(TICK);
        }
        match &self.phase {
            Phase::Starting { since, .. } => {
                Some(CREATE_TIME.saturating_sub(since.elapsed()).max(TICK))
            }
            _ => None,
        }
    }
}
