//! Network namespaces with nothing but loopback, one made ahead.
//!
//! Making one is the dearest step of a sandbox, most of a millisecond, so it is
//! done while nothing else is asked for. Each is used once. They belong to the
//! launcher's user namespace: whoever gains all rights of a sandbox's own still
//! has none over its network.
//!
//! Only root can come back from another network. For an ordinary user, each
//! sandbox is born with a new one.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::failure::Doing;
use super::protocol::Failure;
use crate::sys;

/// Where the machine's network is, and at most one spare.
#[derive(Debug)]
pub(crate) struct Networks {
    outside: OwnedFd,
    spare: Option<OwnedFd>,
}

impl Networks {
    pub(crate) fn open() -> Result<Self, Failure> {
        Ok(Self { outside: current()?, spare: None })
    }

    /// Whether one should be made when there is time.
    pub(crate) fn wants_spare(&self) -> bool {
        self.spare.is_none()
    }

    /// Makes one ahead. When that fails, the next sandbox says why.
    pub(crate) fn make_spare(&mut self) {
        self.spare = self.make().ok();
    }

    /// One that nobody has used.
    pub(crate) fn take(&mut self) -> Result<OwnedFd, Failure> {
        self.spare.take().map_or_else(|| self.make(), Ok)
    }

    fn make(&self) -> Result<OwnedFd, Failure> {
        sys::unshare(libc::CLONE_NEWNET).doing("making a network namespace")?;
        let made = bring_loopback_up().and_then(|()| current());
        self.leave();
        made
    }

    /// Moves the caller into a network; `leave` brings it back.
    pub(crate) fn enter(network: &OwnedFd) -> Result<(), Failure> {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .doing("entering a network namespace")
    }

    /// Moves the caller back to where the machine's network is.
    pub(crate) fn leave(&self) {
        if Self::enter(&self.outside).is_err() {
            // Open networks would be empty from now on, and nobody could tell.
            sys::exit_now(1);
        }
    }
}

fn current() -> Result<OwnedFd, Failure> {
    File::open("/proc/self/ns/net").doing("opening a network namespace").map(OwnedFd::from)
}

/// Starts the loopback of the caller's network.
pub(crate) fn bring_loopback_up() -> Result<(), Failure> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).doing("making a socket")?;
    sys::loopback_up(socket.as_fd()).doing("starting loopback")
}
