//! One error type, grouped by who has to act.
//!
//! A program that fails is an `Outcome`, never an `Error`: `Err` means that we
//! failed or refused. Every refusal has a stable code, a cause and the next
//! step to take. Status codes are chosen at the edges only.

use crate::isolation::Layer;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The source of a failure that is ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request itself is wrong: the caller can mend it.
    #[error("{field}: {reason}")]
    Invalid {
        /// The argument at fault, as the caller spelled it.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Nothing of that name exists for this caller.
    #[error("no {what} `{id}`")]
    NotFound {
        /// The kind of thing: "sandbox", "run", "workspace", "file".
        what: &'static str,
        /// The name as the caller gave it.
        id: String,
    },
    /// It exists, but its state forbids the call.
    #[error("{what} is {state}")]
    Conflict {
        /// The kind of thing.
        what: &'static str,
        /// The state it is in, as a phrase.
        state: String,
    },
    /// The caller may not do this.
    #[error("not allowed: {action}")]
    Denied {
        /// What was refused and who could allow it.
        action: String,
    },
    /// A bounded resource is used up for now.
    #[error("{what} exhausted; retry after {retry_after_s} s")]
    Exhausted {
        /// The resource: "run slots", "queue", "workspace quota".
        what: &'static str,
        /// When a retry is worth it, in seconds.
        retry_after_s: u64,
    },
    /// A required layer of the wall cannot be had on this host.
    #[error("this host cannot enforce {layer:?}: {reason}")]
    Unenforceable {
        /// The missing layer.
        layer: Layer,
        /// Why, and what would mend it.
        reason: String,
    },
    /// This backend, or this version, has no such feature.
    #[error("{feature} is not supported: {hint}")]
    Unsupported {
        /// The feature that was asked for.
        feature: &'static str,
        /// What to do instead.
        hint: String,
    },
    /// The machinery failed. The text is safe to show; the source is for the log.
    #[error("{backend} failed while {doing}")]
    Backend {
        /// Which part of the machinery.
        backend: &'static str,
        /// What it was doing, as a phrase: "moving the process into its cgroup".
        doing: &'static str,
        /// The underlying failure.
        #[source]
        source: BoxError,
    },
}

impl Error {
    /// A request that the caller can mend.
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }

    /// Something that does not exist for this caller.
    pub fn not_found(what: &'static str, id: impl Into<String>) -> Self {
        Self::NotFound { what, id: id.into() }
    }

    /// A call that the present state forbids.
    pub fn conflict(what: &'static str, state: impl Into<String>) -> Self {
        Self::Conflict { what, state: state.into() }
    }

    /// A call that policy forbids.
    pub fn denied(action: impl Into<String>) -> Self {
        Self::Denied { action: action.into() }
    }

    /// A failure of ours, with what we were doing.
    pub fn backend(
        backend: &'static str,
        doing: &'static str,
        source: impl Into<BoxError>,
    ) -> Self {
        Self::Backend { backend, doing, source: source.into() }
    }

    /// The same error for a second one who waits for the same thing. The source
    /// of a failure is kept as text.
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Invalid { field, reason } => Self::invalid(field, reason.clone()),
            Self::NotFound { what, id } => Self::not_found(what, id.clone()),
            Self::Conflict { what, state } => Self::conflict(what, state.clone()),
            Self::Denied { action } => Self::denied(action.clone()),
            Self::Exhausted { what, retry_after_s } => {
                Self::Exhausted { what, retry_after_s: *retry_after_s }
            }
            Self::Unenforceable { layer, reason } => {
                Self::Unenforceable { layer: *layer, reason: reason.clone() }
            }
            Self::Unsupported { feature, hint } => {
                Self::Unsupported { feature, hint: hint.clone() }
            }
            Self::Backend { backend, doing, source } => {
                let mut text = source.to_string();
                let mut cause = source.source();
                while let Some(error) = cause {
                    text = format!("{text}: {error}");
                    cause = error.source();
                }
                Self::backend(backend, doing, text)
            }
        }
    }

    /// The stable machine-readable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::NotFound { .. } => "not_found",
            Self::Conflict { .. } => "conflict",
            Self::Denied { .. } => "denied",
            Self::Exhausted { .. } => "exhausted",
            Self::Unenforceable { .. } => "unenforceable",
            Self::Unsupported { .. } => "unsupported",
            Self::Backend { .. } => "internal",
        }
    }
}
