//! Failures with the step that failed, from whichever error type says it.

use std::io;

use super::protocol::Failure;

/// Names what was being done when something failed.
pub(crate) trait Doing<T> {
    /// `step` is a phrase: "mounting /proc".
    fn doing(self, step: &str) -> Result<T, Failure>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, step: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            step: step.to_owned(),
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

impl<T> Doing<T> for rustix::io::Result<T> {
    fn doing(self, step: &str) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step: step.to_owned(), errno: errno.raw_os_error() })
    }
}

/// A failure that is not the kernel's: what is wrong, as a phrase.
pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { step: why.into(), errno: 0 })
}
