//! What the launcher builds sandboxes from, and puts back when they are gone.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::child::{Child, Role};
use super::entry::{Born, Entry};
use super::failure::{Doing, refuse};
use super::identity::{Identities, Identity, first_id, write_maps};
use super::journal::Journal;
use super::limiter::{Group, Limiter};
use super::network::Networks;
use super::protocol::{Config, Failure, Id, Network, Plan};
use super::template::{Template, Templates};
use super::{pipe, text, workspace};
use crate::sys::{self, Forked};

/// Everything that outlives a single sandbox.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) root: bool,
    pub(crate) limiter: Limiter,
    identities: Identities,
    templates: Templates,
    /// Made ahead, where that is possible.
    networks: Option<Networks>,
    journal: Journal,
    /// Our own mount namespace, where the machine's files are.
    outside: OwnedFd,
}

impl House {
    /// Looks at what the host has. Leaves the caller in a mount namespace of its own.
    pub(crate) fn open(state_dir: &Path, config: &Config) -> Result<Self, Failure> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let root = uid.is_root();
        let mut journal = Journal::open(&state_dir.join("launchers"))?;
        let limiter = Limiter::detect(&format!("stockade-{}", std::process::id()));
        journal.note(&limiter.directories())?;
        let identities = if root {
            let maps = ["/proc/self/uid_map", "/proc/self/gid_map"]
                .map(|map| std::fs::read_to_string(map).unwrap_or_default());
            let ids = 2 * config.sandboxes;
            let base = first_id([&maps[0], &maps[1]], config.id_base, journal.number * ids, ids)?;
            Identities::reserved(base, config.sandboxes, (uid.as_raw(), gid.as_raw()))
        } else {
            Identities::Own { uid: uid.as_raw(), gid: gid.as_raw() }
        };
        enter_own_namespaces(root, uid.as_raw(), gid.as_raw())?;
        let place = state_dir.join("root");
        std::fs::create_dir_all(&place).doing("making the directory for roots")?;
        let outside = File::open("/proc/self/ns/mnt").doing("opening the mount namespace")?.into();
        let templates = Templates::new(place);
        let networks = if root { Some(Networks::open()?) } else { None };
        Ok(Self { root, limiter, identities, templates, networks, journal, outside })
    }

    /// Starts to build a sandbox. It is ready once its first process has reported.
    pub(crate) fn build(&mut self, id: Id, plan: &Plan, role: Role) -> Result<Entry, Failure> {
        let identity = self.identities.take()?;
        let mut group = match self.limiter.create(id, &plan.bounds) {
            Ok(group) => group,
            Err(failure) => {
                self.identities.give_back(identity);
                return Err(failure);
            }
        };
        match self.start(plan, role, identity, &group) {
            Ok(born) => Ok(Entry::new(id, born, identity, group)),
            Err(failure) => {
                group.remove();
                self.identities.give_back(identity);
                Err(failure)
            }
        }
    }

    fn start(
        &mut self,
        plan: &Plan,
        role: Role,
        identity: Identity,
        group: &Group,
    ) -> Result<Born, Failure> {
        let template = self.templates.get(&plan.image, plan.network)?;
        let dir = text::path(&plan.workspace)?;
        let (workspace, ownership) = workspace::take(&dir, &mut self.identities, identity)?;
        let (parent, child_pipe) = pipe::pair()?;
        let [memory, ..] = self.limiter.mechanisms();
        let child = Child {
            pipe: child_pipe,
            doors: group.doors()?,
            workspace,
            identity,
            new_network: plan.network == Network::None && self.networks.is_none(),
            tmp_bytes: plan.bounds.tmp_bytes,
            data_bytes: memory.is_none().then_some(plan.bounds.memory_bytes),
            role,
        };
        let network = match (plan.network, &mut self.networks) {
            (Network::None, Some(networks)) => Some(networks.take()?),
            (Network::None, None) | (Network::Open, _) => None,
        };
        let (pid, pidfd) = self.give_birth(&template, network.as_ref(), group, child)?;
        let born = Born { pid, pidfd, report: parent, ownership };
        match self.identities.map(identity, pid).and_then(|()| born.report.open_gate()) {
            Ok(()) => Ok(born),
            Err(failure) => {
                let _ = sys::pidfd_signal(born.pidfd.as_fd(), libc::SIGKILL);
                let _ = sys::wait(pid, true);
                Err(failure)
            }
        }
    }

    /// Makes the process 1. It is born from within the template, so that its
    /// mounts are a copy of the template's and never held the machine's.
    fn give_birth(
        &self,
        template: &Template,
        network: Option<&OwnedFd>,
        group: &Group,
        child: Child,
    ) -> Result<(i32, OwnedFd), Failure> {
        let mut namespaces = libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        if child.new_network {
            namespaces |= libc::CLONE_NEWNET;
        }
        if let Some(network) = network {
            Networks::enter(network)?;
        }
        let forked = enter(&template.namespace)
            .and_then(|()| sys::clone3(namespaces, group.birthplace()).doing("making the sandbox"));
        if let Ok(Forked::Child) = forked {
            child.live();
        }
        if let Some(networks) = &self.networks {
            networks.leave();
        }
        if enter(&self.outside).is_err() {
            // Locked out of the machine's files, nothing could be built any more.
            sys::exit_now(1);
        }
        match forked? {
            Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
            Forked::Child => refuse("unreachable: the child lives elsewhere"),
        }
    }

    /// Work that is worth doing while nobody asks for anything.
    pub(crate) fn wants_time(&self) -> bool {
        self.networks.as_ref().is_some_and(Networks::wants_spare)
    }

    /// Does it.
    pub(crate) fn use_time(&mut self) {
        if let Some(networks) = &mut self.networks {
            networks.make_spare();
        }
    }

    /// Puts back what a dead sandbox had. False while the kernel still holds its groups.
    pub(crate) fn try_bury(&mut self, entry: &mut Entry) -> bool {
        let gone = entry.group.remove() || entry.removal_is_late();
        if gone {
            self.identities.give_back(entry.identity);
        }
        gone
    }

    /// Waits until nothing of a sandbox is left, for callers that have no event queue.
    pub(crate) fn bury(&mut self, entry: &mut Entry) {
        entry.reap_now();
        while !self.try_bury(entry) {
            std::thread::sleep(super::TICK);
        }
    }

    /// Removes what outlives sandboxes. All of them must be gone.
    pub(crate) fn close(self) {
        self.limiter.remove();
        self.journal.close();
    }
}

fn enter(namespace: &OwnedFd) -> Result<(), Failure> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .doing("entering a mount namespace")
}

/// An ordinary user needs a user namespace to be allowed mounts at all.
fn enter_own_namespaces(root: bool, uid: u32, gid: u32) -> Result<(), Failure> {
    if root {
        sys::unshare(libc::CLONE_NEWNS).doing("making the launcher's mount namespace")?;
    } else {
        sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
            .doing("making the launcher's user namespace")?;
        let own = |id: u32| format!("{id} {id} 1\n");
        write_maps(i32::try_from(std::process::id()).unwrap_or(0), &own(uid), &own(gid), true)?;
    }
    // What the machine mounts later is seen; what is mounted here stays here.
    let follow = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", follow).doing("separating the launcher's mounts")?;
    Ok(())
}
