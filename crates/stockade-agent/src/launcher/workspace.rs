//! The workspace as a mount of its own, with its owners mapped.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, open};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::failure::Doing;
use super::identity::{Identities, Identity};
use super::mounts::WORKSPACE;
use super::protocol::{Failure, Ownership};
use crate::sys;

/// A detached mount of the directory, for one sandbox. Nothing that is mounted
/// below it comes along.
pub(crate) fn take(
    dir: &Path,
    identities: &mut Identities,
    identity: Identity,
) -> Result<(OwnedFd, Ownership), Failure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let held = open(dir, flags, Mode::empty()).doing("opening the workspace")?;
    let clone = || {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        open_tree(&held, "", flags).doing("taking the workspace as a mount")
    };
    let tree = clone()?;
    if let Some(mapper) = identities.mapper(identity)?
        && sys::mount_setattr(tree.as_fd(), false, WORKSPACE, 0, Some(mapper.as_fd())).is_ok()
    {
        return Ok((tree, Ownership::Server));
    }
    sys::mount_setattr(tree.as_fd(), false, WORKSPACE, 0, None)
        .doing("restricting the workspace")?;
    let Some(programs) = identities.programs(identity) else {
        return Ok((tree, Ownership::Server));
    };
    let owner = (Some(Uid::from_raw(programs)), Some(Gid::from_raw(programs)));
    chownat(&held, "", owner.0, owner.1, AtFlags::EMPTY_PATH)
        .doing("giving the workspace to the sandbox")?;
    Ok((tree, Ownership::Sandbox))
}
