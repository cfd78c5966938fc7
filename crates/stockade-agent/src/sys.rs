//! Raw system calls that no safe wrapper offers. The only file with `unsafe`.
//!
//! Everything here runs in single-threaded processes: the agent, the launcher
//! and their children. That is what makes a bare `clone3` sound: no other
//! thread can hold a lock that the child would need.
#![expect(unsafe_code, reason = "raw system calls; one a block, each with its reason")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Which side of a `clone3` this is.
#[derive(Debug)]
pub enum Forked {
    /// The caller: the child's process id in the caller's namespace, and a handle to it.
    Parent {
        /// Process id.
        pid: i32,
        /// Process handle; readable once the process has ended.
        pidfd: OwnedFd,
    },
    /// The new process.
    Child,
}

/// Copies the calling process into a new one, in the new namespaces named by
/// `flags` (`CLONE_NEW*`). With `cgroup`, the child starts in that cgroup v2 directory.
pub fn clone3(flags: c_int, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain data for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from((flags | libc::CLONE_PIDFD).cast_unsigned());
    args.pidfd = ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    }
    let args_ptr = ptr::from_mut(&mut args);
    // SAFETY: args lives on this stack and its size is given; no CLONE_VM, so the
    // child has its own copy of all memory. The process is single-threaded.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, args_ptr, size_of::<libc::clone_args>()) };
    match pid {
        0 => Ok(Forked::Child),
        pid if pid > 0 => {
            // SAFETY: the kernel has just put a new descriptor there, owned by nobody else.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid: i32::try_from(pid).unwrap_or(i32::MAX), pidfd })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Replaces the calling process. Returns only on failure.
pub fn execve(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let env = pointers(env);
    // SAFETY: path, argv and env are NUL-terminated and outlive the call; both
    // arrays end with a null pointer.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Ends the calling process at once: no destructors, no buffers flushed.
pub fn exit_now(code: c_int) -> ! {
    // SAFETY: _exit takes an integer and never returns.
    unsafe { libc::_exit(code) }
}

/// One instruction of a classic BPF program.
pub use libc::sock_filter;

/// Installs a seccomp filter on the calling thread for good.
pub fn install_seccomp(program: &[sock_filter]) -> io::Result<()> {
    let prog = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    let prog_ptr = ptr::from_ref(&prog);
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: prog points to len instructions that outlive the call; the kernel only reads them.
    match unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, prog_ptr) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Marks every descriptor from `first` on as closed by the next `execve`.
pub fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    let first = first.cast_unsigned();
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: close_range(2) with CLOEXEC only sets a flag; no descriptor is closed here.
    match unsafe { libc::close_range(first, u32::MAX, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes every descriptor in `first..=last`, whoever owns it. For freshly
/// forked children only, which use none of them afterwards.
pub fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the caller is a fresh child that uses none of these descriptors any more;
    // values that own them are never dropped, since the child execs or exits.
    match unsafe { libc::close_range(first.cast_unsigned(), last.cast_unsigned(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts a descriptor at a fixed number (without close-on-exec), for a child that will exec.
pub fn dup_to(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        // SAFETY: F_SETFD takes an integer and touches no memory.
        return match unsafe { libc::fcntl(number, libc::F_SETFD, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
    }
    // SAFETY: the caller is a child about to exec; whatever was at `number` is meant to go.
    match unsafe { libc::dup3(fd.as_raw_fd(), number, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// How a child ended, and what it and all it waited for have used.
#[derive(Debug, Clone, Copy)]
pub struct Waited {
    /// Its process id.
    pub pid: i32,
    /// The raw wait status.
    pub status: c_int,
    /// User time in microseconds.
    pub user_us: u64,
    /// System time in microseconds.
    pub system_us: u64,
    /// Largest resident set of any one process, in bytes.
    pub max_rss_bytes: u64,
}

/// Waits for a child (`-1`: any). `None` when `block` is false and none has ended.
/// Fails with `ECHILD` when there is none.
pub fn wait(pid: i32, block: bool) -> io::Result<Option<Waited>> {
    let mut status = 0;
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let options = if block { libc::__WALL } else { libc::__WALL | libc::WNOHANG };
    loop {
        // SAFETY: both pointers are to live locals of the right type.
        let pid = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        match pid {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            0 => return Ok(None),
            pid => {
                return Ok(Some(Waited {
                    pid,
                    status,
                    user_us: micros(usage.ru_utime),
                    system_us: micros(usage.ru_stime),
                    max_rss_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
                }));
            }
        }
    }
}

fn micros(time: libc::timeval) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned()
}

/// Sets a resource limit of the calling process; both the soft and the hard one.
/// Lowers at most: a hard limit below `value` is left as it is.
pub fn lower_rlimit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live local of the right type.
    if unsafe { libc::getrlimit(resource, &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let hard = hard.min(now.rlim_max);
    let wanted = libc::rlimit { rlim_cur: soft.min(hard), rlim_max: hard };
    // SAFETY: the pointer is to a live local of the right type.
    match unsafe { libc::setrlimit(resource, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Resets every signal to its default action and unblocks all, for a child that will exec.
pub fn default_signals() -> io::Result<()> {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is always a valid handler; failures (KILL, STOP, 32, 33) are meant.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an empty set is a valid value of the plain-data type.
    let empty: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local; the old set is not asked for.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ignores a signal in the calling process.
pub fn ignore_signal(signal: c_int) {
    // SAFETY: SIG_IGN is always a valid handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Sends a signal, by number, through a process handle.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: c_int) -> io::Result<()> {
    let (fd, none) = (pidfd.as_raw_fd(), ptr::null::<c_void>());
    // SAFETY: a null siginfo asks the kernel to fill it in; no memory of ours is touched.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Brings the loopback interface of the calling network namespace up.
pub fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *slot = byte.cast_signed();
    }
    // IFF_UP and IFF_RUNNING.
    request.ifr_ifru.ifru_flags = 0x41;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which is a live local.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Changes attributes of a mount, given by a descriptor (`mount_setattr` with `AT_EMPTY_PATH`).
/// `userns` maps owners through that user namespace.
pub fn mount_setattr(
    mount: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    clear: u64,
    userns: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    // SAFETY: mount_attr is plain data for which all zeroes is a valid value.
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    attr.attr_set = set;
    attr.attr_clr = clear;
    if let Some(userns) = userns {
        attr.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attr.userns_fd = u64::from(userns.as_raw_fd().cast_unsigned());
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let (fd, empty, attr_ptr) = (mount.as_raw_fd(), c"".as_ptr(), ptr::from_ref(&attr));
    let size = size_of::<libc::mount_attr>();
    // SAFETY: the path is a NUL-terminated literal and attr a live local whose size is given.
    match unsafe { libc::syscall(libc::SYS_mount_setattr, fd, empty, flags, attr_ptr, size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes over a descriptor by number, for descriptors handed over at program start.
///
/// # Errors
/// Fails when the number is not an open descriptor.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes an integer and touches no memory.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the caller is the only one that takes this number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Restricts the calling thread by a Landlock rule set for good.
pub fn landlock_restrict(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: landlock_restrict_self(2) takes a descriptor and flags and touches no memory.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes a capability, by number, from the bounding set for good.
pub fn drop_bounding(capability: u32) -> rustix::io::Result<()> {
    // SAFETY: PR_CAPBSET_DROP takes an integer and touches no memory.
    match unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::IO)),
    }
}

/// Moves the calling process into new namespaces.
pub fn unshare(namespaces: c_int) -> io::Result<()> {
    // SAFETY: unshare(2) takes an integer and touches no memory of ours; the flags given
    // here are namespaces only, never CLONE_FILES.
    match unsafe { libc::unshare(namespaces) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The version of Landlock's interface; 0 where the kernel has none.
pub fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    let none = ptr::null::<c_void>();
    // SAFETY: with a null attribute of size 0 and this flag, the call only answers a number.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    u32::try_from(answer).unwrap_or(0)
}
