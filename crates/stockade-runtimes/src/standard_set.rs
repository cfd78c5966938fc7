//! The standard package set: what is in it, and under which name it is kept.
//!
//! A set lies in a directory whose name holds the hash of everything that
//! decides its content. So a set is never changed, only made beside the old
//! one, and a sandbox that still uses the old one is not disturbed. Old sets
//! stay until the operator removes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Written last into a set; a directory without it is not a set.
pub(crate) const MARKER: &str = "stockade-set.json";
/// The interpreter of the Python set, on the machine and inside alike.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// What is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) python: Vec<String>,
    pub(crate) javascript: BTreeMap<String, String>,
    pub(crate) javascript_tools: BTreeMap<String, String>,
}

/// What a set holds, as its marker says.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Marker {
    /// `name version`, in the order of the package list.
    pub(crate) packages: Vec<String>,
}

impl Wanted {
    pub(crate) fn load() -> anyhow::Result<Self> {
        toml::from_str(include_str!("packages.toml")).context("reading the built-in package list")
    }

    /// Where the Python set lies. `None` without a Python on the machine.
    pub(crate) fn python_dir(&self, data_dir: &Path) -> Option<PathBuf> {
        // The minor version (python3.11) is what binary packages are bound to.
        let interpreter = std::fs::read_link(PYTHON)
            .ok()
            .or_else(|| Path::new(PYTHON).exists().then(|| PathBuf::from("python3")))?;
        let key = hash(
            [interpreter.as_os_str().as_encoded_bytes()]
                .into_iter()
                .chain(self.python.iter().map(String::as_bytes)),
        );
        Some(packages_dir(data_dir).join(format!("python-{key}")))
    }

    /// Where the JavaScript set lies.
    pub(crate) fn javascript_dir(&self, data_dir: &Path) -> PathBuf {
        let lists = self.javascript.iter().chain(&self.javascript_tools);
        let key = hash(lists.flat_map(|(name, range)| [name.as_bytes(), range.as_bytes()]));
        packages_dir(data_dir).join(format!("js-{key}"))
    }
}

/// Where sets are kept.
pub(crate) fn packages_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("packages")
}

/// The marker of a set; `None` when the set is not (completely) there.
pub(crate) fn marker(set: &Path) -> Option<Marker> {
    serde_json::from_slice(&std::fs::read(set.join(MARKER)).ok()?).ok()
}

/// A short name for content: the same parts always give the same name.
pub(crate) fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    hasher.update(std::env::consts::ARCH);
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_what_is_promised() {
        let wanted = Wanted::load().unwrap();
        let python = wanted.python.join(" ");
        for name in ["requests", "numpy", "pandas", "matplotlib", "scipy", "pillow", "openpyxl"] {
            assert!(python.contains(name), "{name}");
        }
        assert!(python.contains("psycopg[binary]") && python.contains("ipython"));
        let javascript: Vec<_> = wanted.javascript.keys().map(String::as_str).collect();
        assert_eq!(
            javascript,
            ["csv-parser", "papaparse", "pg", "postgres", "react", "typescript"]
        );
    }

    #[test]
    fn a_set_has_another_name_when_its_list_changes() {
        let mut wanted = Wanted::load().unwrap();
        let before = wanted.javascript_dir(Path::new("/d"));
        wanted.javascript.insert("pg".to_owned(), "^9".to_owned());
        assert_ne!(before, wanted.javascript_dir(Path::new("/d")));
        assert_ne!(hash([b"ab".as_slice(), b"c"]), hash([b"a".as_slice(), b"bc"]));
    }
}
