//! Groups of cgroup v1: one directory in each controller's own hierarchy.
//!
//! A process enters by itself: writing `0` to `tasks` moves the calling thread
//! and nothing else, and the kernel does that in some 40 µs. Moving a process
//! from outside takes a lock over all forks of the machine, 5 to 15 ms.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{EventfdFlags, eventfd};

use super::layout::Layout;
use super::{OWN_PIDS, keyed, number};
use crate::launcher::failure::Doing;
use crate::launcher::protocol::{Bounds, Failure, Figures, Id};

/// Only `memory`, `pids` and `cpu` bound anything; `cpuacct` counts.
const CONTROLLERS: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];
const CPU_PERIOD_US: u64 = 100_000;

/// Where groups are made.
#[derive(Debug)]
pub(super) struct Parent {
    /// Controller and directory; controllers may share one.
    places: Vec<(&'static str, PathBuf)>,
    swap_counted: bool,
}

/// One sandbox's directories.
#[derive(Debug)]
pub(super) struct Group {
    places: Vec<(&'static str, PathBuf)>,
}

impl Parent {
    /// Tries each controller. `Err` says why something is missing.
    pub(super) fn make(layout: &Layout, name: &str) -> Result<Option<Self>, String> {
        let mut parent = Self { places: Vec::new(), swap_counted: false };
        let mut problem = None;
        for controller in CONTROLLERS {
            let Some(own) = layout.v1(controller) else { continue };
            let dir = own.join(name);
            match fs::create_dir(&dir) {
                Ok(()) => parent.places.push((controller, dir)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    parent.places.push((controller, dir));
                }
                Err(error) => {
                    problem.get_or_insert_with(|| format!("{}: {error}", dir.display()));
                }
            }
        }
        let trial = Bounds { memory_bytes: 1 << 30, pids: 64, cpu_millis: 500, tmp_bytes: 0 };
        parent.swap_counted = parent
            .dir("memory")
            .is_some_and(|dir| dir.join("memory.memsw.limit_in_bytes").exists());
        if !parent.places.is_empty()
            && let Err(failure) = parent.create(0, &trial).map(|mut group| group.remove())
        {
            for (_, dir) in parent.places.drain(..) {
                let _ = fs::remove_dir(dir);
            }
            problem = Some(format!("{}: error {}", failure.step, failure.errno));
        }
        match problem {
            Some(problem) if parent.places.is_empty() => Err(problem),
            _ if parent.places.is_empty() => Ok(None),
            _ => Ok(Some(parent)),
        }
    }

    pub(super) fn has(&self, controller: &str) -> bool {
        self.dir(controller).is_some()
    }

    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<_> = self.places.iter().map(|(_, dir)| dir.clone()).collect();
        dirs.dedup();
        dirs
    }

    fn dir(&self, controller: &str) -> Option<&Path> {
        dir(&self.places, controller)
    }

    pub(super) fn create(&self, id: Id, bounds: &Bounds) -> Result<Group, Failure> {
        let mut group = Group { places: Vec::new() };
        let made = self.fill(&mut group, id, bounds);
        if made.is_err() {
            group.remove();
        }
        made.map(|()| group)
    }

    fn fill(&self, group: &mut Group, id: Id, bounds: &Bounds) -> Result<(), Failure> {
        for (controller, parent) in &self.places {
            let dir = parent.join(id.to_string());
            if !group.places.iter().any(|(_, known)| *known == dir) {
                fs::create_dir(&dir).doing("making a resource group")?;
            }
            group.places.push((controller, dir));
        }
        if let Some(memory) = group.dir("memory") {
            set(memory, "memory.limit_in_bytes", bounds.memory_bytes)?;
            if self.swap_counted {
                set(memory, "memory.memsw.limit_in_bytes", bounds.memory_bytes)?;
            }
        }
        if let Some(pids) = group.dir("pids") {
            set(pids, "pids.max", u64::from(bounds.pids.saturating_add(OWN_PIDS)))?;
        }
        if let Some(cpu) = group.dir("cpu") {
            let quota = u64::from(bounds.cpu_millis) * (CPU_PERIOD_US / 1000);
            set(cpu, "cpu.cfs_quota_us", quota)?;
        }
        Ok(())
    }
}

impl Group {
    fn dir(&self, controller: &str) -> Option<&Path> {
        dir(&self.places, controller)
    }

    fn distinct(&self) -> Vec<&PathBuf> {
        let mut dirs: Vec<_> = self.places.iter().map(|(_, dir)| dir).collect();
        dirs.dedup();
        dirs
    }

    pub(super) fn doors(&self) -> Result<Vec<OwnedFd>, Failure> {
        let open = |dir: &PathBuf| File::options().write(true).open(dir.join("tasks"));
        let doors = self.distinct().into_iter().map(|dir| open(dir).map(OwnedFd::from));
        doors.collect::<io::Result<_>>().doing("opening a resource group")
    }

    pub(super) fn figures(&self) -> Figures {
        let read =
            |controller, file: &str| fs::read_to_string(self.dir(controller)?.join(file)).ok();
        let single = |controller, file| read(controller, file).as_deref().and_then(number);
        Figures {
            memory: single("memory", "memory.usage_in_bytes"),
            peak: single("memory", "memory.max_usage_in_bytes"),
            cpu_us: single("cpuacct", "cpuacct.usage").map(|nanoseconds| nanoseconds / 1000),
            pids: single("pids", "pids.current"),
            oom_kills: read("memory", "memory.oom_control")
                .and_then(|text| keyed(&text, "oom_kill")),
            pids_refused: read("pids", "pids.events").and_then(|text| keyed(&text, "max")),
        }
    }

    pub(super) fn restart_peak(&self) {
        if let Some(memory) = self.dir("memory") {
            let _ = fs::write(memory.join("memory.max_usage_in_bytes"), "0");
        }
    }

    pub(super) fn watch_oom(&self) -> Option<OwnedFd> {
        let memory = self.dir("memory")?;
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let control = File::open(memory.join("memory.oom_control")).ok()?;
        let line = format!("{} {}", counter.as_raw_fd(), control.as_raw_fd());
        fs::write(memory.join("cgroup.event_control"), line).ok()?;
        Some(counter)
    }

    pub(super) fn remove(&mut self) -> bool {
        self.places.retain(|(_, dir)| match fs::remove_dir(dir) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
        self.places.is_empty()
    }
}

fn dir<'a>(places: &'a [(&'static str, PathBuf)], controller: &str) -> Option<&'a Path> {
    places.iter().find(|(name, _)| *name == controller).map(|(_, dir)| dir.as_path())
}

fn set(dir: &Path, file: &str, value: u64) -> Result<(), Failure> {
    fs::write(dir.join(file), value.to_string()).doing(&format!("setting {file}"))
}
