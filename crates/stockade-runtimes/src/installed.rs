//! What is ready on this machine at this moment. Installs nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::standard_set::{Wanted, marker};
use crate::{base_env, drivers, go_cache, host_tools, inside};

/// What sandboxes get from this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Directory on the machine -> absolute path inside, read-only.
    pub mounts: BTreeMap<PathBuf, PathBuf>,
    /// Packages that are ready, by runtime id, as `name version`.
    pub packages: BTreeMap<String, Vec<String>>,
    /// Changes to `base_env` that the mounts call for.
    pub env: BTreeMap<String, String>,
    /// What is not as it should be. The rest works nevertheless.
    pub problems: Vec<Problem>,
}

/// Something that is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is missing.
    pub what: String,
    /// Why.
    pub cause: String,
    /// The next step; a command where there is one.
    pub remedy: String,
}

pub(crate) const DRIVERS: &str = "runtime drivers";
pub(crate) const PYTHON_SET: &str = "Python packages";
pub(crate) const JS_SET: &str = "JavaScript packages";
pub(crate) const GO_CACHE: &str = "Go build cache";

/// What is there now, without installing anything but the drivers, which are
/// part of this program.
pub fn installed(data_dir: &Path) -> Prepared {
    let mut prepared = Prepared::default();
    match drivers::ensure(data_dir) {
        Ok(dir) => prepared.mount(dir, inside::DRIVERS),
        Err(error) => prepared.problem(
            DRIVERS,
            &format!("{error:#}"),
            &format!("make {} writable for this user", data_dir.display()),
        ),
    }
    match Wanted::load() {
        Ok(wanted) => prepared.add_sets(&wanted, data_dir),
        Err(error) => prepared.problem(PYTHON_SET, &format!("{error:#}"), "report this as a bug"),
    }
    prepared.add_go_cache(data_dir);
    let toolchains = host_tools::toolchains();
    if !toolchains.is_empty() {
        prepared.env.insert("PATH".to_owned(), path_with(toolchains.values()));
        prepared.mounts.extend(toolchains);
    }
    prepared
}

fn path_with<'a>(toolchains: impl Iterator<Item = &'a PathBuf>) -> String {
    let base = base_env().remove("PATH").unwrap_or_default();
    toolchains.fold(base, |path, root| format!("{path}:{}/bin", root.display()))
}

impl Prepared {
    fn add_sets(&mut self, wanted: &Wanted, data_dir: &Path) {
        match wanted.python_dir(data_dir).and_then(|dir| Some((marker(&dir)?, dir))) {
            Some((marker, dir)) => {
                self.mount(dir, inside::PYTHON);
                self.packages.insert("python".to_owned(), marker.packages);
            }
            None => self.not_installed(PYTHON_SET),
        }
        let dir = wanted.javascript_dir(data_dir);
        match marker(&dir) {
            Some(marker) => {
                self.mount(dir.join("node_modules"), inside::NODE_MODULES);
                self.mount(dir, inside::JS);
                for runtime in ["typescript", "javascript"] {
                    self.packages.insert(runtime.to_owned(), marker.packages.clone());
                }
            }
            None => self.not_installed(JS_SET),
        }
    }

    fn add_go_cache(&mut self, data_dir: &Path) {
        match go_cache::dir(data_dir) {
            Some(dir) if marker(&dir).is_some() => self.mount(dir, inside::GO_CACHE),
            Some(_) => self.not_installed(GO_CACHE),
            None => {}
        }
    }

    fn mount(&mut self, dir: PathBuf, inside: &str) {
        self.mounts.insert(dir, PathBuf::from(inside));
    }

    fn not_installed(&mut self, what: &str) {
        self.problem(what, "not installed yet", "stockade up");
    }

    fn problem(&mut self, what: &str, cause: &str, remedy: &str) {
        self.problems.push(Problem {
            what: what.to_owned(),
            cause: cause.to_owned(),
            remedy: remedy.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_data_directory_gives_drivers_and_the_next_step() {
        let data = tempfile::tempdir().unwrap();
        let prepared = installed(data.path());
        let drivers = prepared.mounts.iter().find(|(_, to)| to.as_os_str() == inside::DRIVERS);
        assert!(drivers.is_some_and(|(from, _)| from.join("python_driver.py").is_file()));
        let python = prepared.problems.iter().find(|problem| problem.what == PYTHON_SET).unwrap();
        assert_eq!(python.remedy, "stockade up");
        assert!(prepared.packages.is_empty());
    }

    #[test]
    fn everything_appears_in_places_of_our_own() {
        let data = tempfile::tempdir().unwrap();
        for to in installed(data.path()).mounts.into_values() {
            assert!(to.starts_with("/opt/stockade") || to.starts_with(inside::NODE_MODULES));
        }
    }

    #[test]
    fn no_home_directory_is_ever_mounted() {
        let data = tempfile::tempdir().unwrap();
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for from in installed(data.path()).mounts.into_keys() {
            assert!(!home.starts_with(&from), "{} holds the home directory", from.display());
        }
    }

    #[test]
    fn toolchains_come_last_in_path() {
        let path = path_with([PathBuf::from("/opt/stockade/rust")].iter());
        assert!(path.ends_with(":/opt/stockade/rust/bin") && path.contains(":/usr/bin:"), "{path}");
    }
}
