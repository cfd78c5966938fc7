//! Groups of cgroup v2: one directory for everything, in a subtree that is ours.
//!
//! Ours is what was delegated to us, or what we made. A group with controllers
//! may not hold processes beside its children, so the server and the launcher
//! step into a leaf of their own before controllers are passed down. On hybrid
//! hosts there are no controllers here; the groups still kill at one stroke.
//!
//! A group is not set to die as a whole for want of memory: the agent in it
//! must outlive its runs to tell how they ended. The server ends the runs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::{OWN_PIDS, keyed, number};
use crate::launcher::failure::Doing;
use crate::launcher::protocol::{Bounds, Failure, Figures, Id};

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
const CPU_PERIOD_US: u64 = 100_000;
/// Where the server itself stays, below the subtree that was delegated to it.
const LEAF: &str = "stockade-server";

/// Where groups are made.
#[derive(Debug)]
pub(super) struct Parent {
    dir: PathBuf,
    controllers: Vec<&'static str>,
    kills: bool,
}

/// One sandbox's directory.
#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
    handle: OwnedFd,
    controllers: Vec<&'static str>,
    /// Kept open: the kernel restarts a peak for one open file only.
    peak: Option<File>,
}

impl Parent {
    /// Finds a subtree of ours. `Err` says why something is missing.
    pub(super) fn make(layout: &Layout, name: &str) -> Result<Option<Self>, String> {
        let Some((root, own)) = layout.v2() else { return Ok(None) };
        let mut parent = None;
        let mut problem = None;
        for (above, ours) in candidates(root, own) {
            match Self::below(&above, &ours, name) {
                Ok(found) => {
                    parent = Some(found);
                    break;
                }
                Err(error) => {
                    problem.get_or_insert(format!("{}: {error}", above.display()));
                }
            }
        }
        match (parent, problem) {
            (Some(parent), _) => Ok(Some(parent)),
            (None, Some(problem)) => Err(problem),
            (None, None) => Err(format!("{} is not delegated", own.display())),
        }
    }

    fn below(above: &Path, ours: &Ours, name: &str) -> io::Result<Self> {
        let offered = words(&above.join("cgroup.controllers"))?;
        let wanted: Vec<_> =
            CONTROLLERS.into_iter().filter(|c| offered.iter().any(|o| o == c)).collect();
        let wanted = match ours {
            Ours::Delegated if !wanted.is_empty() => {
                step_aside(above)?;
                pass_down(above, &wanted)?;
                wanted
            }
            Ours::Whole | Ours::Delegated => {
                pass_down(above, &wanted)?;
                wanted
            }
            Ours::Nothing => {
                let passed = words(&above.join("cgroup.subtree_control"))?;
                wanted.into_iter().filter(|c| passed.iter().any(|p| p == c)).collect()
            }
        };
        let dir = above.join(name);
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let passed = pass_down(&dir, &wanted);
        if passed.is_err() {
            let _ = fs::remove_dir(&dir);
        }
        passed?;
        let kills = dir.join("cgroup.kill").exists();
        Ok(Self { dir, controllers: wanted, kills })
    }

    pub(super) fn has(&self, controller: &str) -> bool {
        self.controllers.contains(&controller)
    }

    pub(super) fn bounds_memory(&self) -> bool {
        self.has("memory")
    }

    pub(super) fn kills(&self) -> bool {
        self.kills
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.dir.clone()
    }

    pub(super) fn create(&self, id: Id, bounds: &Bounds) -> Result<Group, Failure> {
        let dir = self.dir.join(id.to_string());
        fs::create_dir(&dir).doing("making a resource group")?;
        let made = self.fill(dir.clone(), bounds);
        if made.is_err() {
            let _ = fs::remove_dir(&dir);
        }
        made
    }

    fn fill(&self, dir: PathBuf, bounds: &Bounds) -> Result<Group, Failure> {
        let handle = File::open(&dir).doing("opening a resource group")?.into();
        if self.has("memory") {
            set(&dir, "memory.max", &bounds.memory_bytes.to_string())?;
            // Absent where the kernel knows no swap.
            if dir.join("memory.swap.max").exists() {
                set(&dir, "memory.swap.max", "0")?;
            }
        }
        if self.has("pids") {
            set(&dir, "pids.max", &bounds.pids.saturating_add(OWN_PIDS).to_string())?;
        }
        if self.has("cpu") {
            let quota = u64::from(bounds.cpu_millis) * (CPU_PERIOD_US / 1000);
            set(&dir, "cpu.max", &format!("{quota} {CPU_PERIOD_US}"))?;
        }
        let peak = File::options().read(true).write(true).open(dir.join("memory.peak")).ok();
        Ok(Group { dir, handle, controllers: self.controllers.clone(), peak })
    }
}

impl Group {
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    pub(super) fn figures(&self) -> Figures {
        let read = |file: &str| fs::read_to_string(self.dir.join(file)).ok();
        let single = |file| read(file).as_deref().and_then(number);
        if self.controllers.is_empty() {
            return Figures::default();
        }
        Figures {
            memory: single("memory.current"),
            peak: self.read_peak().or_else(|| single("memory.peak")),
            cpu_us: read("cpu.stat").and_then(|text| keyed(&text, "usage_usec")),
            pids: single("pids.current"),
            oom_kills: read("memory.events").and_then(|text| keyed(&text, "oom_kill")),
            pids_refused: read("pids.events").and_then(|text| keyed(&text, "max")),
        }
    }

    fn read_peak(&self) -> Option<u64> {
        let mut bytes = [0; 32];
        let length = rustix::io::pread(self.peak.as_ref()?, &mut bytes, 0).ok()?;
        number(std::str::from_utf8(&bytes[..length]).ok()?)
    }

    pub(super) fn restart_peak(&self) {
        if let Some(mut peak) = self.peak.as_ref() {
            let _ = peak.write_all(b"reset");
        }
    }

    pub(super) fn watch_oom(&self) -> Option<OwnedFd> {
        File::open(self.dir.join("memory.events")).ok().map(OwnedFd::from)
    }

    pub(super) fn kill(&self) {
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
    }

    pub(super) fn remove(&mut self) -> bool {
        match fs::remove_dir(&self.dir) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// What we may do with a group below which we work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    /// The top of the hierarchy, and we sit in it: it may hold processes and children.
    Whole,
    /// It was given to us, with the rule that processes sit in leaves only.
    Delegated,
    /// We may make a child, as any program with the machine's root may, and change nothing.
    Nothing,
}

/// Directories below which we may work, best first.
fn candidates(root: &Path, own: &Path) -> Vec<(PathBuf, Ours)> {
    // A launcher that is started again sits where the server stepped aside to.
    let own = match own.file_name() {
        Some(name) if name == LEAF => own.parent().unwrap_or(own),
        _ => own,
    };
    let mut found = Vec::new();
    if own == root {
        found.push((own.to_path_buf(), Ours::Whole));
    } else if delegated(own) {
        found.push((own.to_path_buf(), Ours::Delegated));
    }
    if own != root && rustix::process::geteuid().is_root() {
        found.push((root.to_path_buf(), Ours::Nothing));
    }
    found
}

fn delegated(dir: &Path) -> bool {
    let euid = rustix::process::geteuid();
    let marked = |name: &str| {
        let mut value = [0; 8];
        rustix::fs::getxattr(dir, name, &mut value).is_ok_and(|length| &value[..length] == b"1")
    };
    let owned = fs::metadata(dir).is_ok_and(|metadata| metadata.uid() == euid.as_raw());
    (owned && !euid.is_root()) || marked("user.delegate") || marked("trusted.delegate")
}

/// Moves every process of a delegated group into a leaf, so that controllers can be passed down.
fn step_aside(dir: &Path) -> io::Result<()> {
    let leaf = dir.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for pid in words(&dir.join("cgroup.procs"))? {
        // A process that has just ended cannot be moved and need not be.
        let _ = fs::write(leaf.join("cgroup.procs"), pid);
    }
    Ok(())
}

/// Makes controllers available below `dir`. Those that are already are left alone.
fn pass_down(dir: &Path, wanted: &[&str]) -> io::Result<()> {
    let file = dir.join("cgroup.subtree_control");
    let passed = words(&file)?;
    for controller in wanted.iter().filter(|wanted| !passed.iter().any(|p| p == *wanted)) {
        fs::write(&file, format!("+{controller}"))?;
    }
    Ok(())
}

fn words(file: &Path) -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(file)?.split_whitespace().map(str::to_owned).collect())
}

fn set(dir: &Path, file: &str, value: &str) -> Result<(), Failure> {
    fs::write(dir.join(file), value).doing(&format!("setting {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like a group; the kernel's part is played by plain files.
    fn group(name: &str, controllers: &str, passed: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("v2-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cgroup.controllers"), controllers).unwrap();
        fs::write(dir.join("cgroup.subtree_control"), passed).unwrap();
        fs::write(dir.join("cgroup.procs"), "1\n").unwrap();
        dir
    }

    fn bounds() -> Bounds {
        Bounds { memory_bytes: 1 << 20, pids: 8, cpu_millis: 500, tmp_bytes: 0 }
    }

    #[test]
    fn bounds_are_written_as_the_kernel_wants_them() {
        let dir = group("bounds", "cpu memory pids", "cpu memory pids");
        fs::create_dir(dir.join("7")).unwrap();
        for file in ["memory.max", "memory.swap.max", "pids.max", "cpu.max"] {
            fs::write(dir.join("7").join(file), "max").unwrap();
        }
        let parent = Parent { dir: dir.clone(), controllers: CONTROLLERS.to_vec(), kills: true };
        let group = parent.fill(dir.join("7"), &bounds()).unwrap();
        let read = |file: &str| fs::read_to_string(dir.join("7").join(file)).unwrap();
        assert_eq!(read("memory.max"), "1048576");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("pids.max"), "10");
        assert_eq!(read("cpu.max"), "50000 100000");
        for (file, text) in [
            ("memory.current", "4096\n"),
            ("memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n"),
            ("pids.events", "max 5\n"),
            ("cpu.stat", "usage_usec 77\nuser_usec 70\n"),
        ] {
            fs::write(dir.join("7").join(file), text).unwrap();
        }
        let figures = group.figures();
        assert_eq!(figures.memory, Some(4096));
        assert_eq!(figures.oom_kills, Some(1));
        assert_eq!(figures.pids_refused, Some(5));
        assert_eq!(figures.cpu_us, Some(77));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_not_ours_is_not_changed() {
        let dir = group("foreign", "cpu memory pids", "memory");
        let parent = Parent::below(&dir, &Ours::Nothing, "stockade-1");
        // The new group has no files of the kernel's here, so passing down fails at its end.
        assert!(parent.is_err());
        assert_eq!(fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap(), "memory");
        assert!(!dir.join(LEAF).exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_server_that_stepped_aside_is_recognised() {
        let root = Path::new("/sys/fs/cgroup");
        let whole = vec![(root.to_path_buf(), Ours::Whole)];
        assert_eq!(candidates(root, root), whole);
        assert_eq!(candidates(root, &root.join(LEAF)), whole);
    }
}
