//! Which file a URL means.
//!
//! The router's own parameters are not used: they would refuse names that are
//! not UTF-8. Each part is decoded exactly once. What comes out is not safe; the
//! engine parses it into a path that cannot leave its workspace.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use axum::http::Uri;
use percent_encoding::percent_decode_str;
use stockade_core::path::RelPath;
use stockade_core::{Error, Result};

/// The workspace and the path (as text) of `/api/workspaces/{workspace}/files/{*path}`.
pub(super) fn file(uri: &Uri) -> Result<(String, String)> {
    let rest = uri.path().strip_prefix("/api/workspaces/");
    let (workspace, path) =
        rest.and_then(|rest| rest.split_once("/files/")).ok_or_else(|| no_file(uri))?;
    Ok((decoded(workspace)?, decoded(path)?))
}

/// The token and the path (as text) of `/files/{token}/{*path}`.
pub(super) fn link(uri: &Uri) -> Result<(String, String)> {
    let rest = uri.path().strip_prefix("/files/");
    let (token, path) = rest.and_then(|rest| rest.split_once('/')).ok_or_else(|| no_file(uri))?;
    Ok((decoded(token)?, decoded(path)?))
}

/// The part of a path that follows `prefix`, for routes that end with one name.
pub(super) fn last(uri: &Uri, prefix: &str) -> Result<String> {
    let rest = uri.path().strip_prefix(prefix).ok_or_else(|| no_file(uri))?;
    decoded(rest.split('/').next().unwrap_or_default())
}

/// Bytes that are text are the text form of a path; others are its bytes themselves.
fn decoded(raw: &str) -> Result<String> {
    let bytes: Vec<u8> = percent_decode_str(raw).collect();
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(raw) => Ok(RelPath::parse(OsStr::from_bytes(raw.as_bytes()))?.to_text()),
    }
}

fn no_file(uri: &Uri) -> Error {
    Error::not_found("file", uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expected: Option<(&str, &str)>) {
        let found = file(&uri.parse().unwrap()).ok();
        let found = found.as_ref().map(|(workspace, path)| (workspace.as_str(), path.as_str()));
        assert_eq!(found, expected, "{uri}");
    }

    #[test]
    fn parts_are_decoded_once() {
        check("/api/workspaces/w/files/a/b.txt", Some(("w", "a/b.txt")));
        check("/api/workspaces/w/files/a%20b", Some(("w", "a b")));
        check("/api/workspaces/w/files/%2e%2e/x", Some(("w", "../x")));
        check("/api/workspaces/w/files/%252e%252e", Some(("w", "%2e%2e")));
        check("/api/workspaces/w/files/a/files/b", Some(("w", "a/files/b")));
        check("/api/workspaces/w%2Ffiles/files/b", Some(("w/files", "b")));
        check("/api/workspaces/w/files/caf%E9", Some(("w", "caf%E9")));
        check("/api/workspaces/w/files/caf%25E9", Some(("w", "caf%E9")));
        check("/api/workspaces/w/files/../%E9", None);
        check("/api/workspaces/w", None);
    }
}
