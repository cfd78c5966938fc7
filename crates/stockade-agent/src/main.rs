//! The one static program: launcher outside, agent inside.
//!
//! `launcher` serves a server over the socket at standard input; the agents of
//! its sandboxes are copies of it. `inside` is what the launcher's probe runs
//! behind the wall.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use stockade_agent::launcher::{self, inside};
use stockade_agent::sys;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("launcher") => launcher::serve(&take_control()?),
        Some("inside") => inside::report(&args.next().unwrap_or_default()),
        _ => Err(io::Error::other("started by the server only")),
    }
}

/// The socket at standard input; /dev/null takes its place there and at the
/// other standard streams, so that sandboxes inherit nothing.
fn take_control() -> io::Result<OwnedFd> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    for number in 0..3 {
        sys::dup_to(null.as_fd(), number)?;
    }
    Ok(control)
}
