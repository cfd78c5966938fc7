//! Writing files so that a reader sees the old content or the new, never a half.
//!
//! New content goes into a hidden file beside the target, is synced, and takes
//! the target's name in one step.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::fault::{io_fault, not_ours};
use super::{HostDir, OURS, fault, give_to_owner_of, open_regular, size_of};
use crate::error::{Error, Result};
use crate::path::RelPath;

/// Largest file in which a text is swapped.
const REPLACE_LIMIT: u64 = 64 << 20;

/// How a file is made that must not be there yet.
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What happens when the target is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replacing {
    /// It is replaced.
    Allowed,
    /// The write fails.
    Forbidden,
}

/// New content on its way: a hidden file that goes away unless it is committed.
#[derive(Debug)]
pub(super) struct Draft {
    parent: OwnedFd,
    hidden: String,
    path: RelPath,
    pub(super) file: File,
    committed: bool,
}

impl HostDir {
    /// Writes a file of the server's own, whose hidden name callers cannot use.
    /// It lives as long as a run, so nothing is synced.
    pub(crate) fn write_ours(&self, path: &RelPath, content: &[u8]) -> Result<()> {
        let wrong = |errno| fault("writing a program file", path.as_path(), errno);
        let parent = self.open_dir(&path.parent())?;
        let name = Path::new(path.name().unwrap_or_default());
        let mode = Mode::from_raw_mode(0o644);
        let fd = rustix::fs::openat(&parent, name, NEW_FILE, mode).map_err(wrong)?;
        give_to_owner_of(parent.as_fd(), fd.as_fd()).map_err(wrong)?;
        let written = File::from(fd).write_all(content);
        written.map_err(|e| io_fault("writing a program file", path, e))
    }

    /// Writes a whole file. Parents are made.
    pub(crate) fn write(&self, path: &RelPath, content: &[u8], replacing: Replacing) -> Result<()> {
        not_ours(path)?;
        let mut draft = self.draft(path)?;
        draft.file.write_all(content).map_err(|e| io_fault("writing a file", path, e))?;
        draft.commit(replacing)
    }

    /// Adds to the end of a file, which is made when it is not there. Gives the new size.
    pub(crate) fn append(&self, path: &RelPath, content: &[u8]) -> Result<u64> {
        not_ours(path)?;
        let opened = open_regular(self.fd(), path, OFlags::WRONLY | OFlags::APPEND);
        let (mut file, stat) = match opened {
            Err(Error::NotFound { .. }) => {
                self.write(path, content, Replacing::Forbidden)?;
                return Ok(u64::try_from(content.len()).unwrap_or(u64::MAX));
            }
            other => other?,
        };
        let before = size_of(&stat);
        if let Err(error) = file.write_all(content).and_then(|()| file.sync_all()) {
            // A half would look like the whole; its failure changes nothing about ours.
            let _ = file.set_len(before);
            return Err(io_fault("adding to a file", path, error));
        }
        Ok(before + u64::try_from(content.len()).unwrap_or(u64::MAX))
    }

    /// Swaps the one occurrence of `old` for `new`. Gives the new size.
    pub(crate) fn replace(&self, path: &RelPath, old: &[u8], new: &[u8]) -> Result<u64> {
        if old.is_empty() {
            return Err(Error::invalid("old", "must not be empty; give the exact text to swap"));
        }
        let (content, size) = self.read(path, 0, REPLACE_LIMIT)?;
        if size > REPLACE_LIMIT {
            return Err(Error::invalid("path", "is larger than 64 MiB; change it with a program"));
        }
        let at = only_occurrence(&content, old)?;
        let changed = [&content[..at], new, &content[at + old.len()..]].concat();
        self.write(path, &changed, Replacing::Allowed)?;
        Ok(u64::try_from(changed.len()).unwrap_or(u64::MAX))
    }

    /// Removes a file, a link or an empty directory.
    pub(crate) fn remove(&self, path: &RelPath) -> Result<()> {
        let wrong = |errno| fault("removing a file", path.as_path(), errno);
        let name = Path::new(path.name().unwrap_or_default());
        let parent = self.open_dir(&path.parent())?;
        let removed = match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)
            }
            other => other,
        };
        removed.map_err(wrong)?;
        rustix::fs::fsync(&parent).map_err(wrong)
    }

    /// Begins new content for `path`. Parents are made.
    pub(super) fn draft(&self, path: &RelPath) -> Result<Draft> {
        let wrong = |errno| fault("making a file", path.as_path(), errno);
        let parent = self.open_parent(path)?;
        let hidden = format!("{OURS}tmp-{}", random_hex());
        let mode = Mode::from_raw_mode(0o600);
        let fd = rustix::fs::openat(&parent, &hidden, NEW_FILE, mode).map_err(wrong)?;
        Ok(Draft { parent, hidden, path: path.clone(), file: File::from(fd), committed: false })
    }
}

impl Draft {
    /// Makes the content durable and gives it its name.
    pub(super) fn commit(mut self, replacing: Replacing) -> Result<()> {
        let wrong = |errno| fault("writing a file", self.path.as_path(), errno);
        let name = Path::new(self.path.name().unwrap_or_default());
        let mode = self.mode_of_target(name, replacing)?;
        give_to_owner_of(self.parent.as_fd(), self.file.as_fd()).map_err(wrong)?;
        rustix::fs::fchmod(&self.file, mode).map_err(wrong)?;
        rustix::fs::fsync(&self.file).map_err(wrong)?;
        let renamed = match replacing {
            Replacing::Allowed => {
                rustix::fs::renameat(&self.parent, &self.hidden, &self.parent, name)
            }
            Replacing::Forbidden => self.rename_to_new(name),
        };
        renamed.map_err(wrong)?;
        rustix::fs::fsync(&self.parent).map_err(wrong)?;
        self.committed = true;
        Ok(())
    }

    /// The permissions the new file gets: those of the file it replaces.
    fn mode_of_target(&self, name: &Path, replacing: Replacing) -> Result<Mode> {
        let new = Mode::from_raw_mode(0o644);
        let stat = match rustix::fs::statat(&self.parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(new),
            Err(errno) => return Err(fault("writing a file", self.path.as_path(), errno)),
        };
        if replacing == Replacing::Forbidden {
            return Err(fault("writing a file", self.path.as_path(), Errno::EXIST));
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Mode::from_raw_mode(stat.st_mode & 0o777)),
            FileType::Directory => Err(Error::invalid("path", "is a directory; name a file in it")),
            FileType::Symlink => Err(fault("writing a file", self.path.as_path(), Errno::LOOP)),
            _ => Err(Error::invalid("path", "is a pipe, a socket or a device; remove it first")),
        }
    }

    fn rename_to_new(&self, name: &Path) -> rustix::io::Result<()> {
        let (parent, hidden) = (&self.parent, &self.hidden);
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(parent, hidden, parent, name, flags) {
            // Some file systems cannot; a hard link is as atomic.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(parent, hidden, parent, name, AtFlags::empty())?;
                rustix::fs::unlinkat(parent, hidden, AtFlags::empty())
            }
            other => other,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.committed {
            // What stays behind is swept at the next start.
            let _ = rustix::fs::unlinkat(&self.parent, &self.hidden, AtFlags::empty());
        }
    }
}

fn only_occurrence(content: &[u8], old: &[u8]) -> Result<usize> {
    let Some(at) = memchr::memmem::find(content, old) else {
        return Err(Error::invalid(
            "old",
            "does not occur in the file; read the file and give the exact text, spaces included",
        ));
    };
    if memchr::memmem::find(&content[at + 1..], old).is_some() {
        return Err(Error::invalid(
            "old",
            "occurs more than once in the file; give more of the text around it",
        ));
    }
    Ok(at)
}

/// A name that nobody guesses.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the kernel's random source is always there after boot");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
