//! The language of the fake: one command per line or `;`, words by spaces.
//!
//! | command | effect |
//! |---|---|
//! | `echo WORD…`, `err WORD…` | a line on standard output, standard error |
//! | `bytes` | all 256 values |
//! | `yes COUNT` | that many bytes of `012345678\n…` |
//! | `gap COUNT` | bytes that are lost on the way |
//! | `cat` | standard input to standard output |
//! | `env`, `pwd`, `show PATH` | what the program sees |
//! | `write PATH WORD…`, `append PATH WORD…`, `rm PATH` | files in the workspace |
//! | `sleep MS`, `hang`, `busy` | waiting, for ever, with the processor |
//! | `child MS PATH` | a background child that makes a file later |
//! | `balloon MIB`, `fork COUNT` | memory, processes |
//! | `exit CODE`, `die-signal NUMBER` | the end |
//! | `wedge` | never ends, whatever it is told |
//! | `lose` | the process vanishes without a word |

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::process::Out;
use crate::backend::{EndCause, ExitStatus, Stream};
use crate::path::{WORKSPACE_ALIAS, WORKSPACE_DIR};
use crate::spec::Command;

/// What a program of the fake has to work with.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) workspace: PathBuf,
    pub(super) memory_bytes: u64,
    pub(super) pids: u32,
    pub(super) out: Out,
    pub(super) stdin: mpsc::Receiver<Bytes>,
    pub(super) children: CancellationToken,
    pub(super) command: Command,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this status, and who ended it.
    Status(ExitStatus, Option<EndCause>),
    /// Without a word.
    Silence,
}

/// The interpreter of program files, for table entries of tests.
const INTERPRETER: &str = "fake-lang";
const SIGTERM: u8 = 15;

/// Whether the program does not end when it is told to.
pub(super) fn is_stubborn(command: &Command) -> bool {
    words(command).iter().any(|word| word.split([';', '\n']).any(|part| part.trim() == "wedge"))
        || command.files.iter().any(|file| file.content == b"wedge")
}

/// Runs the program to its end.
pub(super) async fn run(machine: &mut Machine, cpu: Duration) -> End {
    let argv = words(&machine.command);
    let script = match argv.first().map(String::as_str) {
        None => return refused("no program"),
        Some("/bin/sh" | "sh") => argv.last().cloned().unwrap_or_default(),
        Some(INTERPRETER) if argv.get(1).is_some_and(|arg| arg == "--version") => {
            "echo fake-lang 1.0".to_owned()
        }
        Some(INTERPRETER) => match argv.get(1).and_then(|path| file(machine, path)) {
            Some(text) => text,
            None => return refused("no program file"),
        },
        Some(_) => return step(machine, &argv, cpu).await.unwrap_or_else(code_zero),
    };
    for line in script.split(['\n', ';']) {
        let argv: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        if argv.is_empty() {
            continue;
        }
        if let Some(end) = step(machine, &argv, cpu).await {
            return match end {
                // A shell goes on to say that it did not find it.
                End::Status(ExitStatus::Refused(why), None) => {
                    let line = format!("sh: {why}: command not found\n");
                    // At the output limit there is nothing to add.
                    let _ = machine.out.write(Stream::Stderr, line.into()).await;
                    End::Status(ExitStatus::Code(127), None)
                }
                end => end,
            };
        }
    }
    code_zero()
}

fn code_zero() -> End {
    End::Status(ExitStatus::Code(0), None)
}

fn refused(why: &str) -> End {
    End::Status(ExitStatus::Refused(why.to_owned()), None)
}

fn words(command: &Command) -> Vec<String> {
    command.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// One command. `None` when the program goes on.
async fn step(machine: &mut Machine, argv: &[String], cpu: Duration) -> Option<End> {
    let word = |at: usize| argv.get(at).map(String::as_str).unwrap_or_default();
    let number = |at: usize| word(at).parse::<u64>().unwrap_or(0);
    let rest = argv.get(1..).unwrap_or_default().join(" ");
    let written = match word(0) {
        "echo" => machine.out.write(Stream::Stdout, format!("{rest}\n").into()).await,
        "err" => machine.out.write(Stream::Stderr, format!("{rest}\n").into()).await,
        "bytes" => machine.out.write(Stream::Stdout, (0..=255).collect()).await,
        "yes" => flood(machine, number(1)).await,
        "cat" => copy(machine).await,
        "env" => machine.out.write(Stream::Stdout, environment(&machine.command).into()).await,
        "pwd" => {
            let line = format!("{}\n", machine.command.workdir.display());
            machine.out.write(Stream::Stdout, line.into()).await
        }
        "show" => {
            let text = file(machine, word(1)).unwrap_or_default();
            machine.out.write(Stream::Stdout, text.into()).await
        }
        _ => return silent_step(machine, argv, cpu).await,
    };
    written.err().map(End::killed)
}

async fn silent_step(machine: &mut Machine, argv: &[String], cpu: Duration) -> Option<End> {
    let word = |at: usize| argv.get(at).map(String::as_str).unwrap_or_default();
    let number = |at: usize| word(at).parse::<u64>().unwrap_or(0);
    let byte = |at: usize| word(at).parse::<u8>().unwrap_or(0);
    match word(0) {
        "gap" => machine.out.skip(Stream::Stdout, number(1)),
        "sleep" => tokio::time::sleep(Duration::from_millis(number(1))).await,
        "hang" | "wedge" => std::future::pending().await,
        "busy" => {
            tokio::time::sleep(cpu).await;
            return Some(End::killed(EndCause::CpuTime));
        }
        "child" => child(machine, number(1), word(2)),
        "balloon" if number(1) << 20 > machine.memory_bytes => {
            return Some(End::killed(EndCause::Memory));
        }
        "fork" if number(1) > u64::from(machine.pids) => {
            return Some(End::killed(EndCause::Pids));
        }
        "balloon" | "fork" => {}
        "exit" => return Some(End::Status(ExitStatus::Code(byte(1)), None)),
        "die-signal" if argv.len() == 1 => {
            return Some(End::Status(ExitStatus::Signal(SIGTERM), None));
        }
        "die-signal" => return Some(End::Status(ExitStatus::Signal(byte(1)), None)),
        "lose" => return Some(End::Silence),
        "write" | "append" | "rm" => change_file(machine, argv),
        unknown => return Some(refused(unknown)),
    }
    None
}

async fn flood(machine: &mut Machine, bytes: u64) -> Result<(), EndCause> {
    let piece = b"012345678\n".repeat(6_000);
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let count = left.min(piece.len());
        machine.out.write(Stream::Stdout, Bytes::copy_from_slice(&piece[..count])).await?;
        left -= count;
    }
    Ok(())
}

async fn copy(machine: &mut Machine) -> Result<(), EndCause> {
    while let Some(bytes) = machine.stdin.recv().await {
        machine.out.write(Stream::Stdout, bytes).await?;
    }
    Ok(())
}

fn environment(command: &Command) -> String {
    let line = |(name, value): (&std::ffi::OsString, &std::ffi::OsString)| {
        format!("{}={}\n", name.to_string_lossy(), value.to_string_lossy())
    };
    command.env.iter().map(line).collect()
}

/// A path of the sandbox on this machine.
fn outside(machine: &Machine, path: &str) -> PathBuf {
    let path = machine.command.workdir.join(path);
    let below = [WORKSPACE_DIR, WORKSPACE_ALIAS].iter().find_map(|dir| path.strip_prefix(dir).ok());
    machine.workspace.join(below.unwrap_or(Path::new("nowhere")))
}

#[expect(clippy::disallowed_methods, reason = "tests only: this plays the program inside")]
fn file(machine: &Machine, path: &str) -> Option<String> {
    let given = machine.command.files.iter().find(|file| file.path == Path::new(path));
    let content = match given {
        Some(file) => file.content.clone(),
        None => std::fs::read(outside(machine, path)).ok()?,
    };
    String::from_utf8(content).ok()
}

#[expect(clippy::disallowed_methods, reason = "tests only: this plays the program inside")]
fn change_file(machine: &Machine, argv: &[String]) {
    let path = outside(machine, argv.get(1).map(String::as_str).unwrap_or_default());
    let text = argv.get(2..).unwrap_or_default().join(" ");
    let changed = match argv[0].as_str() {
        "rm" => std::fs::remove_file(path),
        "append" => {
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            std::fs::write(path, format!("{before}{text}\n"))
        }
        _ => std::fs::write(path, text),
    };
    if let Err(error) = changed {
        tracing::debug!(%error, "a fake program could not change a file");
    }
}

#[expect(clippy::disallowed_methods, reason = "tests only: this plays the program inside")]
fn child(machine: &Machine, after_ms: u64, path: &str) {
    let (path, killed) = (outside(machine, path), machine.children.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = killed.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(after_ms)) => {
                // Whoever looks for the file sees that it is missing.
                let _ = std::fs::write(path, "alive");
            }
        }
    });
}
