//! Events from the agent, read by one task and handed to the processes they are about.

use stockade_agent::wire::{self, Event, MAX_EVENT};
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;

/// Reads whole events off the stream.
#[derive(Debug)]
pub(crate) struct Events {
    socket: OwnedReadHalf,
    bytes: Vec<u8>,
    /// Bytes at the front that have been taken.
    taken: usize,
}

impl Events {
    pub(crate) fn new(socket: OwnedReadHalf) -> Self {
        Self { socket, bytes: Vec::with_capacity(MAX_EVENT), taken: 0 }
    }

    /// The next event. `None` when the agent is gone or breaks the protocol.
    /// Safe to drop half-way: nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            match wire::decode(&self.bytes[self.taken..], MAX_EVENT) {
                Ok(Some((event, length))) => {
                    self.taken += length;
                    return Some(event);
                }
                Ok(None) => {}
                Err(broken) => {
                    tracing::warn!(?broken, "an agent broke the protocol; its sandbox is lost");
                    return None;
                }
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
            match self.socket.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}
