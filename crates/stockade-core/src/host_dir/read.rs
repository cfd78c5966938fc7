//! Reading regular files.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::fault::io_fault;
use super::{HostDir, open_regular, size_of};
use crate::error::Result;
use crate::path::RelPath;

/// A regular file that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The file, at the wanted position.
    pub(crate) file: File,
    /// Its size when it was opened.
    pub(crate) size: u64,
    /// Last change of the content, seconds since 1970.
    pub(crate) modified: i64,
}

impl HostDir {
    /// Opens a regular file, at an offset.
    pub(crate) fn open_file(&self, path: &RelPath, offset: u64) -> Result<OpenFile> {
        let (mut file, stat) = open_regular(self.fd(), path, OFlags::RDONLY)?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))
                .map_err(|e| io_fault("seeking in a file", path, e))?;
        }
        Ok(OpenFile { file, size: size_of(&stat), modified: stat.st_mtime })
    }

    /// Reads at most `limit` bytes from `offset` on. Gives them with the size of the file.
    pub(crate) fn read(&self, path: &RelPath, offset: u64, limit: u64) -> Result<(Vec<u8>, u64)> {
        let open = self.open_file(path, 0)?;
        let wanted = open.size.saturating_sub(offset).min(limit);
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = offset + u64::try_from(filled).unwrap_or(u64::MAX);
            match open.file.read_at(&mut bytes[filled..], at) {
                // It became shorter since it was opened.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_fault("reading a file", path, e)),
            }
        }
        bytes.truncate(filled);
        Ok((bytes, open.size))
    }
}
