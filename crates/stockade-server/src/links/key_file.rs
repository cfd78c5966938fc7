//! The key that links are signed with: 32 random bytes in `link.key`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::auth::random;

/// The key. Never shown.
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Reads the key of a data directory, made when it is not there.
pub(super) fn open(data_dir: &Path) -> anyhow::Result<Key> {
    let path = data_dir.join("link.key");
    let shown = path.display();
    match File::open(&path) {
        Ok(file) => return read(&file, &path),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e).with_context(|| format!("opening {shown}")),
    }
    make(data_dir, &path).with_context(|| format!("making {shown}"))?;
    read(&File::open(&path).with_context(|| format!("opening {shown}"))?, &path)
}

fn read(mut file: &File, path: &Path) -> anyhow::Result<Key> {
    let shown = path.display();
    if file.metadata().with_context(|| format!("looking at {shown}"))?.mode() & 0o077 != 0 {
        bail!(
            "others can read {shown} and make download links with it; \
             remove it to end all links, or, if nobody did: chmod 600 {shown}"
        );
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("reading {shown}"))?;
    match bytes.try_into() {
        Ok(key) => Ok(Key(key)),
        Err(_) => bail!("{shown} is not 32 bytes long; remove it: that ends all download links"),
    }
}

/// Writes the key under another name and links it to its own, so that it is
/// there whole or not at all, and the first of two processes wins.
fn make(data_dir: &Path, path: &Path) -> anyhow::Result<()> {
    let draft = data_dir.join(format!("link.key.{:016x}", u64::from_be_bytes(random()?)));
    let made = write(&draft).and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => Ok(other?),
    });
    let removed = std::fs::remove_file(&draft);
    made?;
    removed?;
    File::open(data_dir)?.sync_all()?;
    Ok(())
}

fn write(draft: &Path) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(&random::<32>()?)?;
    file.sync_all()?;
    Ok(())
}
