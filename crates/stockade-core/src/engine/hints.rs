//! The usual failures, each with its next step, in one line.

use crate::outcome::{Outcome, Verdict};
use crate::request::NetworkRequest;

/// What is known about a run when it has ended.
#[derive(Debug)]
pub(crate) struct Ending<'run> {
    pub(crate) outcome: &'run Outcome,
    pub(crate) stderr: &'run str,
    pub(crate) network: NetworkRequest,
    pub(crate) memory_mb: u64,
    pub(crate) wall_s: f64,
}

/// At most this much of the end of standard error is looked at.
const LOOKED_AT: usize = 64 << 10;

const NO_NETWORK: [&str; 8] = [
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "getaddrinfo",
    "EAI_AGAIN",
    "ENETUNREACH",
    "Could not resolve host",
    "dial tcp",
];

/// What to do next, for failures that happen often.
pub(crate) fn hints(ending: &Ending<'_>) -> Vec<String> {
    let mut hints: Vec<String> = of_verdict(ending).into_iter().collect();
    if ending.outcome.verdict == Verdict::Nonzero {
        hints.extend(of_stderr(last_part(ending.stderr), ending.network));
    }
    hints
}

fn of_verdict(ending: &Ending<'_>) -> Option<String> {
    let hint = match ending.outcome.verdict {
        Verdict::Timeout => format!(
            "ended after {} s: ask for a larger `timeout_s`, do less at once, or start it with `background`",
            ending.wall_s
        ),
        Verdict::CpuLimit => {
            "used up its processor time: ask for a larger `timeout_s` or do less at once".to_owned()
        }
        Verdict::MemoryLimit => format!(
            "needed more than {} MiB: work in smaller parts, or create a sandbox with a larger `memory_mb`",
            ending.memory_mb
        ),
        Verdict::PidsLimit => {
            "started too many processes or threads: use fewer workers, or a sandbox with a larger `pids`"
                .to_owned()
        }
        Verdict::OutputLimit => {
            "wrote too much output: write it to a file in the workspace instead of printing it".to_owned()
        }
        Verdict::DiskLimit => {
            "wrote a file larger than allowed: write less, or split it into several files".to_owned()
        }
        Verdict::Lost => "its sandbox vanished: run it again; without `sandbox`, a new one is made".to_owned(),
        Verdict::Refused => {
            "the program could not be started: check its name; `list_runtimes` shows what is here".to_owned()
        }
        Verdict::Internal => "the server failed, not the program: try again, then tell the operator".to_owned(),
        Verdict::Ok | Verdict::Nonzero | Verdict::Signal | Verdict::Cancelled => return None,
    };
    Some(hint)
}

fn of_stderr(stderr: &str, network: NetworkRequest) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(module) = missing_module(stderr) {
        hints.push(format!(
            "`{module}` is not installed: `list_runtimes` shows the packages that are ready; a file of your own must be in the working directory"
        ));
    }
    if network == NetworkRequest::None && NO_NETWORK.iter().any(|sign| stderr.contains(sign)) {
        hints.push(
            "there is no network here: ask for one with `network`, if the operator allows it; files can be uploaded to the workspace"
                .to_owned(),
        );
    }
    if ["Read-only file system", "EROFS"].iter().any(|sign| stderr.contains(sign)) {
        hints.push("only /workspace and /tmp can be written: write there".to_owned());
    }
    if ["No space left on device", "ENOSPC", "Disk quota exceeded"]
        .iter()
        .any(|s| stderr.contains(s))
    {
        hints.push(
            "the disk is full: remove files, or write large ones to /workspace, not /tmp"
                .to_owned(),
        );
    }
    if ["MemoryError", "heap out of memory", "Cannot allocate memory", "OutOfMemoryError"]
        .iter()
        .any(|sign| stderr.contains(sign))
    {
        hints.push(
            "memory ran out: work in smaller parts, or create a sandbox with a larger `memory_mb`"
                .to_owned(),
        );
    }
    if stderr.contains("command not found") || stderr.contains(": not found") {
        hints.push(
            "that command is not in the image: `list_runtimes` shows what there is".to_owned(),
        );
    }
    hints
}

/// The name of a module that an interpreter did not find.
fn missing_module(stderr: &str) -> Option<&str> {
    let marks = [
        "ModuleNotFoundError: No module named ",
        "Cannot find package ",
        "Cannot find module ",
        "error: Cannot find module ",
    ];
    marks.iter().find_map(|mark| {
        let rest = stderr.split(mark).nth(1)?.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
        rest[1..].split(quote).next().filter(|name| !name.is_empty() && name.len() <= 200)
    })
}

fn last_part(text: &str) -> &str {
    let mut start = text.len().saturating_sub(LOOKED_AT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::verdict::without_exit;

    #[track_caller]
    fn check(verdict: Verdict, stderr: &str, expected: &str) {
        let outcome = without_exit(verdict, "");
        let network = NetworkRequest::None;
        let ending = Ending { outcome: &outcome, stderr, network, memory_mb: 512, wall_s: 30.0 };
        let hints = hints(&ending);
        assert!(hints.iter().any(|hint| hint.contains(expected)), "{expected:?} not in {hints:?}");
    }

    #[test]
    fn usual_failures_name_the_next_step() {
        let nonzero = Verdict::Nonzero;
        check(nonzero, "ModuleNotFoundError: No module named 'polars'\n", "`polars`");
        check(nonzero, "Error: Cannot find package 'left-pad' imported from /x", "`left-pad`");
        check(nonzero, "Error: Cannot find module \"x\"", "`x`");
        check(nonzero, "curl: (6) Could not resolve host: example.org", "`network`");
        check(nonzero, "touch: /etc/x: Read-only file system", "/workspace");
        check(nonzero, "OSError: [Errno 28] No space left on device", "disk is full");
        check(nonzero, "bash: line 1: foo: command not found", "list_runtimes");
        check(nonzero, "MemoryError", "memory_mb");
        check(Verdict::MemoryLimit, "", "512 MiB");
        check(Verdict::Timeout, "", "timeout_s");
    }

    #[test]
    fn success_needs_no_hint() {
        let outcome = without_exit(Verdict::Ok, "");
        let stderr = "ModuleNotFoundError: No module named 'x'";
        let network = NetworkRequest::None;
        let ending = Ending { outcome: &outcome, stderr, network, memory_mb: 1, wall_s: 1.0 };
        assert!(hints(&ending).is_empty());
    }
}
