//! What a launcher leaves behind if it is killed, written down before it exists.
//!
//! Mounts, namespaces and processes go with their last holder. Directories of
//! resource groups do not: each launcher holds a locked file that names them.
//! A file that can be locked belongs to a dead launcher, and the next one
//! sweeps what it names. The file's number also picks the range of user ids,
//! so that launchers alive at once never share one.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::failure::{Doing, refuse};
use super::limiter;
use super::protocol::Failure;

/// Launchers alive at once over one state directory.
const MOST: u32 = 64;
const SWEEP_TIME: Duration = Duration::from_secs(2);
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// This launcher's own file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Which of the files it is.
    pub(crate) number: u32,
}

impl Journal {
    /// Takes a free file and sweeps after every dead launcher.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(dir).doing("making the journal's directory")?;
        let gate = File::create(dir.join("lock")).doing("opening the journal's lock")?;
        // Taking and sweeping must not interleave with another launcher's.
        flock(&gate, FlockOperation::LockExclusive).doing("locking the journal")?;
        let mut own = None;
        for number in 0..MOST {
            let path = dir.join(format!("launcher-{number}"));
            if own.is_some() && !path.exists() {
                continue;
            }
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .doing("opening a journal")?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let swept = sweep_named(&mut file);
            if own.is_none() && swept {
                file.set_len(0).doing("emptying a journal")?;
                own = Some(Self { path, file, number });
            } else if swept {
                let _ = fs::remove_file(&path);
            }
        }
        own.map_or_else(|| refuse("too many launchers share one state directory"), Ok)
    }

    /// Writes down directories that will hold groups.
    pub(crate) fn note(&mut self, directories: &[PathBuf]) -> Result<(), Failure> {
        self.file.rewind().doing("writing the journal")?;
        for dir in directories {
            let mut line = dir.as_os_str().as_bytes().to_vec();
            line.push(b'\n');
            self.file.write_all(&line).doing("writing the journal")?;
        }
        Ok(())
    }

    /// Nothing is left to sweep.
    pub(crate) fn close(self) {
        let _ = fs::remove_file(self.path);
    }
}

/// Removes what a dead launcher's file names. False while something is left.
fn sweep_named(file: &mut File) -> bool {
    let mut named = Vec::new();
    if file.read_to_end(&mut named).is_err() {
        return false;
    }
    let dirs: Vec<PathBuf> = named
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| std::ffi::OsString::from_vec(line.to_vec()).into())
        .collect();
    let since = Instant::now();
    loop {
        let left = dirs.iter().filter(|dir| !limiter::sweep(dir)).count();
        if left == 0 || since.elapsed() > SWEEP_TIME {
            return left == 0;
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn the_dead_are_swept_and_the_living_are_not() {
        let dir = scratch("journal");
        let leave = |name: &str| {
            let group = dir.join(name);
            fs::create_dir_all(group.join("7")).unwrap();
            group
        };
        let (of_dead, of_living) = (leave("dead"), leave("living"));
        let mut dead = Journal::open(&dir.join("j")).unwrap();
        let mut living = Journal::open(&dir.join("j")).unwrap();
        assert_ne!(dead.number, living.number);
        dead.note(std::slice::from_ref(&of_dead)).unwrap();
        living.note(std::slice::from_ref(&of_living)).unwrap();
        let number = dead.number;
        drop(dead);

        let next = Journal::open(&dir.join("j")).unwrap();
        assert_eq!(next.number, number, "a free number is used again");
        assert!(!of_dead.exists());
        assert!(of_living.join("7").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
