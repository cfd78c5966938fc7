//! Process 1 of one run.
//!
//! Every run has a process namespace of its own, so that its whole tree, however
//! it forks and daemonises, ends in one step when this process ends; and so that
//! a program cannot see the agent or another run, let alone signal it. It mounts
//! the run's /proc, starts the program, reaps, and ends with the program.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::mount::MountFlags;
use rustix::process::{DumpableBehavior, Signal};

use crate::report::{self, Report};
use crate::steps::{self, Identity, Program};
use crate::sys::{self, Forked};
use crate::wire::{Refusal, Step};

/// What the run's processes are made from.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) program: &'a Program,
    pub(crate) identity: &'a Identity,
    pub(crate) ruleset: Option<&'a OwnedFd>,
    pub(crate) filter: &'a [sys::sock_filter],
    pub(crate) stdio: [OwnedFd; 3],
    pub(crate) reports: OwnedFd,
}

/// Lives as process 1 of a new process and mount namespace. Never returns.
pub(crate) fn live(parts: &Parts<'_>) -> ! {
    if let Err((step, errno)) = prepare() {
        refuse(parts, Refusal { step, errno });
    }
    let (pid, pidfd) = match sys::clone3(0, None) {
        Ok(Forked::Parent { pid, pidfd }) => (pid, pidfd),
        Ok(Forked::Child) => refuse(parts, start(parts)),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
            refuse(parts, Refusal { step: Step::Process, errno })
        }
    };
    let _ = report::send(parts.reports.as_fd(), Report::Forked, Some(pidfd.as_fd()));
    release_all_but(parts.reports.as_fd());
    let _ = rustix::thread::set_capabilities(None, no_capabilities());
    loop {
        match sys::wait(-1, true) {
            Ok(Some(waited)) if waited.pid == pid => {
                let _ = report::send(parts.reports.as_fd(), Report::Ended(waited.status), None);
                sys::exit_now(0);
            }
            Ok(_) => {}
            Err(_) => sys::exit_now(0),
        }
    }
}

/// Tells the agent why there will be no program, and ends.
fn refuse(parts: &Parts<'_>, refusal: Refusal) -> ! {
    // Nobody is left to tell when the agent is gone; then the kernel is ending us anyway.
    let _ = report::send(parts.reports.as_fd(), Report::Refused(refusal), None);
    sys::exit_now(0)
}

fn prepare() -> Result<(), (Step, i32)> {
    let at = |step| move |errno: rustix::io::Errno| (step, errno.raw_os_error());
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(at(Step::Process))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(at(Step::Process))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None).map_err(at(Step::Proc))
}

fn start(parts: &Parts<'_>) -> Refusal {
    let [stdin, stdout, stderr] = &parts.stdio;
    let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    steps::become_program(parts.program, parts.identity, stdio, parts.ruleset, parts.filter)
}

/// Lets go of the output pipes (their end must be the program's end) and of everything else.
fn release_all_but(kept: BorrowedFd<'_>) {
    use std::os::fd::AsRawFd;
    let kept = kept.as_raw_fd();
    let _ = sys::close_range(0, kept - 1);
    let _ = sys::close_range(kept + 1, i32::MAX);
}

fn no_capabilities() -> rustix::thread::CapabilitySets {
    let none = rustix::thread::CapabilitySet::empty();
    rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none }
}
