//! From a request to a running tree: pipes, and process 1 of the run.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use super::run::{Born, Run};
use crate::init::{self, Parts};
use crate::steps::{self, Identity};
use crate::sys::{self, Forked};
use crate::wire::{Refusal, Start, Step, Tag};

/// What is the same for all runs of the sandbox.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) identity: Identity,
    pub(super) ruleset: Option<OwnedFd>,
    pub(super) filter: Vec<sys::sock_filter>,
    pub(super) null: OwnedFd,
}

/// Starts a run.
pub(super) fn start(tag: Tag, start: &Start, common: &Common) -> Result<Run, Refusal> {
    let program = steps::program(start)?;
    let refused = |error: io::Error| Refusal {
        step: Step::Process,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let (stdin, stdin_writer) = stdin(start, common).map_err(refused)?;
    let (stdout, stdout_writer) = pipe().map_err(refused)?;
    let (stderr, stderr_writer) = pipe().map_err(refused)?;
    let (reports, init_reports) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| refused(errno.into()))?;
    let parts = Parts {
        program: &program,
        identity: &common.identity,
        ruleset: common.ruleset.as_ref(),
        filter: &common.filter,
        stdio: [stdin, stdout_writer, stderr_writer],
        reports: init_reports,
    };
    match sys::clone3(libc::CLONE_NEWPID | libc::CLONE_NEWNS, None).map_err(refused)? {
        Forked::Child => init::live(&parts),
        Forked::Parent { pid, pidfd } => {
            let born =
                Born { init: pid, init_fd: pidfd, reports, stdin: stdin_writer, stdout, stderr };
            Ok(Run::new(tag, start, born))
        }
    }
}

fn stdin(start: &Start, common: &Common) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if !start.stdin {
        return Ok((common.null.try_clone()?, None));
    }
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    Ok((reader, Some(writer)))
}

/// A pipe of which only our end never blocks: programs expect theirs to.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}
