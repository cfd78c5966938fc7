//! Looks at a sandbox from where a program stands: behind every restriction.
//!
//! Process 1 of a throw-away sandbox starts our own image again as a program
//! would be started, and that program tries what must not work.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Gid, Uid};

use super::protocol::{Inside, encode};
use crate::agent::Setup;
use crate::steps::{self, Identity, Program};
use crate::wire::RunLimits;
use crate::{landlock, seccomp, sys};

/// The mode of our image that looks around.
pub(crate) const MODE: &str = "inside";
const LIMITS: RunLimits = RunLimits {
    wall_ms: 0,
    cpu_ms: 5000,
    output_kept: 0,
    output_max: 0,
    file_bytes: 1 << 20,
    open_files: 64,
    processes: 64,
    data_bytes: 0,
};

/// Process 1 of the sandbox: starts the looking program and ends with it. What
/// it sees goes to the descriptor that would be the agent's channel.
pub(crate) fn look(setup: &Setup, canary: &str) -> ! {
    let _ = start(setup, canary);
    sys::exit_now(0)
}

fn start(setup: &Setup, canary: &str) -> io::Result<()> {
    let ruleset = landlock::ruleset(&setup.readable, &setup.writable).map_err(io::Error::other)?;
    let program = Program {
        argv: [b"/proc/self/exe".as_slice(), MODE.as_bytes(), canary.as_bytes()]
            .into_iter()
            .map(|arg| std::ffi::CString::new(arg).map_err(io::Error::other))
            .collect::<io::Result<_>>()?,
        env: Vec::new(),
        workdir: c"/workspace".to_owned(),
        files: Vec::new(),
        limits: LIMITS,
    };
    let identity = Identity {
        uid: Uid::from_raw(setup.uid),
        gid: Gid::from_raw(setup.gid),
        switch: setup.own_identity,
        last_capability: fs::read_to_string("/proc/sys/kernel/cap_last_cap")?
            .trim()
            .parse()
            .map_err(io::Error::other)?,
    };
    let null = OwnedFd::from(File::open("/dev/null")?);
    if let sys::Forked::Parent { pid, .. } = sys::clone3(0, None)? {
        sys::wait(pid, true)?;
        return Ok(());
    }
    let stdio = [null.as_fd(), setup.channel.as_fd(), null.as_fd()];
    steps::become_program(&program, &identity, stdio, ruleset.as_ref(), &seccomp::program());
    sys::exit_now(1)
}

/// The looking program itself. `canary` is a path that exists on the machine.
pub fn report(canary: &str) -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    let no_capabilities = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"]
        .iter()
        .all(|set| u64::from_str_radix(&field(set), 16) == Ok(0));
    let seen = Inside {
        root_read_only: File::create("/canary").is_err() && File::create("/usr/canary").is_err(),
        host_hidden: fs::symlink_metadata(canary).is_err(),
        foreign_processes: foreign_processes(),
        foreign_interfaces: foreign_interfaces(),
        filter_works: field("Seccomp:") == "2"
            && sys::unshare(libc::CLONE_NEWUSER)
                .is_err_and(|e| e.raw_os_error() == Some(libc::EPERM)),
        landlock: 0,
        no_privileges: no_capabilities && field("NoNewPrivs:") == "1",
    };
    let bytes = encode(&seen).map_err(io::Error::other)?;
    io::stdout().write_all(&bytes)?;
    io::stdout().flush()
}

/// Processes other than process 1 and this one. `u32::MAX` where /proc cannot be read.
fn foreign_processes() -> u32 {
    let Ok(entries) = fs::read_dir("/proc") else { return u32::MAX };
    let own = std::process::id();
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let foreign = pids.filter(|&pid: &u32| pid != 1 && pid != own).count();
    u32::try_from(foreign).unwrap_or(u32::MAX)
}

/// Network interfaces other than loopback. `u32::MAX` where they cannot be read.
fn foreign_interfaces() -> u32 {
    let Ok(table) = fs::read_to_string("/proc/net/dev") else { return u32::MAX };
    let names = table.lines().skip(2).filter_map(|line| line.split(':').next());
    u32::try_from(names.filter(|name| name.trim() != "lo").count()).unwrap_or(u32::MAX)
}
