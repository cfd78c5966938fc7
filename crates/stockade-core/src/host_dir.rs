//! The one way to files that programs could have touched: everything is opened
//! beneath a directory descriptor, and no link is ever followed.
//!
//! The kernel resolves each path (`openat2`) under the promise not to leave the
//! directory, so a tree that changes under our hands cannot lead us out of it.
//! Only regular files and directories are opened; what a name really is, is
//! asked of the open descriptor, not of the name. Calls block: async code
//! makes them on threads for blocking work.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::path::RelPath;

mod changes;
mod delete;
mod fault;
mod list;
mod read;
#[cfg(test)]
mod tests;
mod upload;
mod walk;
mod write;

pub(crate) use changes::Snapshot;
pub(crate) use changes::media_type;
pub(crate) use fault::fault;
pub(crate) use upload::quota;
pub(crate) use walk::{Step, WalkLimits};
pub(crate) use write::{Replacing, random_hex};

/// Names that begin so are ours: half-written files and program files.
pub(crate) const OURS: &str = ".stockade-";

/// How often an open is tried again when the kernel saw a rename in its way.
const RACE_RETRIES: u32 = 64;

/// Who else may have the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Others that share it.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A directory that is ours alone to resolve paths in.
#[derive(Debug, Clone)]
pub(crate) struct HostDir {
    fd: Arc<OwnedFd>,
}

impl HostDir {
    /// Opens a directory of the server itself, for example the data directory.
    pub(crate) fn open_trusted(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| fault("opening a data directory", path, errno))?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// A directory beneath this one, as a root of its own.
    pub(crate) fn sub(&self, path: &RelPath) -> Result<Self> {
        Ok(Self { fd: Arc::new(self.open_dir(path)?) })
    }

    /// Makes one private directory (mode 0700) right in this one.
    pub(crate) fn make_private(&self, name: &str) -> Result<()> {
        rustix::fs::mkdirat(&self.fd, name, Mode::RWXU)
            .map_err(|errno| fault("making a directory", name, errno))
    }

    /// Makes the names right in this directory durable.
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|errno| fault("syncing a directory", ".", errno))
    }

    /// Gives a name right in this directory another name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to)
            .map_err(|errno| fault("renaming a directory", from, errno))
    }

    /// The names right in this directory that are text.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let dir = self.open_dir(&RelPath::root())?;
        let names = walk::names_in(&dir, &mut usize::MAX.clone(), &mut false);
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Takes an advisory lock on this directory, or gives `false` when another
    /// process has one that stands against it. It lasts as long as this value.
    pub(crate) fn lock(&self, lock: Lock) -> Result<bool> {
        let operation = match lock {
            // Whoever has it alone is sweeping, which is short.
            Lock::Shared => FlockOperation::LockShared,
            Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        match rustix::fs::flock(&self.fd, operation) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(fault("locking a directory", ".", errno)),
        }
    }

    /// The descriptor.
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn open_dir(&self, path: &RelPath) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        open_beneath(self.fd(), below(path), flags)
            .map_err(|errno| fault("opening a directory", path.as_path(), errno))
    }

    /// Opens the directory that holds `path`, made with its parents when `path` has none.
    fn open_parent(&self, path: &RelPath) -> Result<OwnedFd> {
        let parent = path.parent();
        match self.open_dir(&parent) {
            Err(Error::NotFound { .. }) => self.make_dirs(&parent),
            other => other,
        }
    }

    /// Makes a directory with its parents, one name at a time.
    pub(crate) fn make_dirs(&self, path: &RelPath) -> Result<OwnedFd> {
        let wrong = |errno| fault("making a directory", path.as_path(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut here = open_beneath(self.fd(), Path::new("."), flags).map_err(wrong)?;
        for name in path.as_path() {
            let name = Path::new(name);
            let next = match open_beneath(here.as_fd(), name, flags) {
                Err(Errno::NOENT) => {
                    make_dir(here.as_fd(), name).map_err(wrong)?;
                    open_beneath(here.as_fd(), name, flags)
                }
                other => other,
            };
            here = next.map_err(wrong)?;
        }
        Ok(here)
    }
}

fn make_dir(parent: BorrowedFd<'_>, name: &Path) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => {}
        // Someone inside was faster; what it is shows when it is opened.
        Err(Errno::EXIST) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    let made = open_beneath(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    give_to_owner_of(parent, made.as_fd())?;
    rustix::fs::fsync(parent)
}

/// The path to hand to the kernel: an empty one is the directory itself.
fn below(path: &RelPath) -> &Path {
    if path.as_path().as_os_str().is_empty() { Path::new(".") } else { path.as_path() }
}

/// Opens beneath `dir`, never through a link.
fn open_beneath(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    // The kernel takes no other flags beside O_PATH.
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NOCTTY | OFlags::NONBLOCK;
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < RACE_RETRIES => tries += 1,
            other => return other,
        }
    }
}

/// Opens a regular file beneath `dir`. Anything else is refused.
fn open_regular(dir: BorrowedFd<'_>, path: &RelPath, flags: OFlags) -> Result<(File, Stat)> {
    let wrong = |errno| fault("opening a file", path.as_path(), errno);
    let fd = open_beneath(dir, below(path), flags).map_err(wrong)?;
    let stat = rustix::fs::fstat(&fd).map_err(wrong)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(fd), stat)),
        FileType::Directory => Err(Error::invalid("path", "is a directory; name a file in it")),
        _ => Err(Error::invalid("path", "is not a regular file; pipes and devices are not read")),
    }
}

/// What is new belongs to whoever owns the directory around it, so that
/// programs inside can change it.
fn give_to_owner_of(parent: BorrowedFd<'_>, new: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let (parent, now) = (rustix::fs::fstat(parent)?, rustix::fs::fstat(new)?);
    if (parent.st_uid, parent.st_gid) == (now.st_uid, now.st_gid) {
        return Ok(());
    }
    let (uid, gid) =
        (rustix::fs::Uid::from_raw(parent.st_uid), rustix::fs::Gid::from_raw(parent.st_gid));
    match rustix::fs::fchown(new, Some(uid), Some(gid)) {
        // Without the right to give files away we are the owner of everything.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// The size of something, never negative.
fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
