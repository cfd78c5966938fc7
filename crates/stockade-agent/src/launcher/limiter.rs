//! Bounds for whole sandboxes: resource groups of whichever kind the host has.
//!
//! Four situations, found by really making a group: cgroup v2 with its
//! controllers; cgroup v1; both at once (v1 bounds, and v2 kills a whole group
//! at one stroke); or neither, and then only the limits of single processes are
//! left, which the agent sets on every run.

use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use super::protocol::{Bounds, Failure, Figures, Id};

mod layout;
mod v1;
mod v2;

/// The agent and the first process of a run are no programs of the user's.
const OWN_PIDS: u32 = 2;

/// Makes groups.
#[derive(Debug)]
pub(crate) struct Limiter {
    v1: Option<v1::Parent>,
    v2: Option<v2::Parent>,
    /// Why something is missing.
    problem: Option<String>,
}

/// The groups of one sandbox.
#[derive(Debug)]
pub(crate) struct Group {
    v1: Option<v1::Group>,
    v2: Option<v2::Group>,
}

/// Readable when the kernel may have killed for want of memory.
#[derive(Debug)]
pub(crate) enum OomWatch {
    /// An event counter.
    Counter(OwnedFd),
    /// A file that signals priority when it changed.
    File(OwnedFd),
}

impl Limiter {
    /// Looks at what the host has, and tries it. `name` is this instance's own.
    pub(crate) fn detect(name: &str) -> Self {
        let layout = layout::Layout::read();
        let mut problems = Vec::new();
        let v2 = v2::Parent::make(&layout, name).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let bounded = v2.as_ref().is_some_and(v2::Parent::bounds_memory);
        let v1 = if bounded {
            None
        } else {
            v1::Parent::make(&layout, name).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        Self { v1, v2, problem }
    }

    /// The directories that hold our groups: what a later sweep has to look at.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let v1 = self.v1.iter().flat_map(v1::Parent::directories);
        let v2 = self.v2.iter().map(v2::Parent::directory);
        v1.chain(v2).collect()
    }

    /// What bounds memory, pids and processors; nothing where nothing does.
    pub(crate) fn mechanisms(&self) -> [Option<String>; 3] {
        ["memory", "pids", "cpu"].map(|controller| {
            let v1 = self.v1.as_ref().is_some_and(|v1| v1.has(controller));
            let v2 = self.v2.as_ref().is_some_and(|v2| v2.has(controller));
            match (v1, v2) {
                (_, true) => Some(format!("cgroup v2 {controller}")),
                (true, false) => Some(format!("cgroup v1 {controller}")),
                (false, false) => None,
            }
        })
    }

    /// Whether the kernel kills a whole group at one stroke.
    pub(crate) fn kills_groups(&self) -> bool {
        self.v2.as_ref().is_some_and(v2::Parent::kills)
    }

    /// Why something is missing.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Makes the groups of one sandbox.
    pub(crate) fn create(&self, id: Id, bounds: &Bounds) -> Result<Group, Failure> {
        let mut group = Group { v1: None, v2: None };
        let made = self.fill(&mut group, id, bounds);
        if made.is_err() {
            group.remove();
        }
        made.map(|()| group)
    }

    fn fill(&self, group: &mut Group, id: Id, bounds: &Bounds) -> Result<(), Failure> {
        if let Some(v1) = &self.v1 {
            group.v1 = Some(v1.create(id, bounds)?);
        }
        if let Some(v2) = &self.v2 {
            group.v2 = Some(v2.create(id, bounds)?);
        }
        Ok(())
    }

    /// Removes the directories that held the groups.
    pub(crate) fn remove(&self) {
        for dir in self.directories() {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

impl Group {
    /// Files into which a new process must write `0` to enter; opened with the launcher's rights.
    pub(crate) fn doors(&self) -> Result<Vec<OwnedFd>, Failure> {
        self.v1.as_ref().map_or(Ok(Vec::new()), v1::Group::doors)
    }

    /// The group in which a new process starts.
    pub(crate) fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        self.v2.as_ref().map(v2::Group::directory)
    }

    /// What the group uses. Anything that cannot be read is missing.
    pub(crate) fn figures(&self) -> Figures {
        let v1 = self.v1.as_ref().map(v1::Group::figures).unwrap_or_default();
        let v2 = self.v2.as_ref().map(v2::Group::figures).unwrap_or_default();
        Figures {
            memory: v1.memory.or(v2.memory),
            peak: v1.peak.or(v2.peak),
            cpu_us: v1.cpu_us.or(v2.cpu_us),
            pids: v1.pids.or(v2.pids),
            oom_kills: v1.oom_kills.or(v2.oom_kills),
            pids_refused: v1.pids_refused.or(v2.pids_refused),
        }
    }

    /// Lets the peak of memory start anew, where the kernel can.
    pub(crate) fn restart_peak(&self) {
        if let Some(v1) = &self.v1 {
            v1.restart_peak();
        }
        if let Some(v2) = &self.v2 {
            v2.restart_peak();
        }
    }

    /// Something to wait on for kills for want of memory.
    pub(crate) fn watch_oom(&self) -> Option<OomWatch> {
        let v1 = self.v1.as_ref().and_then(v1::Group::watch_oom).map(OomWatch::Counter);
        v1.or_else(|| self.v2.as_ref().and_then(v2::Group::watch_oom).map(OomWatch::File))
    }

    /// Kills everything in the group, where the kernel can.
    pub(crate) fn kill(&self) {
        if let Some(v2) = &self.v2 {
            v2.kill();
        }
    }

    /// Tries to remove the groups. False while the kernel still holds one of them.
    pub(crate) fn remove(&mut self) -> bool {
        let v1 = self.v1.as_mut().is_none_or(v1::Group::remove);
        let v2 = self.v2.as_mut().is_none_or(v2::Group::remove);
        v1 && v2
    }
}

/// Removes one directory of groups that a dead instance left, killing what is in them.
/// False while something is left.
pub(crate) fn sweep(dir: &std::path::Path) -> bool {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let group = entry.path();
        if !group.is_dir() {
            continue;
        }
        if let Ok(mut kill) = File::options().write(true).open(group.join("cgroup.kill")) {
            let _ = kill.write_all(b"1");
        }
        let pids = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|line| line.parse().ok()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = std::fs::remove_dir(&group);
    }
    !dir.exists() || std::fs::remove_dir(dir).is_ok()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number behind `key` in a file of `key number` lines.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}
