//! What the processes of one run tell the agent, over a packet socket of that run.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::wire::Refusal;

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The program's process exists; its handle travels with the packet.
    Forked,
    /// The program could not be started.
    Refused(Refusal),
    /// The program has ended with this raw wait status.
    Ended(i32),
}

/// Sends a packet, with a descriptor where one is given.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    report: Report,
    fd: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<()> {
    let mut bytes = [0; 32];
    let Ok(packet) = postcard::to_slice(&report, &mut bytes) else {
        return Err(Errno::MSGSIZE);
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fd.as_slice();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes the next packet. `None` when there is none, or when it makes no sense.
pub(crate) fn receive(socket: impl AsFd) -> Option<(Report, Option<OwnedFd>)> {
    let mut bytes = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [std::io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut slices, &mut control, flags).ok()?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let report = postcard::from_bytes(bytes.get(..received.bytes)?).ok()?;
    Some((report, fd))
}
