//! The agent: process 1 of a sandbox.
//!
//! One thread, one loop: requests in, events out, pipes and process handles in
//! between. It decides nothing; it never buffers more of a stream than its cap;
//! it keeps finished runs that have an idempotency key for a while, so that a
//! request that is sent again finds the first run.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Gid, Uid};

use crate::wire::{Cause, End, Event, Refusal, Request, Status, Step, Tag, VERSION};
use crate::{landlock, seccomp, steps, sys};

mod channel;
mod files;
mod run;
mod start;

use channel::Channel;
use run::Run;

/// Runs that may go on at once.
const MOST_RUNS: usize = 64;
/// Finished runs that are kept for their idempotency keys.
const MOST_FINISHED: usize = 32;
/// Output is read in pieces of this size.
const BUFFER: usize = 64 << 10;

/// What whoever built the sandbox tells the agent.
#[derive(Debug)]
pub struct Setup {
    /// The stream to the server: a connected Unix stream socket.
    pub channel: OwnedFd,
    /// User id of programs, inside.
    pub uid: u32,
    /// Group id of programs, inside.
    pub gid: u32,
    /// Whether the agent has an identity of its own (user 0 of its user namespace)
    /// or shares the program's: an ordinary user has only one to give.
    pub own_identity: bool,
    /// Directories whose files may be read and executed.
    pub readable: Vec<String>,
    /// Directories (or device files) that may also be written.
    pub writable: Vec<String>,
}

/// Serves runs until the server closes the channel. Must be called by process 1
/// of the sandbox, with all capabilities of its user namespace, after all mounts.
pub fn serve(setup: Setup) -> ! {
    // The exit ends the process namespace, and with it whatever still runs.
    let code = match Agent::new(setup).and_then(|mut agent| agent.work()) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code)
}

#[derive(Debug)]
struct Agent {
    channel: Channel,
    common: start::Common,
    runs: Vec<Run>,
    buffer: Vec<u8>,
}

/// What a polled descriptor belongs to.
#[derive(Debug, Clone, Copy)]
enum Source {
    Channel,
    Init(usize),
    Output(usize, usize),
    Input(usize),
}

impl Agent {
    fn new(setup: Setup) -> io::Result<Self> {
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        sys::ignore_signal(libc::SIGPIPE);
        let last_capability = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap")?;
        let identity = steps::Identity {
            uid: Uid::from_raw(setup.uid),
            gid: Gid::from_raw(setup.gid),
            switch: setup.own_identity,
            last_capability: last_capability.trim().parse().map_err(io::Error::other)?,
        };
        let ruleset =
            landlock::ruleset(&setup.readable, &setup.writable).map_err(io::Error::other)?;
        let null = OwnedFd::from(File::open("/dev/null")?);
        let filter = seccomp::program();
        let mut channel = Channel::new(setup.channel);
        channel.push(&Event::Ready { version: VERSION });
        Ok(Self {
            channel,
            common: start::Common { identity, ruleset, filter, null },
            runs: Vec::new(),
            buffer: vec![0; BUFFER],
        })
    }

    fn work(&mut self) -> io::Result<()> {
        loop {
            let mut wake = self.speak();
            let full = !self.channel.has_room();
            self.channel.flush()?;
            if full && self.channel.has_room() {
                // What had no room before may have it now, and nothing else would say so.
                wake = Some(Instant::now());
            }
            self.drop_finished();
            let Some(ready) = self.wait(wake)? else { continue };
            for (source, flags) in ready {
                match source {
                    // Requests take effect below: they may add runs, and indices must hold.
                    Source::Channel if flags == PollFlags::OUT => {}
                    Source::Channel => self.channel.fill()?,
                    Source::Init(index) => self.reap(index)?,
                    Source::Output(index, stream) => {
                        self.runs[index].read_output(stream, &mut self.buffer);
                    }
                    Source::Input(index) => self.runs[index].write_input(),
                }
            }
            while let Some(request) = self.channel.next()? {
                self.take(request);
            }
            self.strike_deadlines();
        }
    }

    /// Puts in line what listeners have not heard; gives the next time to do so.
    fn speak(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut wake: Option<Instant> = None;
        for run in &mut self.runs {
            let times = [run.speak(&mut self.channel, now), run.deadline()];
            wake = times.into_iter().flatten().chain(wake).min();
        }
        wake
    }

    fn wait(&self, wake: Option<Instant>) -> io::Result<Option<Vec<(Source, PollFlags)>>> {
        let out = if self.channel.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
        let mut sources = vec![Source::Channel];
        let mut fds = vec![PollFd::from_borrowed_fd(self.channel.fd(), PollFlags::IN | out)];
        for (index, run) in self.runs.iter().enumerate().filter(|(_, run)| !run.ended()) {
            // Output before the end: what was written first must be read first.
            for (stream, output) in run.outputs.iter().enumerate() {
                if let (Some(pipe), true) = (&output.pipe, run.may_read(stream)) {
                    fds.push(PollFd::new(pipe, PollFlags::IN));
                    sources.push(Source::Output(index, stream));
                }
            }
            if let (Some(pipe), false) = (&run.input.pipe, run.input.pending.is_empty()) {
                fds.push(PollFd::new(pipe, PollFlags::OUT));
                sources.push(Source::Input(index));
            }
            fds.push(PollFd::new(&run.init_fd, PollFlags::IN));
            sources.push(Source::Init(index));
        }
        let timeout = wake.map(|wake| timespec(wake.saturating_duration_since(Instant::now())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let events = fds.iter().map(PollFd::revents);
        let ready = sources.into_iter().zip(events).filter(|(_, flags)| !flags.is_empty());
        Ok(Some(ready.collect()))
    }

    fn reap(&mut self, index: usize) -> io::Result<()> {
        let run = &mut self.runs[index];
        if let Some(waited) = sys::wait(run.init, false)? {
            run.finish(waited, &mut self.buffer);
        }
        Ok(())
    }

    fn strike_deadlines(&mut self) {
        let now = Instant::now();
        for run in &mut self.runs {
            if run.deadline().is_some_and(|deadline| now >= deadline) {
                run.kill(Cause::WallTime);
            }
        }
    }

    fn take(&mut self, request: Request) {
        let of = |runs: &mut [Run], tag: Tag, act: &dyn Fn(&mut Run)| {
            // A tag that is gone has been told its end already.
            if let Some(run) = runs.iter_mut().find(|run| run.has_listener(tag)) {
                act(run);
            }
        };
        match request {
            Request::Start { tag, start } => self.start(tag, &start),
            Request::Stdin { tag, bytes } => of(&mut self.runs, tag, &|run| run.feed(&bytes)),
            Request::CloseStdin { tag } => of(&mut self.runs, tag, &Run::close_input),
            Request::Signal { tag, signal } => {
                of(&mut self.runs, tag, &|run| run.signal(signal));
            }
            Request::Kill { tag, cause } => of(&mut self.runs, tag, &|run| run.kill(cause)),
            Request::Forget { tag } => of(&mut self.runs, tag, &|run| run.forget(tag)),
        }
    }

    fn start(&mut self, tag: Tag, start: &crate::wire::Start) {
        if start.key.is_some()
            && let Some(run) = self.runs.iter_mut().find(|run| run.key == start.key)
        {
            run.listen(tag);
            return;
        }
        let going = self.runs.iter().filter(|run| !run.ended()).count();
        let started = if going < MOST_RUNS {
            start::start(tag, start, &self.common)
        } else {
            Err(Refusal { step: Step::Process, errno: libc::EAGAIN })
        };
        match started {
            Ok(run) => self.runs.push(run),
            Err(refusal) => self.channel.push(&Event::Ended { tag, end: refused(refusal) }),
        }
    }

    /// Forgets runs that are over and told, but for the newest with a key.
    fn drop_finished(&mut self) {
        self.runs.retain(|run| !run.silent() || run.key.is_some());
        let finished = self.runs.iter().filter(|run| run.silent()).count();
        let mut surplus = finished.saturating_sub(MOST_FINISHED);
        self.runs.retain(|run| {
            let goes = surplus > 0 && run.silent();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

fn refused(refusal: Refusal) -> End {
    End {
        status: Status::Refused(refusal),
        cause: None,
        wall_us: 0,
        user_us: 0,
        system_us: 0,
        max_rss_bytes: 0,
        stdout_bytes: 0,
        stderr_bytes: 0,
    }
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up: waking before the time would spin.
    let duration = duration + Duration::from_micros(1);
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
