//! `stockade run`: one program, its output live, its exit code passed on.
#![expect(clippy::print_stdout, reason = "the outcome as JSON goes there")]
#![expect(clippy::print_stderr, reason = "notes for people go there")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use stockade_core::backend::Stream;
use stockade_core::caller::Caller;
use stockade_core::engine::{Engine, RunEvent, RunWatch};
use stockade_core::limits::LimitsRequest;
use stockade_core::outcome::{Outcome, Verdict};
use stockade_core::request::{NetworkRequest, RunCode, RunOptions, StdinRequest, Wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{OURS, USAGE, block_on};
use crate::config::Config;
use crate::{assembly, logs};

/// As `timeout` from coreutils has it.
const TIMED_OUT: u8 = 124;
/// As shells have it: found but not executable, or not found.
const NOT_STARTED: u8 = 126;
/// As a shell reports a program that SIGPIPE ended.
const READER_GONE: u8 = 141;
/// Longest program, in bytes; the engine takes no longer one.
const LONGEST_PROGRAM: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The language: python, typescript, shell, go … (`stockade doctor` lists them)
    language: String,
    /// A file with the program; `-` reads it from standard input
    #[arg(required_unless_present = "code", conflicts_with = "code")]
    file: Option<PathBuf>,
    /// The program as text
    #[arg(short = 'c', long, value_name = "CODE", allow_hyphen_values = true)]
    code: Option<String>,
    /// Arguments of the program
    #[arg(last = true)]
    args: Vec<String>,
    /// Print the whole outcome as JSON instead of the output
    #[arg(long)]
    json: bool,
    /// Run in this workspace, made when it is not there; files stay in it
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Wall time in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Memory in MiB
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Processor share in cores
    #[arg(long, value_name = "CORES")]
    cpus: Option<f64>,
    /// Which network
    #[arg(long, value_enum, default_value = "none")]
    network: NetworkName,
    /// An environment variable; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Pass our standard input to the program
    #[arg(long)]
    stdin: bool,
    /// Print the value of the last expression, where the language can
    #[arg(long)]
    echo: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NetworkName {
    None,
    Packages,
    Allowlist,
    Open,
}

impl From<NetworkName> for NetworkRequest {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::None => Self::None,
            NetworkName::Packages => Self::Packages,
            NetworkName::Allowlist => Self::Allowlist,
            NetworkName::Open => Self::Open,
        }
    }
}

pub(super) fn carry_out(run: Run, config: &Config) -> Result<ExitCode> {
    let mut log = config.log.clone();
    if config.shown.iter().any(|row| row.key == "log.level" && row.origin == "default") {
        // The program's output is what people want to see here.
        "error".clone_into(&mut log.level);
    }
    logs::start(&log);
    let json = run.json;
    let request = match request(run) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("stockade: {error:#}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    let backend = assembly::backend(&config.data_dir)?;
    let store = assembly::store(&config.data_dir)?;
    block_on(async {
        let engine = assembly::engine(config, backend, store).await?;
        let done = tokio::select! {
            done = carry_through(&engine, request, json) => done,
            stopped = super::serve::stop_signal() => stopped.map(|()| ExitCode::from(130)),
        };
        engine.shutdown(Duration::ZERO).await;
        done
    })
}

fn request(run: Run) -> Result<RunCode> {
    let from_stdin = run.file.as_deref() == Some(std::path::Path::new("-"));
    if from_stdin && run.stdin {
        anyhow::bail!("--stdin: standard input cannot be both the program (`-`) and its input");
    }
    let code = match (run.code, &run.file) {
        (Some(code), _) => code,
        (None, _) if from_stdin => program(std::io::stdin()).context("reading the program")?,
        (None, Some(file)) => std::fs::File::open(file)
            .map_err(Into::into)
            .and_then(program)
            .with_context(|| format!("reading the program {}", file.display()))?,
        (None, None) => String::new(),
    };
    let mut env = BTreeMap::new();
    for pair in run.env {
        let (name, value) =
            pair.split_once('=').with_context(|| format!("--env {pair:?}: must be NAME=VALUE"))?;
        env.insert(name.to_owned(), value.to_owned());
    }
    Ok(RunCode {
        code,
        language: run.language,
        options: RunOptions {
            workspace: run.workspace,
            stdin: run.stdin.then_some(StdinRequest::Open),
            env,
            network: Some(run.network.into()),
            limits: LimitsRequest {
                timeout_s: run.timeout,
                memory_mb: run.memory,
                cpus: run.cpus,
                ..LimitsRequest::default()
            },
            wait: Wait::Forever,
            ephemeral: true,
            lossless: !run.json,
            ..RunOptions::default()
        },
        packages: Vec::new(),
        args: run.args,
        echo: run.echo,
    })
}

/// A program from where it stands. Some files have no end, so no more is read than is taken.
fn program(from: impl Read) -> Result<String> {
    let mut code = Vec::new();
    from.take(LONGEST_PROGRAM + 1).read_to_end(&mut code)?;
    if code.len() as u64 > LONGEST_PROGRAM {
        anyhow::bail!("it is longer than 16 MiB; put data into files of a workspace instead");
    }
    String::from_utf8(code).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("it is not UTF-8 text (at byte {at}); convert it, for example with iconv")
    })
}

async fn carry_through(engine: &Arc<Engine>, request: RunCode, json: bool) -> Result<ExitCode> {
    let caller = Caller::local();
    let feeds = matches!(request.options.stdin, Some(StdinRequest::Open));
    let mut watch = match engine.stream_code(&caller, request).await {
        Ok(watch) => watch,
        Err(error) => {
            eprintln!("stockade: {error}");
            return Ok(ExitCode::from(if error.code() == "invalid" { USAGE } else { OURS }));
        }
    };
    let feeder =
        feeds.then(|| tokio::spawn(feed(engine.clone(), caller.clone(), watch.run.clone())));
    let passed = pass_output(&mut watch, json).await;
    if let Some(feeder) = feeder {
        feeder.abort();
    }
    let outcome = match passed {
        Ok(outcome) => outcome.context("the run ended without a verdict")?,
        // Whoever read our output has had enough, as in `stockade run … | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::from(READER_GONE));
        }
        Err(error) => return Err(error.into()),
    };
    if json {
        let view = engine.run(&caller, &watch.run).await?;
        println!("{}", serde_json::to_string_pretty(&view)?);
    } else {
        explain(engine, &caller, &watch.run, &outcome).await;
    }
    Ok(ExitCode::from(exit_code(&outcome)))
}

/// Writes the output as it comes, until the end.
async fn pass_output(watch: &mut RunWatch, json: bool) -> std::io::Result<Option<Outcome>> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let mut outcome = None;
    while let Some(event) = watch.events.recv().await {
        match event {
            RunEvent::Output { .. } if json => {}
            RunEvent::Output { stream: Stream::Stdout, bytes, .. } => {
                stdout.write_all(&bytes).await?;
                stdout.flush().await?;
            }
            RunEvent::Output { stream: Stream::Stderr, bytes, .. } => {
                // Whoever closed it does not want notes; the output is still wanted.
                if stderr.write_all(&bytes).await.is_ok() {
                    let _ = stderr.flush().await;
                }
            }
            RunEvent::Ended(ended) => outcome = Some(ended),
        }
    }
    Ok(outcome)
}

/// Passes our standard input on until it or the run ends.
async fn feed(engine: Arc<Engine>, caller: Caller, run: String) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
        let bytes = bytes::Bytes::copy_from_slice(&buffer[..count]);
        if engine.feed_patiently(&caller, &run, bytes).await.is_err() {
            return;
        }
    }
    // Fails only when the run is over already.
    let _ = engine.close_stdin(&caller, &run).await;
}

/// Says what the exit code cannot.
async fn explain(engine: &Engine, caller: &Caller, run: &str, outcome: &Outcome) {
    if matches!(outcome.verdict, Verdict::Ok | Verdict::Nonzero) {
        return;
    }
    let detail = outcome.detail.as_deref().unwrap_or_default();
    let name = outcome.verdict.name();
    match (outcome.verdict, outcome.signal) {
        (Verdict::Signal, Some(signal)) => eprintln!("stockade: ended by signal {signal} {detail}"),
        _ if detail.is_empty() => eprintln!("stockade: {name}"),
        _ => eprintln!("stockade: {name}: {detail}"),
    }
    for hint in engine.run(caller, run).await.map(|view| view.hints).unwrap_or_default() {
        eprintln!("stockade: {hint}");
    }
}

fn exit_code(outcome: &Outcome) -> u8 {
    match outcome.verdict {
        Verdict::Ok => 0,
        Verdict::Nonzero => outcome.exit_code.unwrap_or(1),
        Verdict::Timeout => TIMED_OUT,
        Verdict::Refused => NOT_STARTED,
        Verdict::Lost | Verdict::Internal => OURS,
        Verdict::Signal
        | Verdict::CpuLimit
        | Verdict::MemoryLimit
        | Verdict::PidsLimit
        | Verdict::OutputLimit
        | Verdict::DiskLimit
        | Verdict::Cancelled => match (outcome.exit_code, outcome.signal) {
            (Some(code), _) if code != 0 => code,
            (_, Some(signal)) => 128 | signal,
            _ => 137,
        },
    }
}
