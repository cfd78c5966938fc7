//! Which system calls a program may make, as data.
//!
//! The list was tested against CPython with its scientific stack, Node, Bun, gcc,
//! Java, Go, Rust, git, pip, npm and a shell with the usual tools. Whatever is
//! known to the kernel and not listed answers `EPERM`; numbers that no kernel
//! of today knows answer `ENOSYS`, so that newer C libraries fall back.

use libc::*;

/// Calls that are allowed whatever their arguments.
pub(super) const ALLOWED: &[c_long] = &[
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_brk,
    SYS_capget,
    SYS_capset,
    SYS_chdir,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_close,
    SYS_close_range,
    SYS_connect,
    SYS_copy_file_range,
    SYS_dup,
    SYS_dup3,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_fallocate,
    SYS_fchdir,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchmodat2,
    SYS_fchown,
    SYS_fchownat,
    SYS_fdatasync,
    SYS_fgetxattr,
    SYS_flistxattr,
    SYS_flock,
    SYS_fremovexattr,
    SYS_fsetxattr,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_futex,
    SYS_futex_waitv,
    SYS_get_robust_list,
    SYS_getcpu,
    SYS_getcwd,
    SYS_getdents64,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getgroups,
    SYS_getitimer,
    SYS_getpeername,
    SYS_getpgid,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_getsid,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_gettid,
    SYS_gettimeofday,
    SYS_getuid,
    SYS_getxattr,
    SYS_inotify_add_watch,
    SYS_inotify_init1,
    SYS_inotify_rm_watch,
    SYS_io_cancel,
    SYS_io_destroy,
    SYS_io_getevents,
    SYS_io_setup,
    SYS_io_submit,
    SYS_ioprio_get,
    SYS_kill,
    SYS_landlock_add_rule,
    SYS_landlock_create_ruleset,
    SYS_landlock_restrict_self,
    SYS_lgetxattr,
    SYS_linkat,
    SYS_listen,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_lremovexattr,
    SYS_lseek,
    SYS_lsetxattr,
    SYS_madvise,
    SYS_membarrier,
    SYS_memfd_create,
    SYS_mincore,
    SYS_mkdirat,
    SYS_mlock,
    SYS_mlock2,
    SYS_mlockall,
    SYS_mmap,
    SYS_mprotect,
    SYS_mq_getsetattr,
    SYS_mq_notify,
    SYS_mq_open,
    SYS_mq_timedreceive,
    SYS_mq_timedsend,
    SYS_mq_unlink,
    SYS_mremap,
    SYS_msgctl,
    SYS_msgget,
    SYS_msgrcv,
    SYS_msgsnd,
    SYS_msync,
    SYS_munlock,
    SYS_munlockall,
    SYS_munmap,
    SYS_nanosleep,
    SYS_newfstatat,
    SYS_openat,
    SYS_openat2,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_pipe2,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_ppoll,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_prlimit64,
    SYS_pselect6,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readahead,
    SYS_readlinkat,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_remap_file_pages,
    SYS_removexattr,
    SYS_renameat,
    SYS_renameat2,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_rt_tgsigqueueinfo,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_getaffinity,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_rr_get_interval,
    SYS_sched_setaffinity,
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_sched_yield,
    SYS_seccomp,
    SYS_semctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_sendfile,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_setfsgid,
    SYS_setfsuid,
    SYS_setgid,
    SYS_setgroups,
    SYS_setitimer,
    SYS_setpgid,
    SYS_setpriority,
    SYS_setregid,
    SYS_setresgid,
    SYS_setresuid,
    SYS_setreuid,
    SYS_setrlimit,
    SYS_setsid,
    SYS_setuid,
    SYS_setxattr,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_shmget,
    SYS_shutdown,
    SYS_sigaltstack,
    SYS_signalfd4,
    SYS_splice,
    SYS_statfs,
    SYS_statx,
    SYS_symlinkat,
    SYS_sync,
    SYS_sync_file_range,
    SYS_syncfs,
    SYS_sysinfo,
    SYS_tee,
    SYS_tgkill,
    SYS_timer_create,
    SYS_timer_delete,
    SYS_timer_getoverrun,
    SYS_timer_gettime,
    SYS_timer_settime,
    SYS_timerfd_create,
    SYS_timerfd_gettime,
    SYS_timerfd_settime,
    SYS_times,
    SYS_tkill,
    SYS_truncate,
    SYS_umask,
    SYS_uname,
    SYS_unlinkat,
    SYS_utimensat,
    SYS_vmsplice,
    SYS_wait4,
    SYS_waitid,
    SYS_write,
    SYS_writev,
];

/// Calls of the same kind that only older architectures have.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED_LEGACY: &[c_long] = &[
    SYS_access,
    SYS_alarm,
    SYS_arch_prctl,
    SYS_chmod,
    SYS_chown,
    SYS_creat,
    SYS_dup2,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_fork,
    SYS_get_thread_area,
    SYS_getdents,
    SYS_getpgrp,
    SYS_inotify_init,
    SYS_lchown,
    SYS_link,
    SYS_lstat,
    SYS_mkdir,
    SYS_open,
    SYS_pause,
    SYS_pipe,
    SYS_poll,
    SYS_readlink,
    SYS_rename,
    SYS_rmdir,
    SYS_select,
    SYS_signalfd,
    SYS_stat,
    SYS_symlink,
    SYS_time,
    SYS_unlink,
    SYS_utime,
    SYS_utimes,
    SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_LEGACY: &[c_long] = &[];

/// Calls that answer `ENOSYS` although the kernel knows them.
///
/// `clone3` keeps its flags behind a pointer that a filter cannot read; C libraries
/// fall back to `clone` on `ENOSYS` and break on `EPERM`. `io_uring` can make sockets
/// and open files past this filter; programs fall back likewise.
pub(super) const ABSENT: &[c_long] =
    &[SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register];

/// Highest numbers of the two blocks of calls that the kernel knew when this list
/// was made. Above them, and between them, a call is unknown: `ENOSYS`.
#[cfg(target_arch = "x86_64")]
pub(super) const KNOWN: &[(u32, u32)] = &[(0, 334), (424, 450), (452, 452)];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const KNOWN: &[(u32, u32)] = &[(0, 294), (424, 450), (452, 452)];

/// A call whose arguments decide. The first clause that matches refuses it.
pub(super) struct Checked {
    /// The call.
    pub(super) number: c_long,
    /// When it is refused.
    pub(super) refuse: &'static [Clause],
}

/// Refuses with this error when every test holds.
pub(super) struct Clause {
    /// The answer.
    pub(super) errno: i32,
    /// All of them must hold.
    pub(super) tests: &'static [Test],
}

/// Looks at the low word of one argument. The kernel itself takes only the low
/// word of these, so that high bits must not change the answer.
pub(super) struct Test {
    /// Which argument, from 0.
    pub(super) arg: u32,
    /// Which bits.
    pub(super) mask: u32,
    /// Whether they must be among the values, or must not.
    pub(super) holds: Holds,
}

/// When a test holds.
#[derive(Clone, Copy)]
pub(super) enum Holds {
    /// The masked word is one of these.
    In(&'static [u32]),
    /// The masked word is none of these.
    NotIn(&'static [u32]),
}

const ALL: u32 = u32::MAX;
/// `CLONE_NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`, `NEWUSER`, `NEWPID`, `NEWNET`.
const NEW_NAMESPACES: u32 = 0x7E02_0000;
const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;

pub(super) const CHECKED: &[Checked] = &[
    // No new namespace: user namespaces open most of the kernel's privileged surface.
    Checked {
        number: SYS_clone,
        refuse: &[Clause {
            errno: EPERM,
            tests: &[Test { arg: 0, mask: NEW_NAMESPACES, holds: Holds::NotIn(&[0]) }],
        }],
    },
    Checked {
        number: SYS_socket,
        refuse: &[
            // AF_ALG, AF_VSOCK, AF_PACKET and some forty others are attack surface without use here.
            Clause {
                errno: EAFNOSUPPORT,
                tests: &[Test {
                    arg: 0,
                    mask: ALL,
                    holds: Holds::NotIn(&[UNIX, INET, INET6, NETLINK]),
                }],
            },
            // Of netlink only routing (0): the C library asks it for interface addresses.
            Clause {
                errno: EAFNOSUPPORT,
                tests: &[
                    Test { arg: 0, mask: ALL, holds: Holds::In(&[NETLINK]) },
                    Test { arg: 2, mask: ALL, holds: Holds::NotIn(&[0]) },
                ],
            },
            // Raw (3) and packet (10) sockets need privileges nobody has here.
            Clause {
                errno: EPERM,
                tests: &[
                    Test { arg: 0, mask: ALL, holds: Holds::In(&[UNIX, INET, INET6]) },
                    Test { arg: 1, mask: 0xF, holds: Holds::In(&[3, 10]) },
                ],
            },
        ],
    },
    Checked {
        number: SYS_socketpair,
        // The kernel makes pairs of Unix sockets only; TIPC, which also can, is surface.
        refuse: &[Clause {
            errno: EAFNOSUPPORT,
            tests: &[Test { arg: 0, mask: ALL, holds: Holds::NotIn(&[UNIX]) }],
        }],
    },
    Checked {
        number: SYS_setsockopt,
        refuse: &[
            // TCP_ULP (31) switches a socket to in-kernel TLS, a rich source of kernel bugs.
            pair(&[
                Test { arg: 1, mask: ALL, holds: Holds::In(&[6]) },
                Test { arg: 2, mask: ALL, holds: Holds::In(&[31]) },
            ]),
            // SO_ATTACH_FILTER (26), _BPF (50), REUSEPORT_CBPF (51) and _EBPF (52) load programs into the kernel.
            pair(&[
                Test { arg: 1, mask: ALL, holds: Holds::In(&[1]) },
                Test { arg: 2, mask: ALL, holds: Holds::In(&[26, 50, 51, 52]) },
            ]),
            // IPsec policies (16, 17) and iptables' own options (64 to 66) of IPv4.
            pair(&[
                Test { arg: 1, mask: ALL, holds: Holds::In(&[0]) },
                Test { arg: 2, mask: ALL, holds: Holds::In(&[16, 17, 64, 65, 66]) },
            ]),
            // The same of IPv6 (34, 35, 64 to 66).
            pair(&[
                Test { arg: 1, mask: ALL, holds: Holds::In(&[41]) },
                Test { arg: 2, mask: ALL, holds: Holds::In(&[34, 35, 64, 65, 66]) },
            ]),
        ],
    },
    Checked {
        number: SYS_ioctl,
        // TIOCSTI, TIOCLINUX, TIOCSETD and TIOCCONS reach the terminal of whoever started us
        // (CVE-2017-5226, CVE-2019-10063: the check must ignore the high word).
        refuse: &[Clause {
            errno: EPERM,
            tests: &[Test {
                arg: 1,
                mask: ALL,
                holds: Holds::In(&[0x5412, 0x541C, 0x5423, 0x541D]),
            }],
        }],
    },
    Checked {
        number: SYS_fcntl,
        // F_SETLEASE and F_NOTIFY signal across sandboxes through shared read-only files.
        refuse: &[Clause {
            errno: EPERM,
            tests: &[Test { arg: 1, mask: ALL, holds: Holds::In(&[1024, 1026]) }],
        }],
    },
    Checked {
        number: SYS_prctl,
        // PR_SET_SECUREBITS (28), PR_MCE_KILL (33), PR_SET_MM (35), PR_SET_SYSCALL_USER_DISPATCH (59).
        refuse: &[Clause {
            errno: EPERM,
            tests: &[Test { arg: 0, mask: ALL, holds: Holds::In(&[28, 33, 35, 59]) }],
        }],
    },
    Checked {
        number: SYS_personality,
        // Only the default and the query: no address layout without randomness, no foreign ABI.
        refuse: &[Clause {
            errno: EPERM,
            tests: &[Test { arg: 0, mask: ALL, holds: Holds::NotIn(&[0, u32::MAX]) }],
        }],
    },
    Checked {
        number: SYS_mknodat,
        refuse: &[no_device(&[Test { arg: 2, mask: 0xF000, holds: Holds::In(&[0x2000, 0x6000]) }])],
    },
    #[cfg(target_arch = "x86_64")]
    Checked {
        number: SYS_mknod,
        refuse: &[no_device(&[Test { arg: 1, mask: 0xF000, holds: Holds::In(&[0x2000, 0x6000]) }])],
    },
];

const fn pair(tests: &'static [Test]) -> Clause {
    Clause { errno: EPERM, tests }
}

/// Character and block devices.
const fn no_device(tests: &'static [Test]) -> Clause {
    Clause { errno: EPERM, tests }
}
