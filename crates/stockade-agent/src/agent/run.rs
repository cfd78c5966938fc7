//! One run as the agent sees it: pipes, spools, clock, and who listens.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde_bytes::ByteBuf;

use super::channel::Channel;
use crate::report::{self, Report};
use crate::spool::Spool;
use crate::sys::{self, Waited};
use crate::wire::{Cause, End, Event, OUTPUT_CHUNK, Refusal, RunLimits, Status, Stream, Tag};

/// Behind its head, a stream that may lose its middle is sent at most this often.
const TAIL_INTERVAL: Duration = Duration::from_millis(50);

/// One output stream: its pipe while that is open, and what is kept of it.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) pipe: Option<OwnedFd>,
    pub(super) spool: Spool,
}

/// Standard input that the program has not taken yet.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) pipe: Option<OwnedFd>,
    pub(super) pending: Vec<u8>,
    taken: u64,
    close: bool,
}

/// One conversation about the run.
#[derive(Debug)]
struct Listener {
    tag: Tag,
    cursors: [u64; 2],
    stdin_taken: u64,
    tail_sent: Instant,
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: Option<String>,
    pub(super) init: i32,
    pub(super) init_fd: OwnedFd,
    pub(super) reports: OwnedFd,
    pub(super) outputs: [Output; 2],
    pub(super) input: Input,
    pub(super) limits: RunLimits,
    pub(super) lossless: bool,
    pub(super) started: Instant,
    /// Files that were written for the program, removed afterwards.
    pub(super) dirs: Vec<std::path::PathBuf>,
    program_fd: Option<OwnedFd>,
    refused: Option<Refusal>,
    exited: Option<i32>,
    cause: Option<Cause>,
    end: Option<End>,
    listeners: Vec<Listener>,
}

/// What a new run is made of.
#[derive(Debug)]
pub(super) struct Born {
    pub(super) init: i32,
    pub(super) init_fd: OwnedFd,
    pub(super) reports: OwnedFd,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Run {
    pub(super) fn new(tag: Tag, start: &crate::wire::Start, born: Born) -> Self {
        let spool = || Spool::new(start.limits.output_kept as usize);
        let output = |pipe| Output { pipe: Some(pipe), spool: spool() };
        let dirs = start.files.iter().filter_map(|(path, _)| super::files::dir_of(path));
        let mut run = Self {
            key: start.key.clone(),
            init: born.init,
            init_fd: born.init_fd,
            reports: born.reports,
            outputs: [output(born.stdout), output(born.stderr)],
            input: Input { pipe: born.stdin, pending: Vec::new(), taken: 0, close: false },
            limits: start.limits,
            lossless: start.lossless,
            started: Instant::now(),
            dirs: dirs.collect(),
            program_fd: None,
            refused: None,
            exited: None,
            cause: None,
            end: None,
            listeners: Vec::new(),
        };
        run.listen(tag);
        run
    }

    pub(super) fn listen(&mut self, tag: Tag) {
        let tail_sent = self.started;
        self.listeners.push(Listener { tag, cursors: [0; 2], stdin_taken: 0, tail_sent });
    }

    pub(super) fn has_listener(&self, tag: Tag) -> bool {
        self.listeners.iter().any(|listener| listener.tag == tag)
    }

    pub(super) fn forget(&mut self, tag: Tag) {
        self.listeners.retain(|listener| listener.tag != tag);
    }

    pub(super) fn ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether everybody has heard everything.
    pub(super) fn silent(&self) -> bool {
        self.end.is_some() && self.listeners.is_empty()
    }

    /// When the wall-time limit strikes, as long as nothing else ended the run.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let running = self.end.is_none() && self.cause.is_none();
        running.then(|| self.started + Duration::from_millis(self.limits.wall_ms))
    }

    /// Ends the whole tree. The first cause stays.
    pub(super) fn kill(&mut self, cause: Cause) {
        if self.end.is_none() {
            self.cause.get_or_insert(cause);
            // ESRCH: it is just ending by itself.
            let _ = sys::pidfd_signal(self.init_fd.as_fd(), libc::SIGKILL);
        }
    }

    /// Delivers a signal to the program, once there is one.
    pub(super) fn signal(&mut self, signal: u8) {
        self.take_reports();
        if let (Some(program), None) = (&self.program_fd, self.exited) {
            let _ = sys::pidfd_signal(program.as_fd(), i32::from(signal));
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.input.pipe.is_some() && !self.input.close {
            self.input.pending.extend_from_slice(bytes);
        }
        self.write_input();
    }

    pub(super) fn close_input(&mut self) {
        self.input.close = true;
        self.write_input();
    }

    pub(super) fn write_input(&mut self) {
        let input = &mut self.input;
        let Some(pipe) = &input.pipe else { return };
        while !input.pending.is_empty() {
            match rustix::io::write(pipe, &input.pending) {
                Ok(count) => {
                    input.taken += count as u64;
                    input.pending.drain(..count);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // The program closed its end: what it will not read counts as taken.
                Err(_) => {
                    input.taken += input.pending.len() as u64;
                    input.pending.clear();
                    input.close = true;
                }
            }
        }
        if input.close {
            input.pipe = None;
        }
    }

    /// Whether this stream may be read now without losing what a reader waits for.
    pub(super) fn may_read(&self, index: usize) -> bool {
        self.room(index) > 0
    }

    /// How much may be read now. Without limit unless the program shall wait for its readers.
    fn room(&self, index: usize) -> usize {
        let slowest = self.listeners.iter().map(|listener| listener.cursors[index]).min();
        match slowest {
            Some(cursor) if self.lossless => self.outputs[index].spool.room(cursor),
            _ => usize::MAX,
        }
    }

    /// Takes one piece of output off a pipe. `false` when there is none now.
    pub(super) fn read_output(&mut self, index: usize, buffer: &mut [u8]) -> bool {
        let most = buffer.len().min(self.room(index));
        let output = &mut self.outputs[index];
        let Some(pipe) = &output.pipe else { return false };
        match rustix::io::read(pipe, &mut buffer[..most]) {
            Ok(0) if most > 0 => output.pipe = None,
            Ok(count) => {
                output.spool.write(&buffer[..count]);
                if self.total_output() > self.limits.output_max {
                    self.kill(Cause::Output);
                }
                return count > 0;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => output.pipe = None,
        }
        false
    }

    /// Takes what a pipe still holds when nothing of the run writes any more. A neighbour
    /// that was handed the pipe could, so the rounds are bounded by a pipe's largest size.
    fn drain(&mut self, index: usize, buffer: &mut [u8]) {
        for _ in 0..64 {
            if self.lossless {
                self.outputs[index].spool.grow(buffer.len());
            }
            if !self.read_output(index, buffer) {
                break;
            }
        }
        self.outputs[index].pipe = None;
    }

    fn total_output(&self) -> u64 {
        self.outputs.iter().map(|output| output.spool.total()).sum()
    }

    pub(super) fn take_reports(&mut self) {
        while let Some((report, fd)) = report::receive(&self.reports) {
            match report {
                Report::Forked => self.program_fd = fd,
                Report::Refused(refusal) => self.refused = self.refused.or(Some(refusal)),
                Report::Ended(status) => self.exited = self.exited.or(Some(status)),
            }
        }
    }

    /// Process 1 of the run is gone, and with it the whole tree.
    pub(super) fn finish(&mut self, waited: Waited, buffer: &mut [u8]) {
        let wall = self.started.elapsed();
        self.take_reports();
        self.drain(0, buffer);
        self.drain(1, buffer);
        self.input.pipe = None;
        super::files::remove(&self.dirs);
        let (status, cause) = self.judge(&waited);
        self.end = Some(End {
            status,
            cause,
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            user_us: waited.user_us,
            system_us: waited.system_us,
            max_rss_bytes: waited.max_rss_bytes,
            stdout_bytes: self.outputs[0].spool.total(),
            stderr_bytes: self.outputs[1].spool.total(),
        });
    }

    fn judge(&self, waited: &Waited) -> (Status, Option<Cause>) {
        if let Some(refusal) = self.refused {
            return (Status::Refused(refusal), None);
        }
        // Without its report the program was alive when process 1 was killed, and was
        // killed with it. With one it ended by itself, whatever was sent afterwards.
        let Some(raw) = self.exited else {
            return (Status::Signal(9), self.cause);
        };
        if libc::WIFEXITED(raw) {
            let code = u8::try_from(libc::WEXITSTATUS(raw)).unwrap_or(u8::MAX);
            return (Status::Code(code), None);
        }
        let signal = libc::WTERMSIG(raw);
        // The kernel's clock for the limit and the one for the figures differ by some ticks.
        let used_ms = (waited.user_us + waited.system_us) / 1000;
        let used_up = used_ms >= self.limits.cpu_ms / 4 * 3;
        let cause = match signal {
            libc::SIGXCPU | libc::SIGKILL if used_up => Some(Cause::CpuTime),
            libc::SIGXFSZ => Some(Cause::Disk),
            _ => None,
        };
        (Status::Signal(u8::try_from(signal).unwrap_or(u8::MAX)), cause)
    }

    /// Puts what listeners have not heard in line. Gives the time when there is more to
    /// say although nothing new happens.
    pub(super) fn speak(&mut self, channel: &mut Channel, now: Instant) -> Option<Instant> {
        let mut again = None;
        let ended = self.end.clone();
        let mut finished = Vec::new();
        for listener in &mut self.listeners {
            if listener.stdin_taken < self.input.taken {
                listener.stdin_taken = self.input.taken;
                channel.push(&Event::StdinTaken { tag: listener.tag, total: self.input.taken });
            }
            let due = listener.tail_sent + TAIL_INTERVAL;
            let whole = self.lossless || ended.is_some() || now >= due;
            let mut tail = false;
            for (index, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
                let spool = &self.outputs[index].spool;
                while channel.has_room() {
                    let cursor = listener.cursors[index];
                    if !whole && cursor >= spool.head_end() && cursor < spool.total() {
                        again = Some(again.map_or(due, |other: Instant| other.min(due)));
                        break;
                    }
                    let Some((offset, bytes)) = spool.read(cursor, OUTPUT_CHUNK) else { break };
                    tail |= offset >= spool.head_end();
                    listener.cursors[index] = offset + bytes.len() as u64;
                    let bytes = ByteBuf::from(bytes);
                    channel.push(&Event::Output { tag: listener.tag, stream, offset, bytes });
                }
            }
            if tail {
                listener.tail_sent = now;
            }
            let all = |index: usize| listener.cursors[index] == self.outputs[index].spool.total();
            if let (Some(end), true) = (&ended, all(0) && all(1)) {
                channel.push(&Event::Ended { tag: listener.tag, end: end.clone() });
                finished.push(listener.tag);
            }
        }
        self.listeners.retain(|listener| !finished.contains(&listener.tag));
        again
    }
}
