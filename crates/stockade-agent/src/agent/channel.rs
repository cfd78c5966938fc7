//! The agent's end of the stream to the server: frames in, frames out, never blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::wire::{self, Event, MAX_REQUEST, Request};

/// Above this many bytes waiting to be sent, no more output is put in line.
const HIGH_WATER: usize = 256 << 10;
const READ_SIZE: usize = 64 << 10;

/// Frames in, frames out.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    inbound: Vec<u8>,
    outbound: Vec<u8>,
    sent: usize,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, inbound: Vec::new(), outbound: Vec::new(), sent: 0 }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether something waits to be sent.
    pub(super) fn wants_write(&self) -> bool {
        self.sent < self.outbound.len()
    }

    /// Whether more output may be put in line.
    pub(super) fn has_room(&self) -> bool {
        self.outbound.len() - self.sent < HIGH_WATER
    }

    /// Puts an event in line.
    pub(super) fn push(&mut self, event: &Event) {
        wire::encode(event, &mut self.outbound);
    }

    /// Sends what the socket takes. Fails when the server is gone.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.wants_write() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.outbound[self.sent..], flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if self.sent == self.outbound.len() {
            self.outbound.clear();
            self.sent = 0;
        } else if self.sent >= HIGH_WATER {
            self.outbound.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Reads what is there. Fails when the server is gone.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        loop {
            let start = self.inbound.len();
            self.inbound.resize(start + READ_SIZE, 0);
            let received =
                rustix::net::recv(&self.socket, &mut self.inbound[start..], RecvFlags::DONTWAIT);
            let count = received.as_ref().map_or(0, |&(count, _)| count);
            self.inbound.truncate(start + count);
            match received {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) if count < READ_SIZE || self.inbound.len() > MAX_REQUEST => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The next whole request. Fails when the bytes break the protocol.
    pub(super) fn next(&mut self) -> io::Result<Option<Request>> {
        let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
        let Some((request, length)) = wire::decode(&self.inbound, MAX_REQUEST).map_err(broken)?
        else {
            return Ok(None);
        };
        self.inbound.drain(..length);
        if self.inbound.is_empty() && self.inbound.capacity() > 1 << 20 {
            self.inbound = Vec::new();
        }
        Ok(Some(request))
    }
}
