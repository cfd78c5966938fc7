//! Removes whole trees, however deep and whatever their permissions.
//!
//! No stack and no recursion: every directory that is found is moved right
//! below the one that is emptied, so depth never matters and only two
//! descriptors are open at a time.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::list::is_ours;
use super::walk::names_in;
use super::write::random_hex;
use super::{HostDir, Step, WalkLimits, fault, open_beneath};
use crate::error::Result;
use crate::path::RelPath;

/// Names taken from a directory at once.
const BATCH: usize = 4096;

impl HostDir {
    /// Removes a directory right in this one, with everything in it. Links are
    /// removed, never followed. Succeeds when it is not there.
    pub(crate) fn delete_tree(&self, name: &str) -> Result<()> {
        let path = RelPath::parse(name)?;
        let wrong = |errno| fault("removing a tree", name, errno);
        let top = match open_writable(self.fd.as_ref(), &to_c(name.as_bytes())) {
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR | Errno::LOOP) => return self.remove(&path),
            other => other.map_err(wrong)?,
        };
        while empty_once(&top, &top).map_err(wrong)? {}
        match rustix::fs::unlinkat(self.fd(), name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(wrong(errno)),
        }
    }

    /// Removes half-written files and program files that an earlier process left.
    pub(crate) fn sweep_ours(&self, older_than: i64) -> Result<()> {
        let limits = WalkLimits { depth: u32::MAX, names: 200_000 };
        self.walk(&RelPath::root(), limits, &mut |step| {
            if is_left_over(step) && step.stat.st_mtime < older_than {
                // What cannot be removed now is tried again at the next start.
                let _ = rustix::fs::unlinkat(step.parent, step.name, AtFlags::empty());
            }
            std::ops::ControlFlow::Continue(true)
        })?;
        Ok(())
    }
}

fn is_left_over(step: &Step<'_>) -> bool {
    let rest = step.name.to_bytes().strip_prefix(super::OURS.as_bytes());
    is_ours(step.path)
        && rest.is_some_and(|rest| rest.starts_with(b"tmp-") || rest.starts_with(b"run-"))
}

/// Takes one batch of names out of `dir`: files are removed, directories emptied
/// or moved right below `top`. Gives whether there was anything.
fn empty_once(dir: &OwnedFd, top: &OwnedFd) -> rustix::io::Result<bool> {
    let names = names_in(dir, &mut BATCH.clone(), &mut false);
    for name in &names {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => remove_dir(dir, name, top)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(!names.is_empty())
}

fn remove_dir(parent: &OwnedFd, name: &CString, top: &OwnedFd) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let dir = open_writable(parent, name)?;
    for inner in names_in(&dir, &mut BATCH.clone(), &mut false) {
        match rustix::fs::unlinkat(&dir, &inner, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => lift(&dir, &inner, top)?,
            Err(errno) => return Err(errno),
        }
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        // More than one batch: the caller comes back to it.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Moves a directory right below `top`, where the next round finds it.
fn lift(dir: &OwnedFd, name: &CString, top: &OwnedFd) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    // Moving a directory needs the right to write into it.
    open_writable(dir, name)?;
    rustix::fs::renameat(dir, name, top, format!("{}lifted", random_hex()))
}

/// Opens a directory and takes the right to change it, whatever its mode was.
fn open_writable(parent: &OwnedFd, name: &CString) -> rustix::io::Result<OwnedFd> {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = match open_beneath(parent.as_fd(), path, flags) {
        Err(Errno::ACCESS) => {
            let closed = open_beneath(parent.as_fd(), path, OFlags::PATH | OFlags::DIRECTORY)?;
            chmod_closed(&closed)?;
            open_beneath(parent.as_fd(), path, flags)?
        }
        other => other?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&dir)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&dir, Mode::RWXU)?;
    }
    Ok(dir)
}

/// A directory that may not be opened for reading still has a descriptor, and
/// the descriptor's own name in /proc stands for exactly that directory.
fn chmod_closed(dir: &OwnedFd) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    rustix::fs::chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU)
}

fn to_c(name: &[u8]) -> CString {
    CString::new(name).unwrap_or_default()
}
