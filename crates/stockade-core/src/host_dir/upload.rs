//! A file that arrives as a stream: it is there at the end, whole, or not at all.

use std::ops::ControlFlow;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::fault::{io_fault, not_ours};
use super::write::Draft;
use super::{HostDir, Replacing, WalkLimits, size_of};
use crate::error::{Error, Result};
use crate::path::RelPath;

/// Bytes taken from the stream at once.
const PIECE: usize = 256 << 10;
/// Names looked at to add up what a workspace holds.
const LOOKED_AT: usize = 200_000;

/// A file on its way. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Upload {
    draft: Draft,
    path: RelPath,
}

impl HostDir {
    /// Begins a file. Parents are made.
    pub(crate) fn upload(&self, path: &RelPath) -> Result<Upload> {
        not_ours(path)?;
        Ok(Upload { draft: self.draft(path)?, path: path.clone() })
    }

    /// Bytes that regular files take up here.
    pub(crate) fn bytes_held(&self) -> Result<u64> {
        let mut held: u64 = 0;
        let limits = WalkLimits { depth: u32::MAX, names: LOOKED_AT };
        self.walk(&RelPath::root(), limits, &mut |step| {
            if FileType::from_raw_mode(step.stat.st_mode) == FileType::RegularFile {
                held = held.saturating_add(size_of(&step.stat));
            }
            ControlFlow::Continue(true)
        })?;
        Ok(held)
    }
}

impl Upload {
    /// Takes the whole stream, at most `most` bytes, and gives the file its name.
    /// Gives its size.
    pub(crate) async fn receive(
        self,
        mut content: impl AsyncRead + Unpin + Send,
        most: u64,
    ) -> Result<u64> {
        let wrong = |e| io_fault("receiving a file", &self.path, e);
        let clone = self.draft.file.try_clone().map_err(wrong)?;
        let mut file = tokio::fs::File::from_std(clone);
        let mut piece = vec![0; PIECE];
        let mut size: u64 = 0;
        loop {
            let count = content.read(&mut piece).await.map_err(|e| broken_stream(&e))?;
            if count == 0 {
                break;
            }
            size += u64::try_from(count).unwrap_or(u64::MAX);
            if size > most {
                return Err(quota());
            }
            file.write_all(&piece[..count]).await.map_err(wrong)?;
        }
        file.flush().await.map_err(wrong)?;
        let draft = self.draft;
        let committed = tokio::task::spawn_blocking(move || draft.commit(Replacing::Allowed));
        committed.await.map_err(|e| Error::backend("files", "finishing an upload", e))??;
        Ok(size)
    }
}

/// The answer when a workspace holds as much as it may.
pub(crate) fn quota() -> Error {
    Error::Exhausted { what: "workspace quota", retry_after_s: 60 }
}

fn broken_stream(error: &std::io::Error) -> Error {
    Error::invalid("content", format!("the stream broke off: {error}; send the file again"))
}
