//! Between the words of the engine and the words of the wire.

use std::os::unix::ffi::OsStrExt;

use serde_bytes::ByteBuf;
use stockade_agent::wire::{self, Refusal, RunLimits, Status, Step};
use stockade_core::backend::{EndCause, Exit, ExitStatus, Stream};
use stockade_core::outcome::Usage;
use stockade_core::spec::{Command, Overflow, Stdin};

pub(crate) fn start(command: &Command) -> wire::Start {
    let bytes = |text: &std::ffi::OsStr| ByteBuf::from(text.as_bytes());
    let limits = &command.limits;
    wire::Start {
        argv: command.argv.iter().map(|arg| bytes(arg)).collect(),
        env: command.env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        workdir: bytes(command.workdir.as_os_str()),
        files: command
            .files
            .iter()
            .map(|file| (bytes(file.path.as_os_str()), ByteBuf::from(&*file.content)))
            .collect(),
        stdin: command.stdin == Stdin::Piped,
        lossless: command.overflow == Overflow::Wait,
        key: command.idempotency_key.clone(),
        limits: RunLimits {
            wall_ms: millis(limits.wall_time),
            cpu_ms: millis(limits.cpu_time),
            output_kept: limits.output_kept_bytes,
            output_max: limits.output_max_bytes,
            file_bytes: limits.file_bytes,
            open_files: limits.open_files,
            processes: limits.pids,
            data_bytes: 0,
        },
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn stream(stream: wire::Stream) -> Stream {
    match stream {
        wire::Stream::Stdout => Stream::Stdout,
        wire::Stream::Stderr => Stream::Stderr,
    }
}

pub(crate) fn cause_to_wire(cause: EndCause) -> wire::Cause {
    match cause {
        EndCause::WallTime => wire::Cause::WallTime,
        EndCause::CpuTime => wire::Cause::CpuTime,
        EndCause::Memory => wire::Cause::Memory,
        EndCause::Pids => wire::Cause::Pids,
        EndCause::Output => wire::Cause::Output,
        EndCause::Disk => wire::Cause::Disk,
        EndCause::Cancelled => wire::Cause::Cancelled,
    }
}

fn cause(cause: wire::Cause) -> EndCause {
    match cause {
        wire::Cause::WallTime => EndCause::WallTime,
        wire::Cause::CpuTime => EndCause::CpuTime,
        wire::Cause::Memory => EndCause::Memory,
        wire::Cause::Pids => EndCause::Pids,
        wire::Cause::Output => EndCause::Output,
        wire::Cause::Disk => EndCause::Disk,
        wire::Cause::Cancelled => EndCause::Cancelled,
    }
}

pub(crate) fn exit(end: &wire::End, program: &str) -> Exit {
    Exit {
        status: match end.status {
            Status::Code(code) => ExitStatus::Code(code),
            Status::Signal(signal) => ExitStatus::Signal(signal),
            Status::Refused(refusal) => ExitStatus::Refused(explain(refusal, program)),
        },
        cause: end.cause.map(cause),
        usage: Usage {
            wall_us: end.wall_us,
            user_us: end.user_us,
            system_us: end.system_us,
            peak_memory_bytes: Some(end.max_rss_bytes),
            stdout_bytes: end.stdout_bytes,
            stderr_bytes: end.stderr_bytes,
        },
    }
}

/// One sentence for a program that could not be started. The text is ours; of the
/// agent's answer only two numbers are used.
fn explain(refusal: Refusal, program: &str) -> String {
    let Refusal { step, errno } = refusal;
    let cause = std::io::Error::from_raw_os_error(errno);
    match (step, errno) {
        (Step::Exec, libc_errno::ENOENT) => {
            format!("`{program}`: no such program in the sandbox (or its interpreter is missing)")
        }
        (Step::Exec, libc_errno::EACCES) => {
            format!("`{program}` is not an executable file; try chmod +x, or name its interpreter")
        }
        (Step::Exec, libc_errno::ENOEXEC) => {
            format!("`{program}` is in no format this machine can execute")
        }
        (Step::Exec, libc_errno::E2BIG) => {
            "arguments and environment together are too long; put the data into a file".to_owned()
        }
        (Step::Exec, _) => format!("`{program}` cannot be executed: {cause}"),
        (Step::Workdir, _) => format!("the working directory cannot be entered: {cause}"),
        (Step::Files, _) => format!("the program file cannot be written: {cause}"),
        (Step::Process, libc_errno::EAGAIN) => {
            "no more processes may be started in this sandbox; end a run first".to_owned()
        }
        (Step::Request, _) => "the command makes no sense: empty, or with a NUL byte".to_owned(),
        (step, _) => format!("the sandbox could not be entered ({step:?}): {cause}"),
    }
}

/// The few error numbers with a sentence of their own (the same on all Linux architectures).
mod libc_errno {
    pub(super) const ENOENT: i32 = 2;
    pub(super) const E2BIG: i32 = 7;
    pub(super) const ENOEXEC: i32 = 8;
    pub(super) const EAGAIN: i32 = 11;
    pub(super) const EACCES: i32 = 13;
}
