//! What a model reads when a call was refused: code, cause, next step.
//!
//! Bad arguments and refusals are results with `isError`, so that the model can
//! mend them; only an unknown tool is a protocol error. The inside of our own
//! failures goes to the log under a request id and to nobody else.

use rmcp::model::{CallToolResult, ContentBlock};
use stockade_core::Error;

use crate::render::text::one_line;

/// Why a tool call has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument cannot be read.
    Argument {
        /// Its name.
        field: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// The engine refused or failed.
    Engine(Error),
}

/// What fallible steps of a tool call return.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn argument(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Argument { field: field.into(), reason: reason.into() }
    }

    /// The result that tells the model.
    pub(crate) fn into_result(self, request_id: &str) -> CallToolResult {
        let text = match self {
            Self::Argument { field, reason } => {
                format!("error invalid: {}: {reason}", one_line(&field))
            }
            Self::Engine(error) => engine_text(&error, request_id),
        };
        CallToolResult::error(vec![ContentBlock::text(text)])
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

fn engine_text(error: &Error, request_id: &str) -> String {
    if matches!(error, Error::Backend { .. }) {
        tracing::error!(request_id, error = %chain(error), "a tool call failed");
        return format!(
            "error internal: Stockade itself failed, not your program (request {request_id}). \
             Next: try again; if it stays, give the operator this request id"
        );
    }
    tracing::debug!(request_id, code = error.code(), %error, "a tool call was refused");
    let cause = one_line(&error.to_string());
    let code = error.code();
    match next_step(error) {
        Some(next) => format!("error {code}: {cause}. Next: {next}"),
        None => format!("error {code}: {cause}"),
    }
}

/// The step that helps, for errors whose own text does not name it.
fn next_step(error: &Error) -> Option<String> {
    let next = match error {
        Error::NotFound { what: "sandbox", .. } => {
            "leave `sandbox` out to get a new one, or see yours with sandbox action=list"
        }
        Error::NotFound { what: "run", .. } => {
            "take the handle from the answer of run_code or run_command; ended runs are kept for a \
             while only, so start it again"
        }
        Error::NotFound { what: "workspace", .. } => {
            "write_file, run_code, run_command and sandbox action=create make one that is not there"
        }
        Error::NotFound { what: "file" | "directory", .. } => {
            "see what is there with list_files; paths are relative to /workspace"
        }
        Error::NotFound { .. } => "check the name",
        Error::Conflict { what: "file", .. } => {
            "write_file mode=overwrite replaces it, mode=append adds to it"
        }
        Error::Conflict { what: "run", .. } => "see how it stands with continue_run",
        Error::Exhausted { .. } => {
            "wait that long and call again, or stop what you no longer need with sandbox action=stop"
        }
        Error::Unenforceable { .. } => {
            "nothing was run; the operator sees the remedy with `stockade doctor`"
        }
        _ => return None,
    };
    Some(next.to_owned())
}

/// An error with all its sources, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: Error, expected: &[&str]) {
        let result = Failure::from(error).into_result("r-1");
        assert_eq!(result.is_error, Some(true));
        let text = &result.content[0].as_text().unwrap().text;
        for part in expected {
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
        assert!(!text.contains('\n'), "{text:?}");
    }

    #[test]
    fn errors_name_code_cause_and_next_step() {
        check(Error::invalid("language", "no runtime `cobol`"), &["error invalid: language: no"]);
        check(
            Error::not_found("sandbox", "x"),
            &["error not_found: no sandbox `x`", "Next: ", "action=list"],
        );
        check(Error::not_found("run", "a\nb\u{1b}[0m"), &["no run `a\\nb"]);
        check(Error::conflict("file", "there already"), &["error conflict: ", "mode=overwrite"]);
        let used = Error::conflict("idempotency_key", "used already; choose a new key");
        let result = Failure::from(used).into_result("r-1");
        let text = &result.content[0].as_text().unwrap().text;
        assert!(text.ends_with("choose a new key"), "no second, unfit step: {text}");
        check(Error::denied("this needs a key"), &["error denied: not allowed: this needs a key"]);
        check(
            Error::Exhausted { what: "run slots", retry_after_s: 3 },
            &["error exhausted: ", "retry after 3 s"],
        );
        check(
            Error::Unsupported { feature: "fork", hint: "make a new one".to_owned() },
            &["error unsupported: fork is not supported: make a new one"],
        );
    }

    #[test]
    fn failures_of_ours_show_no_insides() {
        let error = Error::backend("native", "reading /var/lib/secret", "open /etc/shadow: EACCES");
        let result = Failure::from(error).into_result("r-77");
        let text = &result.content[0].as_text().unwrap().text;
        assert!(text.contains("r-77"), "{text}");
        for inside in ["native", "/var", "/etc", "EACCES"] {
            assert!(!text.contains(inside), "{text}");
        }
    }
}
