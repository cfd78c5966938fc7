//! The data directory: where it is, that nobody else can write it, and the server's lock.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;

/// Where data is kept unless something else is said: `/var/lib/stockade` for root,
/// below the home directory for everybody else.
pub fn default(home: Option<PathBuf>, data_home: Option<PathBuf>) -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/var/lib/stockade");
    }
    let data_home = data_home.filter(|dir| dir.is_absolute());
    match data_home.or_else(|| home.map(|home| home.join(".local/share"))) {
        Some(base) => base.join("stockade"),
        None => PathBuf::from("/tmp").join(format!("stockade-{}", user.as_raw())),
    }
}

/// Makes the directory when it is missing; refuses one that others could write.
pub fn open(dir: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("making the data directory {}", dir.display()))?;
    let metadata = fs::symlink_metadata(dir)?;
    let path = dir.display();
    if !metadata.is_dir() {
        bail!("the data directory {path} is no directory (links are not followed here)");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let owner = metadata.uid();
        bail!("the data directory {path} belongs to user {owner}; use another with --data-dir");
    }
    if metadata.mode() & 0o022 != 0 {
        bail!("others can write the data directory {path}; mend it with: chmod 700 {path}");
    }
    Ok(())
}

/// Held by the one server of a data directory. Command line and stdio need none.
#[derive(Debug)]
pub struct ServerLock {
    /// The open file is the lock.
    _file: File,
}

/// Takes the server's lock, or says who has it.
pub fn lock_for_server(dir: &Path) -> Result<ServerLock> {
    let path = dir.join("server.lock");
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).with_context(|| format!("opening {}", path.display()))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        // Only for the message; an unreadable number leaves it out.
        let _ = file.read_to_string(&mut holder);
        bail!(
            "a server (process {}) already uses {}; stop it, or give this one another --data-dir",
            holder.trim(),
            dir.display()
        );
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(ServerLock { _file: file })
}
