//! Mounts by descriptor: clone a tree, restrict it, put it in place.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::failure::Doing;
use super::protocol::Failure;
use crate::sys;

/// A detached copy of the tree at `path`, mounts below included, with further
/// restrictions (`MOUNT_ATTR_*`) on all of it.
pub(crate) fn detach(path: &Path, attributes: u64) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree =
        open_tree(CWD, path, flags).doing(&format!("taking the tree at {}", path.display()))?;
    sys::mount_setattr(tree.as_fd(), true, attributes, 0, None)
        .doing(&format!("restricting the tree at {}", path.display()))?;
    Ok(tree)
}

/// Puts a detached tree at `path`. Links are not followed.
pub(crate) fn attach(tree: &OwnedFd, path: &Path) -> Result<(), Failure> {
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .doing(&format!("mounting on {}", path.display()))
}

/// Restricts the mount that is at `path` now.
pub(crate) fn restrict(path: &Path, attributes: u64) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mount = open(path, flags, Mode::empty()).doing("opening a mount")?;
    sys::mount_setattr(mount.as_fd(), false, attributes, 0, None)
        .doing(&format!("restricting {}", path.display()))
}

/// No device files, no set-user-id programs, no writing.
pub(crate) const READ_ONLY: u64 =
    libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
/// For single device files.
pub(crate) const DEVICE: u64 =
    libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
/// For a workspace.
pub(crate) const WORKSPACE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
