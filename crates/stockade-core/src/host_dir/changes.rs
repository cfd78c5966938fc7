//! Which files a run made, changed and removed: two looks at the tree, compared.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rustix::fs::FileType;

use super::list::{is_ours, text_of};
use super::{HostDir, WalkLimits, size_of};
use crate::path::RelPath;
use crate::request::{Change, ChangedFile};

/// Names looked at for one snapshot.
const LOOKED_AT: usize = 20_000;
/// Directories that tools fill with thousands of files nobody wants listed.
const SKIPPED: [&[u8]; 3] = [b"node_modules", b".git", b"__pycache__"];

/// The regular files of a tree at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    files: BTreeMap<Vec<u8>, Mark>,
    /// Whether the tree has more than was looked at.
    partial: bool,
}

/// What tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    size: u64,
    modified: (i64, i64),
    inode: u64,
}

impl HostDir {
    /// Looks at the whole tree. What cannot be read counts as not there.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut files = BTreeMap::new();
        let limits = WalkLimits { depth: u32::MAX, names: LOOKED_AT };
        let partial = self.walk(&RelPath::root(), limits, &mut |step| {
            if is_ours(step.path) || SKIPPED.contains(&step.name.to_bytes()) {
                return ControlFlow::Continue(false);
            }
            if FileType::from_raw_mode(step.stat.st_mode) == FileType::RegularFile {
                let stat = &step.stat;
                let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
                let modified = (stat.st_mtime, nanoseconds);
                let mark = Mark { size: size_of(stat), modified, inode: stat.st_ino };
                files.insert(step.path.to_vec(), mark);
            }
            ControlFlow::Continue(true)
        });
        Snapshot { files, partial: partial.unwrap_or(true) }
    }
}

impl Snapshot {
    /// At most `most` files that differ from `before`, and whether there are more.
    pub(crate) fn changes_since(&self, before: &Self, most: usize) -> (Vec<ChangedFile>, bool) {
        let mut changed = Vec::new();
        for (path, mark) in &self.files {
            match before.files.get(path) {
                None => changed.push(change(path, Change::Created, mark.size)),
                Some(old) if old != mark => changed.push(change(path, Change::Modified, mark.size)),
                Some(_) => {}
            }
        }
        // A file that this look did not reach is not known to be gone.
        if !self.partial {
            let gone = before.files.keys().filter(|path| !self.files.contains_key(*path));
            changed.extend(gone.map(|path| change(path, Change::Deleted, 0)));
        }
        changed.sort_by(|left, right| left.path.cmp(&right.path));
        let more = self.partial || changed.len() > most;
        changed.truncate(most);
        (changed, more)
    }
}

fn change(path: &[u8], change: Change, size: u64) -> ChangedFile {
    let path = text_of(path);
    let media_type = media_type(&path);
    ChangedFile { path, change, size, media_type }
}

/// The media type that a name promises.
pub(crate) fn media_type(name: &str) -> String {
    mime_guess::from_path(name).first_or_octet_stream().essence_str().to_owned()
}
