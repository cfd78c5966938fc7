//! A directory that appears whole or not at all.
//!
//! Content goes into a hidden directory beside the final one. `finish` writes
//! the marker, brings everything to the disk and renames. Whatever is dropped
//! before that is removed; what a crash left, the next `prepare` removes.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::standard_set::{MARKER, Marker};

/// How the hidden directories begin.
pub(crate) const UNFINISHED: &str = ".making-";

#[derive(Debug)]
pub(crate) struct SetDir {
    temporary: tempfile::TempDir,
    target: PathBuf,
}

impl SetDir {
    /// Starts a directory that will be `target`.
    pub(crate) fn begin(target: &Path) -> anyhow::Result<Self> {
        let parent = target.parent().context("a set needs a directory around it")?;
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        let temporary = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempdir_in(parent)
            .with_context(|| format!("making a directory in {}", parent.display()))?;
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// Where the content goes until it is finished.
    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Makes the directory appear, with the packages it holds in its marker.
    pub(crate) fn finish(self, packages: Vec<String>) -> anyhow::Result<()> {
        let path = self.path();
        let marker = path.join(MARKER);
        fs::write(&marker, serde_json::to_vec(&Marker { packages })?)
            .with_context(|| format!("writing {}", marker.display()))?;
        make_readable(path).with_context(|| format!("making {} readable", path.display()))?;
        rustix::fs::syncfs(File::open(path)?).context("writing the set to the disk")?;
        // What lies there without a marker is broken; with one it is from someone faster.
        if self.target.join(MARKER).exists() {
            return Ok(());
        }
        if self.target.exists() {
            fs::remove_dir_all(&self.target)
                .with_context(|| format!("removing the broken {}", self.target.display()))?;
        }
        let path = self.temporary.keep();
        match fs::rename(&path, &self.target) {
            Err(_) if self.target.join(MARKER).exists() => Ok(fs::remove_dir_all(&path)?),
            renamed => {
                renamed.with_context(|| format!("renaming to {}", self.target.display()))?;
                let parent = self.target.parent().context("a set needs a directory around it")?;
                Ok(File::open(parent)?.sync_all()?)
            }
        }
    }
}

/// Sandboxed programs have another uid, and a strict umask may have been in force.
fn make_readable(path: &Path) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    let is_program = metadata.is_dir() || mode & 0o100 != 0;
    let wanted = mode | 0o444 | if is_program { 0o111 } else { 0 };
    if wanted != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(wanted))?;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            make_readable(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_appears_before_it_is_finished() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("set");
        let set = SetDir::begin(&target).unwrap();
        fs::write(set.path().join("a"), "1").unwrap();
        assert!(!target.exists());
        drop(set);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_finished_set_can_be_read_by_others_and_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("set");
        for content in ["first", "second"] {
            let set = SetDir::begin(&target).unwrap();
            fs::write(set.path().join("a"), content).unwrap();
            fs::set_permissions(set.path().join("a"), fs::Permissions::from_mode(0o600)).unwrap();
            set.finish(vec!["a 1".to_owned()]).unwrap();
        }
        assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "first");
        assert_eq!(fs::metadata(target.join("a")).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_broken_set_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("set");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("half"), "").unwrap();
        SetDir::begin(&target).unwrap().finish(Vec::new()).unwrap();
        assert!(!target.join("half").exists());
    }
}
