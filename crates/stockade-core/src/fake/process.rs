//! A process of the fake: a task that speaks through the seam.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sandbox::FakeSandbox;
use super::script::{self, End, Machine};
use crate::backend::{Control, EndCause, Exit, ExitStatus, Process, ProcessEvent, Stream};
use crate::error::{Error, Result};
use crate::outcome::Usage;
use crate::spec::{Command, Stdin};

const SIGKILL: u8 = 9;

/// What was said to a process from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Signal(u8),
    Kill(EndCause),
}

/// What a process said, for a second start with its key.
#[derive(Debug)]
pub(super) struct Recording {
    events: Mutex<Vec<ProcessEvent>>,
    count: watch::Sender<usize>,
    control: Arc<FakeControl>,
}

impl Recording {
    fn add(&self, event: ProcessEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        self.count.send_replace(events.len());
    }

    /// The same process again, from its first byte.
    pub(super) fn replay(self: &Arc<Self>) -> Process {
        let (sender, events) = mpsc::channel(16);
        let recording = self.clone();
        tokio::spawn(async move {
            let mut count = recording.count.subscribe();
            let mut sent = 0;
            loop {
                if count.wait_for(|count| *count > sent).await.is_err() {
                    return;
                }
                let event = {
                    let events = recording.events.lock().unwrap_or_else(PoisonError::into_inner);
                    events[sent].clone()
                };
                let last = matches!(event, ProcessEvent::Exited(_));
                sent += 1;
                if sender.send(event).await.is_err() || last {
                    return;
                }
            }
        });
        Process { events, control: self.control.clone() }
    }
}

/// Acts on a process of the fake.
#[derive(Debug)]
pub(super) struct FakeControl {
    told: watch::Sender<Told>,
    stdin: Mutex<Option<mpsc::Sender<Bytes>>>,
}

#[async_trait]
impl Control for FakeControl {
    async fn write_stdin(&self, bytes: Bytes) -> Result<()> {
        let stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let closed = || Error::conflict("standard input", "closed");
        let stdin = stdin.ok_or_else(closed)?;
        stdin.send(bytes).await.map_err(|_gone| closed())
    }

    async fn close_stdin(&self) -> Result<()> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }

    async fn signal(&self, signal: u8) -> Result<()> {
        self.told.send_replace(Told::Signal(signal));
        Ok(())
    }

    async fn kill(&self, cause: EndCause) -> Result<()> {
        self.told.send_replace(Told::Kill(cause));
        Ok(())
    }
}

/// Starts a command in a sandbox that dies when `dead` fires.
pub(super) fn start(
    sandbox: &FakeSandbox,
    command: Command,
    dead: &CancellationToken,
) -> (Process, Arc<Recording>) {
    let (sender, events) = mpsc::channel(16);
    let (stdin_sender, stdin) = mpsc::channel(4);
    let stdin_sender = (command.stdin == Stdin::Piped).then_some(stdin_sender);
    let told = watch::Sender::new(Told::Nothing);
    let mut listen = told.subscribe();
    let control = Arc::new(FakeControl { told, stdin: Mutex::new(stdin_sender) });
    let recording = Arc::new(Recording {
        events: Mutex::default(),
        count: watch::Sender::new(0),
        control: control.clone(),
    });
    let mut machine = Machine {
        workspace: sandbox.workspace.clone(),
        memory_bytes: sandbox.limits.memory_bytes,
        pids: sandbox.limits.pids,
        out: Out {
            sender,
            recording: recording.clone(),
            written: [0, 0],
            most: command.limits.output_max_bytes,
        },
        stdin,
        children: dead.child_token(),
        command,
    };
    let (dead, kept) = (dead.clone(), recording.clone());
    tokio::spawn(async move {
        let started = Instant::now();
        let wall = machine.command.limits.wall_time;
        let stubborn = script::is_stubborn(&machine.command);
        let cpu = machine.command.limits.cpu_time;
        let end = tokio::select! {
            biased;
            () = dead.cancelled() => End::Silence,
            told = told_to_end(&mut listen), if !stubborn => told,
            end = script::run(&mut machine, cpu) => end,
            () = tokio::time::sleep(wall), if !stubborn => End::killed(EndCause::WallTime),
        };
        machine.children.cancel();
        if let Some(exit) = end.exit(started.elapsed(), machine.out.written) {
            let exited = ProcessEvent::Exited(exit);
            kept.add(exited.clone());
            // Nobody may be there to hear it.
            let _ = machine.out.sender.send(exited).await;
        }
    });
    (Process { events, control }, recording)
}

async fn told_to_end(listen: &mut watch::Receiver<Told>) -> End {
    const IGNORED: [u8; 4] = [0, 17, 18, 28];
    let ends = |told: &Told| match told {
        Told::Nothing => false,
        Told::Signal(signal) => !IGNORED.contains(signal),
        Told::Kill(_) => true,
    };
    match listen.wait_for(ends).await.map(|told| *told) {
        Ok(Told::Signal(signal)) => End::Status(ExitStatus::Signal(signal), None),
        Ok(Told::Kill(cause)) => End::killed(cause),
        // Whoever could tell us something is gone.
        Ok(Told::Nothing) | Err(_) => std::future::pending().await,
    }
}

impl End {
    /// The end when the whole tree was killed for a reason.
    pub(super) fn killed(cause: EndCause) -> Self {
        Self::Status(ExitStatus::Signal(SIGKILL), Some(cause))
    }

    fn exit(self, wall: Duration, written: [u64; 2]) -> Option<Exit> {
        let Self::Status(status, cause) = self else { return None };
        let usage = Usage {
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            user_us: 1,
            system_us: 1,
            peak_memory_bytes: Some(1 << 20),
            stdout_bytes: written[0],
            stderr_bytes: written[1],
        };
        Some(Exit { status, cause, usage })
    }
}

/// Where a process writes.
#[derive(Debug)]
pub(super) struct Out {
    sender: mpsc::Sender<ProcessEvent>,
    recording: Arc<Recording>,
    written: [u64; 2],
    most: u64,
}

impl Out {
    /// Writes to a stream; waits for the reader. Fails at the output limit.
    pub(super) async fn write(&mut self, stream: Stream, bytes: Bytes) -> Result<(), EndCause> {
        let at = &mut self.written[usize::from(stream == Stream::Stderr)];
        let offset = *at;
        *at += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let event = ProcessEvent::Output { stream, offset, bytes };
        self.recording.add(event.clone());
        // A reader that went away does not end the program.
        let _ = self.sender.send(event).await;
        if self.written.iter().sum::<u64>() > self.most { Err(EndCause::Output) } else { Ok(()) }
    }

    /// Counts bytes that were dropped on the way.
    pub(super) fn skip(&mut self, stream: Stream, count: u64) {
        self.written[usize::from(stream == Stream::Stderr)] += count;
    }
}
