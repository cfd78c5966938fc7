//! The launcher: makes native sandboxes, and is the only one who can.
//!
//! One thread, one loop: requests of the server, reports and deaths of
//! sandboxes, memory events. It is started before the server grows, holds no
//! secret, and takes orders from one socket. When that socket closes, it ends
//! every sandbox, removes what it made, and goes. It asks for no death signal
//! of its own: a launcher that is killed cannot clean up.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::SendFlags;
use rustix::process::{Resource, Rlimit};

mod child;
mod entry;
mod failure;
mod house;
mod identity;
pub mod inside;
mod journal;
mod limiter;
mod mounts;
mod network;
pub mod packet;
mod pipe;
mod probe;
pub mod protocol;
mod template;
mod text;
mod workspace;

use entry::Entry;
use failure::{Doing, refuse};
use house::House;
use protocol::{Config, Failure, Id, Reply, Request};

/// A sandbox that does not report within this time is given up.
const CREATE_TIME: Duration = Duration::from_secs(8);
/// How long the kernel may hold a group after its last process.
const REMOVE_TIME: Duration = Duration::from_secs(1);
/// When the launcher goes, sandboxes have this time to be gone.
const LEAVE_TIME: Duration = Duration::from_secs(5);
/// When nothing was asked for this long, there is time for other work.
const IDLE: Duration = Duration::from_millis(1);
/// Between looks at what the kernel gives no event for.
const TICK: Duration = Duration::from_millis(2);

/// What woke the loop, packed into the number that the kernel keeps for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Control,
    Report(Id),
    Death(Id),
    Memory(Id),
}

impl Wake {
    fn pack(self) -> u64 {
        match self {
            Self::Control => 0,
            Self::Report(id) => id << 2 | 1,
            Self::Death(id) => id << 2 | 2,
            Self::Memory(id) => id << 2 | 3,
        }
    }

    fn unpack(word: u64) -> Self {
        match word & 3 {
            1 => Self::Report(word >> 2),
            2 => Self::Death(word >> 2),
            3 => Self::Memory(word >> 2),
            _ => Self::Control,
        }
    }
}

/// Serves one server until it hangs up.
///
/// # Errors
/// Fails when the socket or the kernel does; every sandbox ends with this process.
pub fn serve(control: &OwnedFd) -> std::io::Result<()> {
    raise_open_files();
    let mut buffer = Vec::new();
    let Some((Request::Start(config), _)) = packet::receive(control, &mut buffer)? else {
        return Ok(());
    };
    match Launcher::new(control.as_fd().try_clone_to_owned()?, &config) {
        Ok(mut launcher) => {
            packet::send(control, &Reply::Started, None, SendFlags::empty())?;
            let served = launcher.work(&mut buffer);
            launcher.leave();
            served
        }
        Err(failure) => {
            packet::send(control, &Reply::StartFailed(failure), None, SendFlags::empty())
        }
    }
}

/// Each sandbox takes a handful of descriptors here.
fn raise_open_files() {
    let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: hard.map(|hard| hard.min(1 << 20)), maximum: hard },
    );
}

struct Launcher {
    control: OwnedFd,
    epoll: OwnedFd,
    house: House,
    entries: Vec<Entry>,
    canary: PathBuf,
}

impl Launcher {
    fn new(control: OwnedFd, config: &Config) -> Result<Self, Failure> {
        let state_dir = text::path(&config.state_dir)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("making an event queue")?;
        watch(&epoll, &control, Wake::Control, epoll::EventFlags::IN)?;
        let house = House::open(&state_dir, config)?;
        Ok(Self { control, epoll, house, entries: Vec::new(), canary: state_dir })
    }

    fn work(&mut self, buffer: &mut Vec<u8>) -> std::io::Result<()> {
        let mut events = Vec::with_capacity(64);
        loop {
            self.wait(&mut events)?;
            for event in events.drain(..) {
                match Wake::unpack(event.data.u64()) {
                    Wake::Control => match packet::receive(&self.control, buffer)? {
                        Some((request, fd)) => self.take(request, fd)?,
                        None => return Ok(()),
                    },
                    Wake::Report(id) => self.reported(id)?,
                    Wake::Death(id) => self.died(id),
                    Wake::Memory(id) => {
                        self.entry(id).into_iter().for_each(Entry::memory_event);
                    }
                }
            }
            self.tick()?;
        }
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> std::io::Result<()> {
        let timeout = self.entries.iter().filter_map(Entry::wants_look_in).min();
        if self.house.wants_time() {
            self.wait_for(events, Some(IDLE))?;
            if !events.is_empty() {
                return Ok(());
            }
            self.house.use_time();
        }
        self.wait_for(events, timeout)
    }

    fn wait_for(
        &self,
        events: &mut Vec<epoll::Event>,
        timeout: Option<Duration>,
    ) -> std::io::Result<()> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn entry(&mut self, id: Id) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    fn say(&self, reply: &Reply) -> std::io::Result<()> {
        packet::send(&self.control, reply, None, SendFlags::empty())
    }

    fn take(&mut self, request: Request, fd: Option<OwnedFd>) -> std::io::Result<()> {
        match request {
            Request::Start(_) => Ok(()),
            Request::Probe => {
                let report = probe::probe(&mut self.house, &self.canary);
                self.say(&Reply::Probed(Box::new(report)))
            }
            Request::Create { id, plan } => {
                let made = match fd {
                    Some(channel) => self.house.build(id, &plan, child::Role::Agent(channel)),
                    None => refuse("no channel came with the request"),
                };
                match made.and_then(|entry| self.admit(entry)) {
                    Ok(()) => Ok(()),
                    Err(failure) => self.say(&Reply::Failed { id, failure }),
                }
            }
            Request::Figures { id, restart_peak } => {
                let figures = self.entry(id).map(|entry| entry.figures(restart_peak));
                self.say(&Reply::Figures { id, figures })
            }
            Request::Destroy { id } => match self.entry(id) {
                Some(entry) => {
                    entry.destroy();
                    Ok(())
                }
                None => self.say(&Reply::Destroyed { id, figures: protocol::Figures::default() }),
            },
        }
    }

    /// Starts to watch a sandbox that is being built.
    fn admit(&mut self, mut entry: Entry) -> Result<(), Failure> {
        let watched = entry.watch(&self.epoll);
        if watched.is_err() {
            entry.destroy();
            self.house.bury(&mut entry);
        } else {
            self.entries.push(entry);
        }
        watched
    }

    fn reported(&mut self, id: Id) -> std::io::Result<()> {
        let reply = self.entry(id).and_then(Entry::reported);
        reply.map_or(Ok(()), |reply| self.say(&reply))
    }

    fn died(&mut self, id: Id) {
        if let Some(entry) = self.entry(id) {
            entry.reap();
        }
    }

    /// What the kernel gives no event for: groups that it still holds, late
    /// counts of memory kills, sandboxes that never report.
    fn tick(&mut self) -> std::io::Result<()> {
        let mut replies = Vec::new();
        let house = &mut self.house;
        self.entries.retain_mut(|entry| {
            replies.extend(entry.late_memory_kill());
            entry.give_up_when_late();
            let buried = entry.is_reaped() && house.try_bury(entry);
            if buried {
                replies.push(entry.last_words());
            }
            !buried
        });
        replies.iter().try_for_each(|reply| self.say(reply))
    }

    /// Ends everything. Nobody listens any more.
    fn leave(mut self) {
        self.entries.iter_mut().for_each(Entry::destroy);
        let since = Instant::now();
        while !self.entries.is_empty() && since.elapsed() < LEAVE_TIME {
            let house = &mut self.house;
            self.entries.retain_mut(|entry| {
                entry.reap();
                !(entry.is_reaped() && house.try_bury(entry))
            });
            if !self.entries.is_empty() {
                std::thread::sleep(TICK);
            }
        }
        self.house.close();
    }
}

/// Adds a descriptor to an event queue.
fn watch(
    epoll: &OwnedFd,
    fd: impl AsFd,
    wake: Wake,
    flags: epoll::EventFlags,
) -> Result<(), Failure> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(wake.pack()), flags)
        .doing("adding to the event queue")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_comes_back_as_it_was() {
        for wake in [Wake::Control, Wake::Report(0), Wake::Death(7), Wake::Memory(1 << 40)] {
            assert_eq!(Wake::unpack(wake.pack()), wake);
        }
    }
}
