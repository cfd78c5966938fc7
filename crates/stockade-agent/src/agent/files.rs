//! Program files: only ever below `/tmp/run`, gone when their run is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

const ROOT: &str = "/tmp/run";

/// The run's own directory that a program file lies in. `None` for a path elsewhere.
pub(super) fn dir_of(path: &[u8]) -> Option<PathBuf> {
    let below = Path::new(OsStr::from_bytes(path)).strip_prefix(ROOT).ok()?;
    let mut parts = below.components();
    match (parts.next()?, parts.next()?) {
        (Component::Normal(dir), Component::Normal(_)) => Some(Path::new(ROOT).join(dir)),
        _ => None,
    }
}

/// Removes run directories with all that the run put there. Links are not followed.
pub(super) fn remove(dirs: &[PathBuf]) {
    for dir in dirs {
        // Best effort: what stays lies in the sandbox's own /tmp and goes with it.
        let _ = std::fs::remove_dir_all(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_below_the_root_are_ever_removed() {
        assert_eq!(dir_of(b"/tmp/run/r1/main.py"), Some(PathBuf::from("/tmp/run/r1")));
        assert_eq!(dir_of(b"/tmp/run/r1/sub/main.py"), Some(PathBuf::from("/tmp/run/r1")));
        for elsewhere in ["/tmp/run/main.py", "/tmp/run", "/tmp/run/../x/y", "/etc/a/b", "x/y"] {
            assert_eq!(dir_of(elsewhere.as_bytes()), None, "{elsewhere}");
        }
    }
}
