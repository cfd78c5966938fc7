//! The last steps of a program's process before it becomes the program.
//!
//! Read top to bottom: this is the order in which privilege is given up. The
//! namespaces and mounts were made before; nothing of the request has been
//! interpreted when the first restriction is in place.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sys;
use crate::wire::{Refusal, RunLimits, Step};

/// Everything the steps need, checked and converted before the process is made.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) workdir: CString,
    pub(crate) files: Vec<(CString, Vec<u8>)>,
    pub(crate) limits: RunLimits,
}

/// What is the same for all programs of a sandbox.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    /// Whether the agent can take another identity (it is user 0 of its namespace).
    pub(crate) switch: bool,
    /// The highest capability of the running kernel.
    pub(crate) last_capability: u32,
}

/// Standard input, output and error of the program.
pub(crate) type Stdio<'a> = [BorrowedFd<'a>; 3];

fn at(step: Step) -> impl FnOnce(Errno) -> Refusal {
    move |errno| Refusal { step, errno: errno.raw_os_error() }
}

fn io_at(step: Step) -> impl FnOnce(io::Error) -> Refusal {
    move |error| Refusal { step, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// Turns the calling process into the program. Returns only when a step fails.
pub(crate) fn become_program(
    program: &Program,
    identity: &Identity,
    stdio: Stdio<'_>,
    ruleset: Option<&OwnedFd>,
    filter: &[sys::sock_filter],
) -> Refusal {
    match restrict(program, identity, stdio, ruleset, filter) {
        Ok(()) => execute(program),
        Err(refusal) => refusal,
    }
}

fn restrict(
    program: &Program,
    identity: &Identity,
    stdio: Stdio<'_>,
    ruleset: Option<&OwnedFd>,
    filter: &[sys::sock_filter],
) -> Result<(), Refusal> {
    // Signals that we ignore or block would be inherited through exec.
    sys::default_signals().map_err(io_at(Step::Process))?;
    // A session of its own: no terminal, no process group shared with anyone.
    rustix::process::setsid().map_err(at(Step::Process))?;
    for (fd, number) in stdio.into_iter().zip(0..) {
        sys::dup_to(fd, number).map_err(io_at(Step::Process))?;
    }
    sys::close_on_exec_from(3).map_err(io_at(Step::Process))?;
    // Process 1 of the run is not dumpable, and an undumpable process cannot write its own /proc.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(at(Step::Process))?;
    // The kernel's choice under memory pressure must fall on programs, never on the agent.
    // Best effort: where /proc cannot be written, the group's limit still holds.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    // Limits on the number of processes count from the final identity on, the others must
    // be lowered while nothing forbids the call.
    set_limits(&program.limits).map_err(io_at(Step::Limits))?;
    take_identity(identity).map_err(at(Step::Identity))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // With the program's own identity, so that a link planted in /tmp leads nowhere new.
    write_files(&program.files).map_err(io_at(Step::Files))?;
    rustix::process::chdir(program.workdir.as_c_str()).map_err(at(Step::Workdir))?;
    // Needed by the two that follow, and what makes setuid files harmless.
    rustix::thread::set_no_new_privs(true).map_err(at(Step::Identity))?;
    if let Some(ruleset) = ruleset {
        sys::landlock_restrict(ruleset).map_err(io_at(Step::Landlock))?;
    }
    // Last: it takes away calls used above.
    sys::install_seccomp(filter).map_err(io_at(Step::Seccomp))
}

fn set_limits(limits: &RunLimits) -> io::Result<()> {
    let cpu_s = limits.cpu_ms.div_ceil(1000).max(1);
    sys::lower_rlimit(libc::RLIMIT_CORE, 0, 0)?;
    sys::lower_rlimit(libc::RLIMIT_CPU, cpu_s, cpu_s + 1)?;
    sys::lower_rlimit(libc::RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)?;
    let open_files = u64::from(limits.open_files);
    sys::lower_rlimit(libc::RLIMIT_NOFILE, open_files, open_files)?;
    let processes = u64::from(limits.processes);
    sys::lower_rlimit(libc::RLIMIT_NPROC, processes, processes)?;
    sys::lower_rlimit(libc::RLIMIT_MEMLOCK, 64 << 10, 64 << 10)?;
    sys::lower_rlimit(libc::RLIMIT_MSGQUEUE, 800 << 10, 800 << 10)?;
    sys::lower_rlimit(libc::RLIMIT_SIGPENDING, 1024, 1024)?;
    sys::lower_rlimit(libc::RLIMIT_NICE, 0, 0)?;
    sys::lower_rlimit(libc::RLIMIT_RTPRIO, 0, 0)?;
    sys::lower_rlimit(libc::RLIMIT_STACK, 8 << 20, 64 << 20)?;
    if limits.data_bytes > 0 {
        sys::lower_rlimit(libc::RLIMIT_DATA, limits.data_bytes, limits.data_bytes)?;
    }
    Ok(())
}

fn take_identity(identity: &Identity) -> rustix::io::Result<()> {
    // The bounding set goes first: dropping it needs a capability that goes with the identity.
    for capability in 0..=identity.last_capability {
        sys::drop_bounding(capability)?;
    }
    if identity.switch {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(identity.gid, identity.gid, identity.gid)?;
        rustix::thread::set_thread_res_uid(identity.uid, identity.uid, identity.uid)?;
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

fn write_files(files: &[(CString, Vec<u8>)]) -> io::Result<()> {
    for (path, content) in files {
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        if let Some(parent) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        options.open(path)?.write_all(content)?;
    }
    Ok(())
}

fn execute(program: &Program) -> Refusal {
    let refused = |errno| Refusal { step: Step::Exec, errno };
    let Some(name) = program.argv.first() else {
        return Refusal { step: Step::Request, errno: libc::EINVAL };
    };
    if name.to_bytes().contains(&b'/') {
        let error = sys::execve(name, &program.argv, &program.env);
        return refused(error.raw_os_error().unwrap_or(libc::EIO));
    }
    let mut last = libc::ENOENT;
    for dir in search_path(&program.env).split(|&byte| byte == b':') {
        let mut candidate = if dir.is_empty() { b".".to_vec() } else { dir.to_vec() };
        candidate.push(b'/');
        candidate.extend_from_slice(name.to_bytes());
        let Ok(candidate) = CString::new(candidate) else { continue };
        match sys::execve(&candidate, &program.argv, &program.env).raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            // Another directory may have one that can be executed; the refusal is remembered.
            Some(libc::EACCES) => last = libc::EACCES,
            other => return refused(other.unwrap_or(libc::EIO)),
        }
    }
    refused(last)
}

fn search_path(env: &[CString]) -> &[u8] {
    let path =
        env.iter().map(|entry| entry.to_bytes()).find_map(|entry| entry.strip_prefix(b"PATH="));
    path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin")
}

/// Checks and converts what came over the wire.
pub(crate) fn program(start: &crate::wire::Start) -> Result<Program, Refusal> {
    let text = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_nul| Refusal { step: Step::Request, errno: libc::EINVAL })
    };
    let mut env = Vec::with_capacity(start.env.len());
    for (name, value) in &start.env {
        let mut entry = Vec::with_capacity(name.len() + value.len() + 1);
        entry.extend_from_slice(name);
        entry.push(b'=');
        entry.extend_from_slice(value);
        env.push(text(&entry)?);
    }
    let files = start.files.iter().map(|(path, content)| Ok((text(path)?, content.to_vec())));
    Ok(Program {
        argv: start.argv.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?,
        env,
        workdir: text(&start.workdir)?,
        files: files.collect::<Result<_, _>>()?,
        limits: start.limits,
    })
}
