//! From what the kernel and the agent saw to exactly one verdict.

use crate::backend::{EndCause, Exit, ExitStatus};
use crate::error::Error;
use crate::outcome::{Outcome, Usage, Verdict};

const SIGXCPU: u8 = 24;
const SIGXFSZ: u8 = 25;

/// The outcome of a process that has exited. Who ended it counts more than how.
pub(crate) fn of_exit(exit: &Exit) -> Outcome {
    let (exit_code, signal, refusal) = match &exit.status {
        ExitStatus::Code(code) => (Some(*code), None, None),
        ExitStatus::Signal(signal) => (None, Some(*signal), None),
        ExitStatus::Refused(why) => (None, None, Some(why.clone())),
    };
    let by_itself = match (exit_code, signal) {
        (Some(0), _) => Verdict::Ok,
        (Some(_), _) => Verdict::Nonzero,
        (None, Some(SIGXCPU)) => Verdict::CpuLimit,
        (None, Some(SIGXFSZ)) => Verdict::DiskLimit,
        (None, Some(_)) => Verdict::Signal,
        (None, None) => Verdict::Refused,
    };
    let verdict = exit.cause.map_or(by_itself, of_cause);
    Outcome { verdict, exit_code, signal, usage: exit.usage, detail: refusal }
}

/// The verdict when someone ended the run for this reason.
pub(crate) fn of_cause(cause: EndCause) -> Verdict {
    match cause {
        EndCause::WallTime => Verdict::Timeout,
        EndCause::CpuTime => Verdict::CpuLimit,
        EndCause::Memory => Verdict::MemoryLimit,
        EndCause::Pids => Verdict::PidsLimit,
        EndCause::Output => Verdict::OutputLimit,
        EndCause::Disk => Verdict::DiskLimit,
        EndCause::Cancelled => Verdict::Cancelled,
    }
}

/// The outcome of a run that never came to an exit.
pub(crate) fn without_exit(verdict: Verdict, detail: impl Into<String>) -> Outcome {
    Outcome {
        verdict,
        exit_code: None,
        signal: None,
        usage: Usage::default(),
        detail: Some(detail.into()),
    }
}

/// The outcome of a run that failed before its program started.
pub(crate) fn of_failure(error: &Error) -> Outcome {
    let verdict = match error {
        Error::Backend { .. } => Verdict::Internal,
        _ => Verdict::Refused,
    };
    without_exit(verdict, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: &ExitStatus, cause: Option<EndCause>, expected: Verdict) {
        let exit = Exit { status: status.clone(), cause, usage: Usage::default() };
        assert_eq!(of_exit(&exit).verdict, expected, "{status:?} {cause:?}");
    }

    #[test]
    fn every_end_has_one_verdict() {
        check(&ExitStatus::Code(0), None, Verdict::Ok);
        for code in 1..=255 {
            check(&ExitStatus::Code(code), None, Verdict::Nonzero);
        }
        for signal in 1..=64 {
            let expected = match signal {
                SIGXCPU => Verdict::CpuLimit,
                SIGXFSZ => Verdict::DiskLimit,
                _ => Verdict::Signal,
            };
            check(&ExitStatus::Signal(signal), None, expected);
        }
        check(&ExitStatus::Refused("no such program".into()), None, Verdict::Refused);
    }

    #[test]
    fn the_cause_counts_more_than_the_signal() {
        for (cause, verdict) in [
            (EndCause::WallTime, Verdict::Timeout),
            (EndCause::CpuTime, Verdict::CpuLimit),
            (EndCause::Memory, Verdict::MemoryLimit),
            (EndCause::Pids, Verdict::PidsLimit),
            (EndCause::Output, Verdict::OutputLimit),
            (EndCause::Disk, Verdict::DiskLimit),
            (EndCause::Cancelled, Verdict::Cancelled),
        ] {
            check(&ExitStatus::Signal(9), Some(cause), verdict);
            check(&ExitStatus::Code(1), Some(cause), verdict);
        }
    }

    #[test]
    fn a_refusal_keeps_its_sentence() {
        let status = ExitStatus::Refused("no such program: foo".into());
        let outcome = of_exit(&Exit { status, cause: None, usage: Usage::default() });
        assert_eq!(outcome.detail.as_deref(), Some("no such program: foo"));
    }
}
