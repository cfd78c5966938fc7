//! Which of a runtime's tools is in an image, and its version: found out by
//! starting it, inside.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::captured::Captured;
use super::sandboxes::AnySandbox;
use crate::backend::{EndCause, ExitStatus, ProcessEvent, Stream};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::path::WORKSPACE_DIR;
use crate::runtime::Runtime;
use crate::spec::{Command, Image, Overflow, Stdin};

/// How long a tool may take to tell its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Bytes of its answer that are kept.
const ANSWER: usize = 4096;
/// Tools asked at once.
const AT_ONCE: usize = 3;

/// What is behind `{tool}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tool {
    /// This program, of this version as far as it tells.
    Found { program: String, version: Option<String> },
    /// Nothing: none of the candidates can be started.
    Missing,
}

/// What has been found out so far.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    known: Mutex<HashMap<(Image, String), Tool>>,
    /// Held by whoever asks for the whole table.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl Tools {
    /// What is known already.
    pub(crate) fn known(&self, image: &Image, runtime: &Runtime) -> Option<Tool> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(image.clone(), runtime.id.clone())).cloned()
    }

    /// What is behind `{tool}` here; found out now if it is not known yet.
    pub(crate) async fn find(
        &self,
        image: &Image,
        runtime: &Runtime,
        sandbox: &AnySandbox,
        asking: &Asking<'_>,
    ) -> Result<Tool> {
        if let Some(tool) = self.known(image, runtime) {
            return Ok(tool);
        }
        let mut tool = Tool::Missing;
        for program in &runtime.tools {
            if let Some(version) = asking.version(sandbox, runtime, program).await? {
                tool = Tool::Found { program: program.clone(), version };
                break;
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((image.clone(), runtime.id.clone()), tool.clone());
        Ok(tool)
    }

    /// Finds out about the whole table.
    pub(crate) async fn find_all(
        &self,
        image: &Image,
        runtimes: &[Runtime],
        sandbox: &AnySandbox,
        asking: &Asking<'_>,
    ) -> Result<()> {
        let all: Vec<BoxFuture<'_, Result<Tool>>> = runtimes
            .iter()
            .map(|runtime| self.find(image, runtime, sandbox, asking).boxed())
            .collect();
        let found: Vec<Result<Tool>> =
            futures::stream::iter(all).buffer_unordered(AT_ONCE).collect().await;
        found.into_iter().try_for_each(|tool| tool.map(|_| ()))
    }
}

/// How tools are asked: with what a run would have.
#[derive(Debug)]
pub(crate) struct Asking<'engine> {
    pub(crate) base_env: &'engine BTreeMap<String, String>,
    pub(crate) fixed_env: &'engine BTreeMap<String, String>,
    pub(crate) limits: Limits,
}

impl Asking<'_> {
    /// Starts the program. `None` when it cannot be started or does not answer.
    async fn version(
        &self,
        sandbox: &AnySandbox,
        runtime: &Runtime,
        program: &str,
    ) -> Result<Option<Option<String>>> {
        let mut env = self.base_env.clone();
        env.extend(runtime.env.clone());
        env.extend(self.fixed_env.clone());
        let mut argv = vec![OsString::from(program)];
        argv.extend(runtime.version_args.iter().map(OsString::from));
        let command = Command {
            argv,
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            workdir: PathBuf::from(WORKSPACE_DIR),
            files: Vec::new(),
            stdin: Stdin::Closed,
            limits: Limits { wall_time: ANSWER_WITHIN.min(self.limits.wall_time), ..self.limits },
            overflow: Overflow::DropMiddle,
            idempotency_key: None,
        };
        let mut process = sandbox.spawn(command).await?;
        let (mut stdout, mut stderr) = (Captured::new(ANSWER), Captured::new(ANSWER));
        let answer = async {
            while let Some(event) = process.events.recv().await {
                match event {
                    ProcessEvent::Output { stream: Stream::Stdout, offset, bytes } => {
                        stdout.push(offset, &bytes);
                    }
                    ProcessEvent::Output { stream: Stream::Stderr, offset, bytes } => {
                        stderr.push(offset, &bytes);
                    }
                    ProcessEvent::Exited(exit) => return Some(exit.status),
                }
            }
            None
        };
        match timeout(ANSWER_WITHIN + Duration::from_secs(2), answer).await {
            Ok(Some(ExitStatus::Code(_))) => {
                Ok(Some(first_line(&stdout).or_else(|| first_line(&stderr))))
            }
            Ok(Some(ExitStatus::Signal(_) | ExitStatus::Refused(_))) => Ok(None),
            Ok(None) => {
                Err(Error::backend("sandbox", "asking a tool for its version", "it went away"))
            }
            Err(_) => {
                process.control.kill(EndCause::WallTime).await?;
                Ok(None)
            }
        }
    }
}

fn first_line(answer: &Captured) -> Option<String> {
    let text = answer.view(0, true).text;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
}
