//! The first lines of a run's answer: how it went, and its handles.

use std::time::Duration;

use stockade_core::outcome::{Outcome, Usage, Verdict};
use stockade_core::request::{RunState, RunView};

use super::text::{one_line, scaled, time};

/// `exit 0 · 1.2 s · 34 MB peak`.
pub(crate) fn verdict_line(view: &RunView) -> String {
    let mut line = match &view.outcome {
        Some(outcome) => ended(outcome),
        None => going_on(view),
    };
    if view.replayed {
        line.push_str(" · this is the run of an earlier call with the same idempotency_key");
    }
    line
}

/// `sandbox calm-otter-… · run run-… · workspace analysis`.
pub(crate) fn handle_line(view: &RunView) -> String {
    let sandbox = view.sandbox.as_ref().map(|sandbox| format!("sandbox {sandbox}"));
    let workspace = view.workspace.as_ref().map(|workspace| format!("workspace {workspace}"));
    let parts = [sandbox, Some(format!("run {}", view.run)), workspace];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn going_on(view: &RunView) -> String {
    let state = match view.state {
        RunState::Queued => "queued",
        RunState::Starting => "starting",
        RunState::Running | RunState::Ended => "running",
    };
    format!("{state} · {} · {} so far", view.run, time(whole_seconds(view.usage.wall())))
}

/// A run that goes on is not measured to the tenth.
fn whole_seconds(time: Duration) -> Duration {
    if time.as_secs() == 0 { time } else { Duration::from_secs(time.as_secs()) }
}

fn ended(outcome: &Outcome) -> String {
    let wall = time(outcome.usage.wall());
    let (what, with_time) = match outcome.verdict {
        Verdict::Ok | Verdict::Nonzero => {
            (outcome.exit_code.map_or("exit".to_owned(), |code| format!("exit {code}")), true)
        }
        Verdict::Signal => (format!("ended by {}", signal(outcome.signal)), true),
        Verdict::Timeout => (format!("timeout after {wall}"), false),
        Verdict::CpuLimit => ("processor time limit".to_owned(), true),
        Verdict::MemoryLimit => ("out of memory".to_owned(), true),
        Verdict::PidsLimit => ("process limit".to_owned(), true),
        Verdict::OutputLimit => ("output limit".to_owned(), true),
        Verdict::DiskLimit => ("disk limit".to_owned(), true),
        Verdict::Cancelled => ("cancelled".to_owned(), true),
        Verdict::Lost => ("lost: its sandbox vanished".to_owned(), false),
        Verdict::Refused => ("not started".to_owned(), false),
        Verdict::Internal => ("internal failure: Stockade itself failed".to_owned(), false),
    };
    let mut parts = vec![what];
    parts.extend(with_time.then_some(wall));
    parts.extend(peak(&outcome.usage));
    // What failed inside of us is the log's business.
    if let Some(detail) = outcome.detail.as_ref().filter(|_| outcome.verdict != Verdict::Internal) {
        parts.push(one_line(detail));
    }
    parts.join(" · ")
}

fn peak(usage: &Usage) -> Option<String> {
    usage
        .peak_memory_bytes
        .filter(|bytes| *bytes > 0)
        .map(|bytes| format!("{} peak", scaled(bytes)))
}

fn signal(number: Option<u8>) -> String {
    let name = match number {
        Some(1) => "SIGHUP",
        Some(2) => "SIGINT",
        Some(3) => "SIGQUIT",
        Some(4) => "SIGILL",
        Some(6) => "SIGABRT",
        Some(7) => "SIGBUS",
        Some(8) => "SIGFPE",
        Some(9) => "SIGKILL",
        Some(11) => "SIGSEGV",
        Some(13) => "SIGPIPE",
        Some(14) => "SIGALRM",
        Some(15) => "SIGTERM",
        Some(31) => "SIGSYS",
        Some(other) => return format!("signal {other}"),
        None => return "a signal".to_owned(),
    };
    name.to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use stockade_core::isolation::Assurance;
    use stockade_core::request::OutputView;

    use super::*;

    /// A run that has just ended without a word.
    pub(crate) fn sample(verdict: Verdict) -> RunView {
        let usage =
            Usage { wall_us: 1_234_000, peak_memory_bytes: Some(34 << 20), ..Usage::default() };
        RunView {
            run: "run-1".to_owned(),
            sandbox: Some("calm-otter-1".to_owned()),
            workspace: Some("analysis".to_owned()),
            runtime: "python".to_owned(),
            state: RunState::Ended,
            outcome: Some(Outcome {
                verdict,
                exit_code: matches!(verdict, Verdict::Ok | Verdict::Nonzero)
                    .then_some(u8::from(verdict == Verdict::Nonzero)),
                signal: None,
                usage,
                detail: None,
            }),
            usage,
            stdout: OutputView::default(),
            stderr: OutputView::default(),
            files: Vec::new(),
            more_files: false,
            hints: Vec::new(),
            level: Assurance::L2,
            replayed: false,
        }
    }

    #[test]
    fn each_verdict_has_its_line() {
        for (verdict, expected) in [
            (Verdict::Ok, "exit 0 · 1.2 s · 34 MB peak"),
            (Verdict::Nonzero, "exit 1 · 1.2 s · 34 MB peak"),
            (Verdict::Signal, "ended by a signal · 1.2 s · 34 MB peak"),
            (Verdict::Timeout, "timeout after 1.2 s · 34 MB peak"),
            (Verdict::CpuLimit, "processor time limit · 1.2 s · 34 MB peak"),
            (Verdict::MemoryLimit, "out of memory · 1.2 s · 34 MB peak"),
            (Verdict::PidsLimit, "process limit · 1.2 s · 34 MB peak"),
            (Verdict::OutputLimit, "output limit · 1.2 s · 34 MB peak"),
            (Verdict::DiskLimit, "disk limit · 1.2 s · 34 MB peak"),
            (Verdict::Cancelled, "cancelled · 1.2 s · 34 MB peak"),
            (Verdict::Lost, "lost: its sandbox vanished · 34 MB peak"),
            (Verdict::Refused, "not started · 34 MB peak"),
            (Verdict::Internal, "internal failure: Stockade itself failed · 34 MB peak"),
        ] {
            assert_eq!(verdict_line(&sample(verdict)), expected);
        }
    }

    #[test]
    fn details_signals_and_replays_are_said() {
        let mut view = sample(Verdict::Signal);
        let outcome = view.outcome.as_mut().unwrap();
        outcome.signal = Some(11);
        outcome.detail = Some("at\nonce".to_owned());
        outcome.usage.peak_memory_bytes = None;
        view.replayed = true;
        assert_eq!(
            verdict_line(&view),
            "ended by SIGSEGV · 1.2 s · at\\nonce · this is the run of an earlier call with the \
             same idempotency_key"
        );
    }

    #[test]
    fn a_run_that_goes_on_says_so() {
        let mut view = sample(Verdict::Ok);
        view.outcome = None;
        view.usage.wall_us = 25_200_000;
        for (state, expected) in [
            (RunState::Queued, "queued · run-1 · 25 s so far"),
            (RunState::Starting, "starting · run-1 · 25 s so far"),
            (RunState::Running, "running · run-1 · 25 s so far"),
        ] {
            view.state = state;
            assert_eq!(verdict_line(&view), expected);
        }
    }

    #[test]
    fn handles_are_on_one_line() {
        let mut view = sample(Verdict::Ok);
        assert_eq!(handle_line(&view), "sandbox calm-otter-1 · run run-1 · workspace analysis");
        view.sandbox = None;
        view.workspace = None;
        assert_eq!(handle_line(&view), "run run-1");
    }
}
