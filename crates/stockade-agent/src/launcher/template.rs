//! Roots: one read-only mount namespace for each image, copied by every sandbox.
//!
//! A template is built once, in a child with its own mount namespace, and kept
//! by a descriptor alone. Nothing of the machine is in it but the read-only
//! trees that were put there: the old root is detached before the first sandbox
//! exists. When the launcher dies, the kernel takes all of it away.
//!
//! Its /proc belongs to a process namespace that is dead: the kernel lets a
//! user namespace mount a fresh /proc only where a whole one is in sight, and
//! this one shows nobody.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{chdir, pivot_root};

use super::failure::{Doing, refuse};
use super::mounts::{READ_ONLY, attach, restrict};
use super::protocol::{Failure, Image, Network};
use super::{pipe, text};
use crate::sys;

pub(crate) mod device;
mod etc;
mod host;
mod unpacked;

/// Templates kept at once; the one that was not used for longest goes first.
const KEPT: usize = 8;
/// A template is a few hundred directories, links and small files.
const ROOT_SIZE: &str = "mode=0755,size=16m,nr_inodes=8192";
const BUILD_SECONDS: i64 = 20;

/// What every root of ours has as a directory, and what is mounted there for each sandbox.
pub(crate) const PER_SANDBOX: [&str; 3] = ["/tmp", "/dev/shm", "/workspace"];

/// A root file system, ready to be copied.
#[derive(Debug)]
pub(crate) struct Template {
    /// The mount namespace.
    pub(crate) namespace: OwnedFd,
}

/// What makes one template differ from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    image: Image,
    network: Network,
    /// Name servers and host names, which change while we live.
    resolving: etc::Resolving,
}

/// Templates built so far.
#[derive(Debug)]
pub(crate) struct Templates {
    place: PathBuf,
    kept: Vec<(Key, Rc<Template>)>,
}

impl Templates {
    /// `place` is an empty directory of ours; roots are put together on top of it.
    pub(crate) fn new(place: PathBuf) -> Self {
        Self { place, kept: Vec::new() }
    }

    /// The template for an image, built now if this is its first use.
    pub(crate) fn get(&mut self, image: &Image, network: Network) -> Result<Rc<Template>, Failure> {
        let resolving = etc::Resolving::now(network);
        let key = Key { image: image.clone(), network, resolving };
        if let Some(at) = self.kept.iter().position(|(kept, _)| *kept == key) {
            let found = self.kept.remove(at);
            let template = Rc::clone(&found.1);
            self.kept.push(found);
            return Ok(template);
        }
        let template = Rc::new(build(&key, &self.place)?);
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push((key, Rc::clone(&template)));
        Ok(template)
    }
}

fn build(key: &Key, place: &Path) -> Result<Template, Failure> {
    // Sources are judged before the fork, so that both sides know the same list.
    let tree = match &key.image {
        Image::Host { mounts } => Tree::Host(host::plan(mounts)?),
        Image::Root(dir) => Tree::Unpacked(text::path(dir)?),
    };
    let (mut parent, mut child) = pipe::pair()?;
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    let (pid, pidfd) = match sys::clone3(namespaces, None).doing("making a mount namespace")? {
        sys::Forked::Child => {
            drop(parent);
            let built = build_inside(key, &tree, place);
            let _ = child.report(&built);
            let _ = child.wait_at_gate();
            sys::exit_now(0)
        }
        sys::Forked::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop(child);
    let template = parent.report(BUILD_SECONDS).and_then(|()| take(pid));
    drop(parent);
    if template.is_err() {
        let _ = sys::pidfd_signal(pidfd.as_fd(), libc::SIGKILL);
    }
    let _ = sys::wait(pid, true);
    template
}

#[derive(Debug)]
enum Tree {
    Host(host::Plan),
    Unpacked(PathBuf),
}

/// Takes the namespace over from the child that built it.
fn take(pid: i32) -> Result<Template, Failure> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt")).doing("opening a mount namespace")?;
    Ok(Template { namespace: namespace.into() })
}

fn build_inside(key: &Key, tree: &Tree, place: &Path) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).doing("making mounts private")?;
    match tree {
        Tree::Host(plan) => host::assemble(plan, &key.resolving, place)?,
        Tree::Unpacked(dir) => unpacked::assemble(dir, place)?,
    }
    // From here on the new root is the working directory, with every tree in its place.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "proc", "proc", flags, None).doing("mounting /proc")?;
    pivot_root(".", ".").doing("changing the root")?;
    unmount(".", UnmountFlags::DETACH).doing("detaching the machine's root")?;
    chdir("/").doing("entering the root")?;
    restrict(Path::new("/"), READ_ONLY)
}

/// A fresh tmpfs on `place`, and into it.
fn begin(place: &Path) -> Result<(), Failure> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("stockade", place, "tmpfs", flags, Some(text::c(ROOT_SIZE)?.as_c_str()))
        .doing("mounting an empty root")?;
    chdir(place).doing("entering the empty root")
}

fn relative(inside: &Path) -> &Path {
    inside.strip_prefix("/").unwrap_or(inside)
}

fn make_dir(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).doing(&format!("making {} in the root", path.display()))
}

fn put(tree: &OwnedFd, path: &Path) -> Result<(), Failure> {
    if path.as_os_str().is_empty() {
        return refuse("a mount must have a place below the root");
    }
    attach(tree, path)
}
