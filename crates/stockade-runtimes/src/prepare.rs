//! Installs the standard package set, through the ordinary clients.
//!
//! Each step makes one directory, whole or not at all, and is skipped when it
//! is there. A step that fails becomes a problem; the others go on. Versions of
//! the set that are no longer used stay, since a sandbox may have them mounted.

mod javascript;
mod python;
mod system;

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};

use crate::installed::{GO_CACHE, JS_SET, PYTHON_SET, Prepared, Problem, installed};
use crate::set_dir::UNFINISHED;
use crate::standard_set::{Wanted, marker, packages_dir};
use crate::{go_cache, standard_set};

/// Whether packages of the system may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SystemPackages {
    /// With apt-get, as root, and only what is missing.
    Install,
    /// Never; what is missing is reported.
    #[default]
    Leave,
}

/// What `prepare` may do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether packages of the system may be installed.
    pub system_packages: SystemPackages,
}

/// Something `prepare` is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The step, for people.
    pub step: &'static str,
    /// What it is doing.
    pub detail: String,
    /// Time since the step began.
    pub elapsed: Duration,
}

/// A step that is under way, and who hears about it.
pub(crate) struct Step<'a> {
    name: &'static str,
    started: Instant,
    progress: &'a dyn Fn(Progress),
}

impl Step<'_> {
    pub(crate) fn say(&self, detail: impl Into<String>) {
        let elapsed = self.started.elapsed();
        (self.progress)(Progress { step: self.name, detail: detail.into(), elapsed });
    }
}

/// Installs what is missing and gives what is there afterwards. Instant and
/// offline when nothing is missing. Fails only when the data directory cannot
/// be used; everything else is a problem in the answer.
pub fn prepare(
    data_dir: &Path,
    options: Options,
    progress: &dyn Fn(Progress),
) -> anyhow::Result<Prepared> {
    let wanted = Wanted::load()?;
    let packages = packages_dir(data_dir);
    fs::create_dir_all(&packages).with_context(|| format!("making {}", packages.display()))?;
    let _lock = lock(&packages, progress)?;
    remove_unfinished(&packages)?;

    let mut failed = Vec::new();
    let mut step = |name, work: &dyn Fn(&Step<'_>) -> anyhow::Result<()>, remedy: &str| {
        let step = Step { name, started: Instant::now(), progress };
        if let Err(error) = work(&step) {
            step.say(format!("failed: {error:#}"));
            let cause = format!("{error:#}");
            failed.push(Problem { what: name.to_owned(), cause, remedy: remedy.to_owned() });
        }
    };
    let missing = system::missing(&wanted, data_dir);
    if !missing.is_empty() {
        let work = |step: &Step<'_>| system::install(&missing, options.system_packages, step);
        step(system::NAME, &work, &system::command(&missing));
    }
    step(PYTHON_SET, &|step| python(&wanted, data_dir, step), AGAIN);
    step(JS_SET, &|step| javascript(&wanted, data_dir, step), AGAIN);
    step(GO_CACHE, &|step| go(data_dir, step), AGAIN);

    let mut prepared = installed(data_dir);
    let known = |problem: &Problem| failed.iter().any(|failure| failure.what == problem.what);
    prepared.problems.retain(|problem| !known(problem));
    prepared.problems.extend(failed);
    Ok(prepared)
}

const AGAIN: &str = "mend the cause, then: stockade up";

fn python(wanted: &Wanted, data_dir: &Path, step: &Step<'_>) -> anyhow::Result<()> {
    let dir = wanted.python_dir(data_dir);
    let dir = dir.with_context(|| format!("there is no {}", standard_set::PYTHON))?;
    match marker(&dir) {
        Some(_) => step.say("ready"),
        None => python::install(&wanted.python, &dir, step)?,
    }
    Ok(())
}

fn javascript(wanted: &Wanted, data_dir: &Path, step: &Step<'_>) -> anyhow::Result<()> {
    let dir = wanted.javascript_dir(data_dir);
    match marker(&dir) {
        Some(_) => step.say("ready"),
        None => javascript::install(wanted, &dir, step)?,
    }
    Ok(())
}

fn go(data_dir: &Path, step: &Step<'_>) -> anyhow::Result<()> {
    let Some(dir) = go_cache::dir(data_dir) else { return Ok(()) };
    if marker(&dir).is_none() {
        step.say("compiling the standard library");
        go_cache::build(&dir)?;
    }
    step.say("ready");
    Ok(())
}

/// One `prepare` at a time per data directory; the lock goes with the process.
fn lock(packages: &Path, progress: &dyn Fn(Progress)) -> anyhow::Result<File> {
    let path = packages.join("lock");
    let file = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let step = Step { name: "lock", started: Instant::now(), progress };
        step.say("waiting for another `stockade up` on this data directory");
        flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("locking {}", path.display()))?;
    }
    Ok(file)
}

/// Only the holder of the lock may know that nobody works in these.
fn remove_unfinished(packages: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(packages)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_second_prepare_waits_for_the_first_and_says_so() {
        let data = tempfile::tempdir().unwrap();
        let first = lock(data.path(), &|_| {}).unwrap();
        let (say, hear) = mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let lock = lock(data.path(), &|at| say.send(at.detail).unwrap());
                lock.map(|_| Instant::now())
            });
            let said = hear.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(said.contains("waiting for another"), "{said}");
            let released = Instant::now();
            drop(first);
            assert!(second.join().unwrap().unwrap() >= released);
        });
    }

    #[test]
    fn what_a_crash_left_is_removed_and_nothing_else() {
        let packages = tempfile::tempdir().unwrap();
        let half = packages.path().join(format!("{UNFINISHED}x/deep"));
        let whole = packages.path().join("python-1");
        for dir in [&half, &whole] {
            fs::create_dir_all(dir).unwrap();
        }
        remove_unfinished(packages.path()).unwrap();
        assert!(!half.exists() && whole.exists());
    }

    #[test]
    fn a_data_directory_that_cannot_be_used_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = prepare(file.path(), Options::default(), &|_| {}).unwrap_err();
        assert!(format!("{error:#}").contains("making"), "{error:#}");
    }
}
