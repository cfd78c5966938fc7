//! Walks a tree that may be hostile: bounded, by descriptors, past no link.

use std::ffi::{CString, OsStr};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};

use super::{HostDir, open_beneath};
use crate::error::Result;
use crate::path::RelPath;

/// Deeper directories are not walked: each level costs a descriptor.
const DEEPEST: u32 = 64;

/// How far a walk goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkLimits {
    /// Levels of directories; 1 is the start alone.
    pub(crate) depth: u32,
    /// Names looked at.
    pub(crate) names: usize,
}

/// One name that a walk came to.
#[derive(Debug)]
pub(crate) struct Step<'walk> {
    /// Path from the root of the `HostDir`.
    pub(crate) path: &'walk [u8],
    /// The directory it is in.
    pub(super) parent: &'walk OwnedFd,
    /// Its last name.
    pub(super) name: &'walk CString,
    /// What it is; links are themselves.
    pub(crate) stat: Stat,
}

struct Waiting {
    parent: Rc<OwnedFd>,
    name: CString,
    path: Vec<u8>,
    level: u32,
}

impl HostDir {
    /// Shows every name below `start` to `visit`, parents before what is in them.
    /// A directory is entered when `visit` continues with `true`. Gives whether
    /// something was left out.
    pub(crate) fn walk(
        &self,
        start: &RelPath,
        limits: WalkLimits,
        visit: &mut dyn FnMut(&Step<'_>) -> ControlFlow<(), bool>,
    ) -> Result<bool> {
        let first = Rc::new(self.open_dir(start)?);
        let path = start.as_path().as_os_str().as_bytes().to_vec();
        let mut left_out = false;
        let mut names_left = limits.names;
        let mut waiting = Vec::new();
        let mut here = Some((first, path, 1));
        while let Some((dir, path, level)) = here {
            for name in names_in(&dir, &mut names_left, &mut left_out) {
                let Ok(stat) = rustix::fs::statat(&*dir, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                let full = join(&path, name.to_bytes());
                let step = Step { path: &full, parent: &dir, name: &name, stat };
                let ControlFlow::Continue(enter) = visit(&step) else { return Ok(true) };
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || !enter {
                    continue;
                }
                if level >= limits.depth.min(DEEPEST) {
                    left_out |= level >= DEEPEST;
                    continue;
                }
                waiting.push(Waiting { parent: dir.clone(), name, path: full, level: level + 1 });
            }
            here = next_dir(&mut waiting);
        }
        Ok(left_out)
    }
}

fn next_dir(waiting: &mut Vec<Waiting>) -> Option<(Rc<OwnedFd>, Vec<u8>, u32)> {
    while let Some(next) = waiting.pop() {
        let name = Path::new(OsStr::from_bytes(next.name.to_bytes()));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        // Gone, swapped for a link, or closed to us: nothing to see there.
        if let Ok(dir) = open_beneath(next.parent.as_fd(), name, flags) {
            return Some((Rc::new(dir), next.path, next.level));
        }
    }
    None
}

/// The names in a directory, without `.` and `..`.
pub(super) fn names_in(dir: &OwnedFd, left: &mut usize, left_out: &mut bool) -> Vec<CString> {
    let mut names = Vec::new();
    let Ok(entries) = Dir::read_from(dir) else { return names };
    for entry in entries.map_while(std::result::Result::ok) {
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if *left == 0 {
            *left_out = true;
            break;
        }
        *left -= 1;
        names.push(entry.file_name().to_owned());
    }
    names
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}
