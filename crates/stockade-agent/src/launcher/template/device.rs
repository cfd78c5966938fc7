//! The minimal /dev: five devices that hold no state, links, and a place for shared memory.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::launcher::failure::Doing;
use crate::launcher::mounts::{DEVICE, detach};
use crate::launcher::protocol::Failure;

/// Devices that every program may expect. None of them keeps anything or names hardware.
pub(crate) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The machine's device files, taken while they are in sight.
pub(super) fn take() -> Result<Vec<OwnedFd>, Failure> {
    DEVICES.iter().map(|name| detach(&Path::new("/dev").join(name), DEVICE)).collect()
}

/// Fills an empty directory.
pub(super) fn fill(dev: &Path, devices: &[OwnedFd]) -> Result<(), Failure> {
    super::make_dir(&dev.join("shm"))?;
    for (name, device) in DEVICES.iter().zip(devices) {
        let place = dev.join(name);
        File::create(&place).doing("making a place for a device")?;
        super::put(device, &place)?;
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name)).doing("making a link in /dev")?;
    }
    Ok(())
}
