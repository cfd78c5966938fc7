//! A root made from the machine's own `/usr`.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use serde_bytes::ByteBuf;

use super::{PER_SANDBOX, begin, device, etc, make_dir, put, relative};
use crate::launcher::failure::{Doing, refuse};
use crate::launcher::mounts::{READ_ONLY, detach};
use crate::launcher::protocol::Failure;
use crate::launcher::text;

/// Where programs and libraries live beside `/usr`: links into it on most machines.
const BESIDE_USR: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// First parts of paths that are ours to fill.
const TAKEN: [&str; 17] = [
    "bin",
    "data",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "workspace",
];
const EMPTY: [&str; 4] = ["proc", "sys", "run", "var"];
const LINKS: [(&str, &str); 3] =
    [("/workspace", "data"), ("/tmp", "var/tmp"), ("/tmp/home", "home/sandbox")];

/// What the root will hold.
#[derive(Debug)]
pub(super) struct Plan {
    beside_usr: Vec<(PathBuf, Beside)>,
    mounts: Vec<(PathBuf, PathBuf)>,
}

#[derive(Debug)]
enum Beside {
    LinkTo(PathBuf),
    Directory,
}

/// Judges what is asked for and what the machine has.
pub(super) fn plan(mounts: &[(ByteBuf, ByteBuf)]) -> Result<Plan, Failure> {
    let mounts = mounts
        .iter()
        .map(|(from, to)| Ok((text::path(from)?, place(&text::path(to)?)?)))
        .collect::<Result<_, Failure>>()?;
    let beside = |name: &&str| {
        let path = Path::new("/").join(name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if metadata.is_dir() {
            return Some((path, Beside::Directory));
        }
        let target = fs::read_link(&path).ok()?;
        Some((path, Beside::LinkTo(target)))
    };
    Ok(Plan { beside_usr: BESIDE_USR.iter().filter_map(beside).collect(), mounts })
}

/// A place for a further directory: plain, absolute, and none of those that are ours.
fn place(inside: &Path) -> Result<PathBuf, Failure> {
    let plain =
        inside.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let first = inside.components().nth(1).and_then(|part| part.as_os_str().to_str());
    match first {
        Some(first) if plain && !TAKEN.contains(&first) => Ok(inside.to_path_buf()),
        _ => refuse(format!(
            "{} cannot be a mount point; use a directory below /opt",
            inside.display()
        )),
    }
}

/// Puts the root together on top of `place` and leaves the caller in it.
pub(super) fn assemble(
    plan: &Plan,
    resolving: &etc::Resolving,
    place: &Path,
) -> Result<(), Failure> {
    // Everything of the machine is taken first: the new root may cover it.
    let mut trees = vec![(PathBuf::from("/usr"), detach(Path::new("/usr"), READ_ONLY)?)];
    for (path, beside) in &plan.beside_usr {
        if matches!(beside, Beside::Directory) {
            trees.push((path.clone(), detach(path, READ_ONLY)?));
        }
    }
    for (from, to) in &plan.mounts {
        trees.push((to.clone(), detach(from, READ_ONLY)?));
    }
    let devices = device::take()?;
    let shown = etc::take()?;
    let copied = etc::read();

    begin(place)?;
    for dir in EMPTY {
        make_dir(Path::new(dir))?;
    }
    make_dir(Path::new("home"))?;
    for dir in PER_SANDBOX {
        make_dir(relative(Path::new(dir)))?;
    }
    for (target, link) in LINKS {
        symlink(target, link).doing("making a link in the root")?;
    }
    for (path, beside) in &plan.beside_usr {
        if let Beside::LinkTo(target) = beside {
            symlink(target, relative(path)).doing("making a link in the root")?;
        }
    }
    device::fill(Path::new("dev"), &devices)?;
    etc::fill(Path::new("etc"), &shown, &copied, resolving)?;
    trees.sort_by_key(|(path, _): &(PathBuf, OwnedFd)| path.components().count());
    for (path, tree) in &trees {
        make_dir(relative(path))?;
        put(tree, relative(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, allowed: bool) {
        assert_eq!(place(Path::new(raw)).is_ok(), allowed, "{raw:?}");
    }

    #[test]
    fn mount_points_stay_clear_of_what_is_ours() {
        check("/opt/stockade/python", true);
        check("/node_modules", true);
        check("/usr/lib/x", false);
        check("/etc", false);
        check("/workspace/x", false);
        check("/opt/../etc", false);
        check("/", false);
        check("/proc/1", false);
    }
}
