//! Bytes from messages as the types that system calls want.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::failure::refuse;
use super::protocol::Failure;

/// An absolute path without NUL.
pub(crate) fn path(bytes: &[u8]) -> Result<PathBuf, Failure> {
    let path = Path::new(OsStr::from_bytes(bytes));
    if !path.is_absolute() || bytes.contains(&0) {
        return refuse(format!("{} is not an absolute path", path.display()));
    }
    Ok(path.to_path_buf())
}

/// A string for the kernel.
pub(crate) fn c(text: &str) -> Result<CString, Failure> {
    CString::new(text).or_else(|_| refuse("a NUL byte in a text for the kernel"))
}
