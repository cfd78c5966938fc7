//! Lists a directory, or what a glob matches in a tree.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::FileType;

use super::{HostDir, OURS, Step, WalkLimits, size_of};
use crate::error::{Error, Result};
use crate::path::RelPath;
use crate::request::{Entry, EntryKind, Listing};

/// Entries in one listing.
const LISTED: usize = 1000;
/// Names looked at for one listing.
const LOOKED_AT: usize = 100_000;

impl HostDir {
    /// Lists a directory `depth` levels deep, or everything below it that the
    /// glob matches. Our own hidden files are not shown.
    pub(crate) fn list(&self, dir: &RelPath, glob: Option<&str>, depth: u32) -> Result<Listing> {
        let glob = glob.map(compile).transpose()?;
        let limits = WalkLimits { depth, names: LOOKED_AT };
        let mut found = Vec::new();
        let left_out = self.walk(dir, limits, &mut |step| {
            if is_ours(step.path) {
                return ControlFlow::Continue(false);
            }
            if matches(glob.as_ref(), step.path) {
                found.push((step.path.to_vec(), entry(step)));
            }
            ControlFlow::Continue(true)
        })?;
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        let more = left_out || found.len() > LISTED;
        found.truncate(LISTED);
        Ok(Listing { entries: found.into_iter().map(|(_, entry)| entry).collect(), more })
    }
}

fn compile(glob: &str) -> Result<GlobMatcher> {
    let built = GlobBuilder::new(glob).literal_separator(true).build();
    built
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Error::invalid("glob", format!("{error}; for example `**/*.csv`")))
}

fn matches(glob: Option<&GlobMatcher>, path: &[u8]) -> bool {
    glob.is_none_or(|glob| glob.is_match(OsStr::from_bytes(path)))
}

/// Whether the last name is one of ours.
pub(super) fn is_ours(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(OURS.as_bytes())
}

/// The text form of bytes that came from the file system.
pub(super) fn text_of(path: &[u8]) -> String {
    let path = RelPath::parse_dir(OsStr::from_bytes(path));
    path.map_or_else(|_| String::from("(a path that is too long)"), |path| path.to_text())
}

fn entry(step: &Step<'_>) -> Entry {
    let kind = match FileType::from_raw_mode(step.stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    Entry {
        path: text_of(step.path),
        kind,
        size: size_of(&step.stat),
        modified: step.stat.st_mtime,
    }
}
