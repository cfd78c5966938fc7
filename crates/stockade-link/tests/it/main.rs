//! The link against agents that lie, break the protocol, or stop talking.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_bytes::ByteBuf;
use stockade_agent::wire::{
    self, Cause, End, Event, MAX_REQUEST, Request, STDIN_WINDOW, Status, Stream as WireStream, Tag,
};
use stockade_core::backend::{EndCause, ExitStatus, Process, ProcessEvent, Stream};
use stockade_core::limits::Limits;
use stockade_core::spec::{Command, Overflow, Stdin};
use stockade_link::{Link, unamended};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The other end of a link, played by the test.
struct Agent {
    socket: UnixStream,
    bytes: Vec<u8>,
}

impl Agent {
    async fn say(&mut self, event: &Event) {
        let mut frame = Vec::new();
        wire::encode(event, &mut frame);
        self.socket.write_all(&frame).await.unwrap();
    }

    async fn hear(&mut self) -> Request {
        loop {
            if let Some((request, length)) = wire::decode(&self.bytes, MAX_REQUEST).unwrap() {
                self.bytes.drain(..length);
                return request;
            }
            let read = self.socket.read_buf(&mut self.bytes).await.unwrap();
            assert_ne!(read, 0, "the link hung up");
        }
    }

    async fn hear_start(&mut self) -> Tag {
        match self.hear().await {
            Request::Start { tag, .. } => tag,
            other => panic!("{other:?} came instead of a start"),
        }
    }
}

async fn linked() -> (Link, Agent) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut agent = Agent { socket: theirs, bytes: Vec::new() };
    agent.say(&Event::Ready { version: wire::VERSION }).await;
    (Link::connect(ours).await.unwrap(), agent)
}

fn command(stdin: Stdin) -> Command {
    Command {
        argv: vec!["program".into()],
        env: BTreeMap::new(),
        workdir: PathBuf::from("/workspace"),
        files: Vec::new(),
        stdin,
        limits: Limits::DEFAULT,
        overflow: Overflow::DropMiddle,
        idempotency_key: None,
    }
}

async fn started(link: &Link, agent: &mut Agent, stdin: Stdin) -> (Process, Tag) {
    let process = link.spawn(&command(stdin), unamended()).await.unwrap();
    let tag = agent.hear_start().await;
    (process, tag)
}

fn end(status: Status, cause: Option<Cause>) -> End {
    End {
        status,
        cause,
        wall_us: 1,
        user_us: 2,
        system_us: 3,
        max_rss_bytes: 4,
        stdout_bytes: 5,
        stderr_bytes: 6,
    }
}

fn output(tag: Tag, offset: u64, bytes: &[u8]) -> Event {
    Event::Output { tag, stream: WireStream::Stdout, offset, bytes: ByteBuf::from(bytes) }
}

/// Everything below must answer within this, whatever the agent does.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), work).await.expect("it must not hang")
}

#[tokio::test]
async fn a_run_comes_through_whole() {
    let (link, mut agent) = linked().await;
    let (mut process, tag) = started(&link, &mut agent, Stdin::Closed).await;
    agent.say(&output(tag, 7, b"hello")).await;
    agent.say(&Event::Ended { tag, end: end(Status::Signal(9), Some(Cause::WallTime)) }).await;
    let first = soon(process.events.recv()).await.unwrap();
    let bytes = Bytes::from_static(b"hello");
    assert_eq!(first, ProcessEvent::Output { stream: Stream::Stdout, offset: 7, bytes });
    let Some(ProcessEvent::Exited(exit)) = soon(process.events.recv()).await else {
        panic!("no exit")
    };
    assert_eq!((exit.status, exit.cause), (ExitStatus::Signal(9), Some(EndCause::WallTime)));
    assert_eq!((exit.usage.user_us, exit.usage.stderr_bytes), (2, 6));
    assert_eq!(soon(process.events.recv()).await, None);
}

#[tokio::test]
async fn another_version_or_silence_instead_of_a_greeting_is_an_error() {
    for first in [Some(Event::Ready { version: 999 }), Some(output(1, 0, b"x")), None] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut agent = Agent { socket: theirs, bytes: Vec::new() };
        if let Some(first) = first {
            agent.say(&first).await;
        }
        drop(agent);
        assert!(soon(Link::connect(ours)).await.is_err());
    }
}

/// Sends these bytes in the middle of a run; the run must be lost and the link closed.
async fn check_broken(bytes: &[u8]) {
    let (link, mut agent) = linked().await;
    let (mut process, _) = started(&link, &mut agent, Stdin::Closed).await;
    agent.socket.write_all(bytes).await.unwrap();
    assert_eq!(soon(process.events.recv()).await, None, "{:?}", &bytes[..bytes.len().min(16)]);
    soon(link.closed()).await;
    assert!(link.spawn(&command(Stdin::Closed), unamended()).await.is_err());
}

#[tokio::test]
async fn an_agent_that_breaks_the_protocol_loses_its_runs() {
    check_broken(&u32::MAX.to_le_bytes()).await;
    check_broken(&[1, 0, 0, 0, 250]).await;
    check_broken(&[0, 0, 0, 0]).await;
    let mut frame = Vec::new();
    wire::encode(&Event::Ready { version: 1 }, &mut frame);
    frame[0] += 1;
    frame.push(0);
    check_broken(&frame).await;
    let mut request = Vec::new();
    wire::encode(&Request::Forget { tag: u64::MAX }, &mut request);
    request[4] = 200;
    check_broken(&request).await;
}

#[tokio::test]
async fn an_agent_that_vanishes_loses_its_runs() {
    let (link, mut agent) = linked().await;
    let (mut process, _) = started(&link, &mut agent, Stdin::Closed).await;
    drop(agent);
    assert_eq!(soon(process.events.recv()).await, None);
    soon(link.closed()).await;
    // Whether it says so depends on who noticed first; it never waits.
    let _ = soon(process.control.kill(EndCause::Cancelled)).await;
    assert!(link.spawn(&command(Stdin::Closed), unamended()).await.is_err());
}

#[tokio::test]
async fn words_about_runs_that_nobody_started_change_nothing() {
    let (link, mut agent) = linked().await;
    let (mut process, tag) = started(&link, &mut agent, Stdin::Closed).await;
    for other in [0, tag + 1, u64::MAX] {
        agent.say(&output(other, u64::MAX, b"x")).await;
        agent.say(&Event::StdinTaken { tag: other, total: u64::MAX }).await;
        agent.say(&Event::Ended { tag: other, end: end(Status::Code(1), None) }).await;
    }
    agent.say(&Event::Ready { version: 7 }).await;
    agent.say(&Event::Ended { tag, end: end(Status::Code(0), None) }).await;
    // An end is the end: what comes behind it for the same run is not heard.
    agent.say(&Event::Ended { tag, end: end(Status::Code(9), None) }).await;
    agent.say(&output(tag, 0, b"late")).await;
    let Some(ProcessEvent::Exited(exit)) = soon(process.events.recv()).await else {
        panic!("no exit")
    };
    assert_eq!(exit.status, ExitStatus::Code(0));
    assert_eq!(soon(process.events.recv()).await, None);
}

#[tokio::test]
async fn input_waits_for_credit_and_lies_about_credit_are_harmless() {
    let (link, mut agent) = linked().await;
    let (process, tag) = started(&link, &mut agent, Stdin::Piped).await;
    let control = process.control.clone();
    let size = 3 * STDIN_WINDOW;
    let feeding = tokio::spawn(async move { control.write_stdin(vec![7; size].into()).await });
    let mut taken = 0;
    while taken < STDIN_WINDOW {
        let Request::Stdin { bytes, .. } = soon(agent.hear()).await else { panic!("no input") };
        taken += bytes.len();
    }
    let more = timeout(Duration::from_millis(100), agent.hear()).await;
    assert!(more.is_err(), "more than the window was under way");
    agent.say(&Event::StdinTaken { tag, total: u64::MAX }).await;
    while taken < size {
        let Request::Stdin { bytes, .. } = soon(agent.hear()).await else { panic!("no input") };
        taken += bytes.len();
    }
    soon(feeding).await.unwrap().unwrap();
}

#[tokio::test]
async fn input_of_a_run_that_ended_is_refused_and_does_not_wait() {
    let (link, mut agent) = linked().await;
    let (process, tag) = started(&link, &mut agent, Stdin::Piped).await;
    agent.say(&Event::Ended { tag, end: end(Status::Code(0), None) }).await;
    let big = Bytes::from(vec![0; 4 * STDIN_WINDOW]);
    assert!(soon(process.control.write_stdin(big)).await.is_err());
}

#[tokio::test]
async fn refusals_become_sentences_of_ours() {
    use wire::{Refusal, Step};
    for (step, errno, words) in [
        (Step::Exec, 2, "no such program"),
        (Step::Exec, 13, "chmod +x"),
        (Step::Exec, 7, "too long"),
        (Step::Workdir, 20, "working directory"),
        (Step::Process, 11, "no more processes"),
        (Step::Seccomp, -1, "could not be entered"),
        (Step::Exec, i32::MAX, "cannot be executed"),
    ] {
        let (link, mut agent) = linked().await;
        let (mut process, tag) = started(&link, &mut agent, Stdin::Closed).await;
        let refused = Status::Refused(Refusal { step, errno });
        agent.say(&Event::Ended { tag, end: end(refused, None) }).await;
        let Some(ProcessEvent::Exited(exit)) = soon(process.events.recv()).await else {
            panic!("no exit")
        };
        let ExitStatus::Refused(why) = exit.status else { panic!("{:?}", exit.status) };
        assert!(why.contains(words), "{why:?} lacks {words:?}");
    }
}

#[tokio::test]
async fn dropping_a_process_tells_the_agent() {
    let (link, mut agent) = linked().await;
    let (process, tag) = started(&link, &mut agent, Stdin::Closed).await;
    drop(process);
    assert_eq!(soon(agent.hear()).await, Request::Forget { tag });
}
