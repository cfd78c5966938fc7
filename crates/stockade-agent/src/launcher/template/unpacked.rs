//! A root that was unpacked into a directory.
//!
//! The directory may come from anybody: its links are never followed. What is
//! mounted on it needs plain directories to stand on, and they must be there,
//! since the directory itself is never written to.

use std::fs::symlink_metadata;
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::process::chdir;

use super::{begin, device};
use crate::launcher::failure::{Doing, refuse};
use crate::launcher::mounts::{READ_ONLY, attach, detach, restrict};
use crate::launcher::protocol::Failure;
use crate::launcher::text;

const MOUNT_POINTS: [&str; 4] = ["proc", "dev", "tmp", "workspace"];

/// Puts the root on top of `place` and leaves the caller in it.
pub(super) fn assemble(dir: &Path, place: &Path) -> Result<(), Failure> {
    let tree = detach(dir, READ_ONLY)?;
    let devices = device::take()?;
    begin(place)?;
    attach(&tree, Path::new("."))?;
    // The working directory is still the covered one.
    chdir(place).doing("entering the root")?;
    for name in MOUNT_POINTS {
        let found = symlink_metadata(name).is_ok_and(|metadata| metadata.is_dir());
        if !found {
            return refuse(format!("{} has no plain directory {name}; make one", dir.display()));
        }
    }
    let dev = Path::new("dev");
    let options = text::c("mode=0755,size=64k,nr_inodes=64")?;
    mount("stockade", dev, "tmpfs", MountFlags::NOSUID, Some(options.as_c_str()))
        .doing("mounting /dev of the root")?;
    device::fill(dev, &devices)?;
    restrict(dev, READ_ONLY & !libc::MOUNT_ATTR_NODEV)
}
