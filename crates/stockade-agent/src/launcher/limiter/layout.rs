//! Where this process sits in the hierarchies of resource groups.

use std::fs;
use std::path::{Path, PathBuf};

/// One hierarchy of cgroup v1.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    controllers: Vec<String>,
    own: PathBuf,
}

/// All hierarchies, with this process's own directory in each.
#[derive(Debug, Default)]
pub(super) struct Layout {
    v1: Vec<Hierarchy>,
    v2: Option<(PathBuf, PathBuf)>,
}

impl Layout {
    pub(super) fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"))
    }

    fn parse(mounts: &str, groups: &str) -> Self {
        let mut layout = Self::default();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if controllers.is_empty() {
                layout.v2 = directory(mounts, None, path);
                continue;
            }
            let controllers: Vec<_> = controllers.split(',').map(str::to_owned).collect();
            let Some(first) = controllers.first() else { continue };
            if let Some((_, own)) = directory(mounts, Some(first), path) {
                layout.v1.push(Hierarchy { controllers, own });
            }
        }
        layout
    }

    /// This process's directory in the v1 hierarchy of a controller.
    pub(super) fn v1(&self, controller: &str) -> Option<&Path> {
        let has = |hierarchy: &&Hierarchy| hierarchy.controllers.iter().any(|c| c == controller);
        self.v1.iter().find(has).map(|hierarchy| hierarchy.own.as_path())
    }

    /// The root of the v2 hierarchy and this process's directory in it.
    pub(super) fn v2(&self) -> Option<(&Path, &Path)> {
        self.v2.as_ref().map(|(root, own)| (root.as_path(), own.as_path()))
    }
}

/// Mount point, and the directory of `path` below it, of the hierarchy with this
/// controller (`None`: of v2).
fn directory(mounts: &str, controller: Option<&str>, path: &str) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let wanted = match controller {
            None => kind == "cgroup2",
            Some(controller) => kind == "cgroup" && options.split(',').any(|o| o == controller),
        };
        if !wanted {
            return None;
        }
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, PathBuf::from(left.next()?));
        // In a container, the mount may show a subtree of the hierarchy only.
        let below = Path::new(path).strip_prefix(root).ok()?;
        let own = if below.as_os_str().is_empty() { point.clone() } else { point.join(below) };
        Some((point, own))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn every_hierarchy_has_its_own_directory() {
        let layout = Layout::parse(HYBRID, "4:memory:/a/b\n1:cpu:/\n3:pids:/\n0::/\n");
        assert_eq!(layout.v1("memory"), Some(Path::new("/sys/fs/cgroup/memory/a/b")));
        assert_eq!(layout.v1("cpu"), Some(Path::new("/sys/fs/cgroup/cpu")));
        assert_eq!(layout.v1("pids"), None, "named, but not mounted");
        let unified = Path::new("/sys/fs/cgroup/unified");
        assert_eq!(layout.v2(), Some((unified, unified)));
    }

    #[test]
    fn a_container_sees_a_subtree() {
        let mounts = "9 8 0:9 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
        let layout = Layout::parse(mounts, "0::/docker/x/y\n");
        let expected = (Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup/y"));
        assert_eq!(layout.v2(), Some(expected));
    }
}
