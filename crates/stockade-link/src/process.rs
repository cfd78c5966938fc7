//! How callers act on one process: requests to the agent, with credit for standard input.

use async_trait::async_trait;
use bytes::Bytes;
use serde_bytes::ByteBuf;
use stockade_agent::wire::{OUTPUT_CHUNK, Request, STDIN_WINDOW, Tag};
use stockade_core::backend::{Control, EndCause};
use stockade_core::{Error, Result};
use tokio::sync::{mpsc, watch};

use crate::convert;

/// Acts on one process. Dropping the last one tells the agent that nobody listens.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) tag: Tag,
    pub(crate) requests: mpsc::Sender<Request>,
    /// Bytes of standard input that the agent has taken; closed when the run is over.
    pub(crate) taken: watch::Receiver<u64>,
    /// Bytes fed so far.
    pub(crate) fed: tokio::sync::Mutex<u64>,
}

impl Remote {
    async fn send(&self, request: Request) -> Result<()> {
        let gone = |_| Error::conflict("run", "over: its sandbox is gone");
        self.requests.send(request).await.map_err(gone)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Best effort: an agent that is too busy to hear it keeps one finished run longer.
        let _ = self.requests.try_send(Request::Forget { tag: self.tag });
    }
}

#[async_trait]
impl Control for Remote {
    async fn write_stdin(&self, bytes: Bytes) -> Result<()> {
        // Held over the wait, so that two writers do not mix their bytes.
        let mut fed = self.fed.lock().await;
        let mut taken = self.taken.clone();
        for piece in bytes.chunks(OUTPUT_CHUNK) {
            let before = *fed;
            let window = STDIN_WINDOW as u64;
            let credit = |taken: &u64| before - (*taken).min(before) < window;
            if taken.wait_for(credit).await.is_err() {
                return Err(Error::conflict("run", "over: its standard input is closed"));
            }
            *fed += piece.len() as u64;
            self.send(Request::Stdin { tag: self.tag, bytes: ByteBuf::from(piece) }).await?;
        }
        Ok(())
    }

    async fn close_stdin(&self) -> Result<()> {
        let _order = self.fed.lock().await;
        self.send(Request::CloseStdin { tag: self.tag }).await
    }

    async fn signal(&self, signal: u8) -> Result<()> {
        self.send(Request::Signal { tag: self.tag, signal }).await
    }

    async fn kill(&self, cause: EndCause) -> Result<()> {
        let cause = convert::cause_to_wire(cause);
        self.send(Request::Kill { tag: self.tag, cause }).await
    }
}
