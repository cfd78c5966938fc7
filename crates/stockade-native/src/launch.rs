//! Starts the launcher: the one place from which this crate starts a process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// The static program: launcher outside, agent inside.
static AGENT: &[u8] = include_bytes!(env!("STOCKADE_AGENT"));

/// A running launcher: the control socket, and the process to wait for.
pub(crate) fn launch() -> io::Result<(OwnedFd, Child)> {
    let program = sealed_program()?;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    #[expect(clippy::disallowed_methods, reason = "the launcher is what starts everything else")]
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    let child = command
        .arg0("stockade-launcher")
        .arg("launcher")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((ours, child))
}

/// The program in memory that nobody can write to any more, we included: code in
/// a sandbox could otherwise reach it through /proc/self/exe and change the next one.
fn sealed_program() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match memfd_create(c"stockade-agent", flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know the flag and need none.
        Err(Errno::INVAL) => memfd_create(c"stockade-agent", flags),
        made => made,
    };
    let mut file = File::from(memory.map_err(|errno| match errno {
        Errno::ACCESS => io::Error::other(
            "programs in memory are forbidden here; set the sysctl vm.memfd_noexec to 0 or 1",
        ),
        errno => errno.into(),
    })?);
    file.write_all(AGENT)?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(file.as_fd(), seals)?;
    Ok(file.into())
}
