//! How a child of the launcher says how far it came, and is told to go on.
//!
//! A child waits at its gate until the parent has done its part. It reports
//! once. A pipe that closes without a word means that the child is dead.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::failure::{Doing, refuse};
use super::protocol::{self, Failure};

/// The parent's ends.
#[derive(Debug)]
pub(crate) struct Parent {
    gate: OwnedFd,
    report: File,
}

/// The child's ends.
#[derive(Debug)]
pub(crate) struct Child {
    gate: File,
    report: File,
}

/// Both pairs of ends. Each side must drop the other's after the fork.
pub(crate) fn pair() -> Result<(Parent, Child), Failure> {
    let make = || pipe_with(PipeFlags::CLOEXEC).doing("making a pipe");
    let (gate_out, gate_in) = make()?;
    let (report_out, report_in) = make()?;
    let parent = Parent { gate: gate_in, report: report_out.into() };
    Ok((parent, Child { gate: gate_out.into(), report: report_in.into() }))
}

impl Parent {
    /// Lets the child through its gate.
    pub(crate) fn open_gate(&self) -> Result<(), Failure> {
        rustix::io::write(&self.gate, &[1]).doing("letting a child go on").map(drop)
    }

    /// Takes the child's report, which must come within `seconds`.
    pub(crate) fn report(&mut self, seconds: i64) -> Result<(), Failure> {
        let mut fds = [PollFd::new(&self.report, PollFlags::IN)];
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        match poll(&mut fds, Some(&timeout)).doing("waiting for a child")? {
            0 => refuse(format!("a child did not report within {seconds} s")),
            _ => self.take_report(),
        }
    }

    /// Takes the report of a child that is known to have written it or to be dead.
    pub(crate) fn take_report(&mut self) -> Result<(), Failure> {
        let mut bytes = [0; 4096];
        let length = self.report.read(&mut bytes).doing("reading a child's report")?;
        if length == 0 {
            return refuse("a child ended before it was ready");
        }
        protocol::decode(&bytes[..length]).unwrap_or_else(|_| refuse("a child's report is garbled"))
    }
}

impl AsFd for Parent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

impl Child {
    /// Waits until the parent opens the gate. Fails when the parent is gone.
    pub(crate) fn wait_at_gate(&mut self) -> Result<(), Failure> {
        self.gate.read_exact(&mut [0]).doing("waiting for the launcher")
    }

    /// Says how it went. Fails when the parent is gone.
    pub(crate) fn report(&mut self, result: &Result<(), Failure>) -> Result<(), Failure> {
        let bytes = protocol::encode(result).or_else(|_| refuse("a report is too long"))?;
        self.report.write_all(&bytes).doing("reporting to the launcher")
    }

    /// Whether the parent still reads. A child whose parent died before the
    /// child asked for a death signal would never get one.
    pub(crate) fn parent_lives(&self) -> bool {
        let mut fds = [PollFd::new(&self.report, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut fds, Some(&now));
        polled.is_ok() && !fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// The descriptors that must survive when all others are closed.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.gate.as_fd(), self.report.as_fd()]
    }
}
