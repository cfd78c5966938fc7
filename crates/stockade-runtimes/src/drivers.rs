//! The small programs that run a language, as files on the machine.
//!
//! They are part of this binary and are written below the data directory,
//! where sandboxes have them mounted read-only.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::set_dir::SetDir;
use crate::standard_set;

const FILES: &[(&str, &str)] = &[
    ("python_driver.py", include_str!("drivers/python_driver.py")),
    ("python_hooks.py", include_str!("drivers/python_hooks.py")),
    ("js_driver.sh", include_str!("drivers/js_driver.sh")),
    ("bun_preload.js", include_str!("drivers/bun_preload.js")),
    ("node_driver.mjs", include_str!("drivers/node_driver.mjs")),
    ("php_driver.sh", include_str!("drivers/php_driver.sh")),
    ("r_driver.sh", include_str!("drivers/r_driver.sh")),
    ("go_build.sh", include_str!("drivers/go_build.sh")),
];

/// Writes the drivers if these very ones are not there yet; gives their directory.
pub(crate) fn ensure(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let parts = FILES.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
    let dir = data_dir.join(format!("drivers-{}", standard_set::hash(parts)));
    if standard_set::marker(&dir).is_some() {
        return Ok(dir);
    }
    let set = SetDir::begin(&dir)?;
    for (name, text) in FILES {
        let path = set.path().join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    set.finish(Vec::new())?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_written_once_and_completely() {
        let data = tempfile::tempdir().unwrap();
        let dir = ensure(data.path()).unwrap();
        assert_eq!(ensure(data.path()).unwrap(), dir);
        for (name, text) in FILES {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), *text);
        }
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
    }
}
