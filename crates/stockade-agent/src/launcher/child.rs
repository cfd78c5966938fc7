//! The first steps of a sandbox's process 1, from the clone to the agent.
//!
//! The process was born in new namespaces with a copy of a template's mounts;
//! nothing of the machine's files is in sight but that. Read top to bottom:
//! this is the order in which the place is closed. There is no `exec`: the
//! launcher's image is the agent's, and it holds no secret.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::process::{Gid, Signal, Uid};

use super::failure::{Doing, refuse};
use super::identity::{INSIDE, Identity};
use super::mounts::attach;
use super::network::bring_loopback_up;
use super::protocol::Failure;
use super::{inside, pipe, text};
use crate::agent::{self, Setup};
use crate::sys;

/// Everything the new process needs. Descriptors that are not here are closed.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pipe: pipe::Child,
    pub(crate) doors: Vec<OwnedFd>,
    pub(crate) workspace: OwnedFd,
    pub(crate) identity: Identity,
    /// Whether it was born with a network of its own, in which nothing is up.
    pub(crate) new_network: bool,
    pub(crate) tmp_bytes: u64,
    /// Bound of each process's data, where no group bounds memory.
    pub(crate) data_bytes: Option<u64>,
    pub(crate) role: Role,
}

/// What becomes of the process once the place stands.
#[derive(Debug)]
pub(crate) enum Role {
    /// It serves runs over this stream.
    Agent(OwnedFd),
    /// It looks around and writes what it sees. The path is one of the machine's.
    Probe(OwnedFd, String),
}

impl Child {
    /// Lives as process 1 of the sandbox. Never returns.
    pub(crate) fn live(mut self) -> ! {
        let built = self.build();
        let failed = built.is_err();
        if self.pipe.report(&built).is_err() || failed {
            sys::exit_now(1);
        }
        let setup = |channel| Setup {
            channel,
            uid: INSIDE,
            gid: INSIDE,
            own_identity: self.identity != Identity::Shared,
            // All of the root is public. What lies outside it has no path to this rule.
            readable: vec!["/".to_owned()],
            writable: writable(),
        };
        drop((self.pipe, self.doors, self.workspace));
        match self.role {
            Role::Agent(channel) => agent::serve(setup(channel)),
            Role::Probe(answer, canary) => inside::look(&setup(answer), &canary),
        }
    }

    fn build(&mut self) -> Result<(), Failure> {
        self.close_others()?;
        // Before anything else of it runs: what follows counts against the group.
        for door in &self.doors {
            rustix::io::write(door, b"0").doing("entering a resource group")?;
        }
        self.pipe.wait_at_gate()?;
        self.take_identity()?;
        // Changing identity would clear this, hence only now.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .doing("tying the sandbox to its launcher")?;
        if !self.pipe.parent_lives() {
            return refuse("the launcher is gone");
        }
        rustix::process::setsid().doing("starting a session")?;
        // After the groups were entered: their paths above are not shown inside.
        sys::unshare(libc::CLONE_NEWCGROUP).doing("making a namespace of resource groups")?;
        self.mount_all()?;
        rustix::system::sethostname(b"sandbox").doing("naming the host")?;
        if self.new_network {
            bring_loopback_up()?;
        }
        if let Some(bytes) = self.data_bytes {
            sys::lower_rlimit(libc::RLIMIT_DATA, bytes, bytes).doing("limiting data")?;
        }
        rustix::thread::set_name(c"agent").doing("naming the process")
    }

    fn close_others(&self) -> Result<(), Failure> {
        let role = match &self.role {
            Role::Agent(fd) | Role::Probe(fd, _) => fd,
        };
        let mut kept: Vec<RawFd> = self.pipe.fds().iter().map(AsRawFd::as_raw_fd).collect();
        kept.extend(self.doors.iter().map(AsRawFd::as_raw_fd));
        kept.extend([&self.workspace, role].map(AsRawFd::as_raw_fd));
        kept.sort_unstable();
        // Standard streams are /dev/null since the launcher started.
        let mut first = 3;
        for fd in kept {
            sys::close_range(first, fd - 1).doing("closing descriptors")?;
            first = fd + 1;
        }
        sys::close_range(first, RawFd::MAX).doing("closing descriptors")
    }

    fn take_identity(&self) -> Result<(), Failure> {
        if self.identity == Identity::Shared {
            return Ok(());
        }
        let (uid, gid) = (Uid::ROOT, Gid::ROOT);
        rustix::thread::set_thread_groups(&[]).doing("dropping groups")?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).doing("taking the agent's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).doing("taking the agent's user")
    }

    fn mount_all(&self) -> Result<(), Failure> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("proc", "/proc", "proc", flags | MountFlags::NOEXEC, None).doing("mounting /proc")?;
        // A name and a little memory for each file: bounded along with the bytes.
        let inodes = (self.tmp_bytes >> 12).clamp(1024, 1 << 20);
        let options = text::c(&format!("mode=1777,size={},nr_inodes={inodes}", self.tmp_bytes))?;
        for place in ["/tmp", "/dev/shm"] {
            mount("tmpfs", place, "tmpfs", flags, Some(options.as_c_str()))
                .doing("mounting a private tmpfs")?;
        }
        for (dir, mode) in [("/tmp/home", 0o700), ("/tmp/run", 0o755)] {
            fs::DirBuilder::new().mode(mode).create(dir).doing("making a directory in /tmp")?;
            chown(dir, Some(INSIDE), Some(INSIDE)).doing("giving a directory to the program")?;
        }
        attach(&self.workspace, Path::new("/workspace"))
    }
}

/// Where programs may write: for the second wall.
fn writable() -> Vec<String> {
    let devices = super::template::device::DEVICES.iter().map(|name| format!("/dev/{name}"));
    let dirs = super::template::PER_SANDBOX.iter().map(|&dir| dir.to_owned());
    dirs.chain(devices).collect()
}
