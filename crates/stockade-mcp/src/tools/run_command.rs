//! `run_command`: a shell command, or a program with arguments.

use std::time::Duration;

use rmcp::model::{CallToolResult, Tool};
use stockade_core::request::{CommandLine, RunCommand, StdinRequest};

use super::answer::{Show, run_result};
use super::options::{run_options, with_run_options};
use super::{Effect, annotations};
use crate::args::{Args, TextOrList, missing};
use crate::call::Call;
use crate::error::{Failure, Outcome};
use crate::facts::Facts;
use crate::schema::{self, Schema};
use crate::wait::{self, patience};

pub(super) fn tool(facts: &Facts) -> Tool {
    let schema = Schema::default()
        .optional("command", schema::text("A command for the shell. Give this or `argv`."))
        .optional("argv", schema::texts("Program and arguments, without a shell."))
        .optional("workdir", schema::text("Directory in /workspace to start in."))
        .optional(
            "yield_s",
            schema::number("Seconds to wait for the end before the answer; the run then goes on."),
        )
        .optional("background", schema::flag("Answer at once and let it run."));
    let schema = with_run_options(schema, facts).build();
    Tool::new("run_command", description(facts), schema)
        .with_title("Run a command")
        .with_annotations(annotations(
            "Run a command",
            Effect::Changes { open: facts.has_network() },
        ))
}

fn description(facts: &Facts) -> String {
    format!(
        "Runs a shell command (`command`) or a program with arguments (`argv`) in an isolated Linux \
         sandbox, in /workspace. Files there last: give a `workspace` name, or the `sandbox` handle \
         from an earlier answer; other state of the shell does not. {network} Limits: {limits}. \
         It answers at the end of the command, or after `yield_s` (default {within}) with a run \
         handle while the command goes on; `background` answers at once. With `yield_s` or \
         `background`, standard input stays open for continue_run; otherwise it is at its end.",
        network = facts.network_sentence(),
        limits = facts.limits,
        within = facts.answer_within,
    )
}

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let command = command_line(&mut args)?;
    let yield_s = args.number("yield_s")?;
    let background = args.flag("background")?.unwrap_or_default();
    let wait = match background {
        true => Duration::ZERO,
        false => patience(call, "yield_s", yield_s)?,
    };
    let mut options = run_options(&mut args)?;
    options.workdir = args.name("workdir")?;
    if background || yield_s.is_some() {
        options.stdin.get_or_insert(StdinRequest::Open);
    }
    let started = call.engine.run_command(&call.caller, RunCommand { command, options }).await?;
    let view = wait::follow(call, started, wait).await?;
    Ok(run_result(call, &view, Show::FIRST).await)
}

/// A list under either name is program and arguments, a text under either is for the shell.
fn command_line(args: &mut Args) -> Outcome<CommandLine> {
    let given = match (args.text_or_list("command")?, args.text_or_list("argv")?) {
        (Some(_), Some(_)) => {
            return Err(Failure::argument(
                "argv",
                "came together with `command`; give one of them",
            ));
        }
        (None, None) => return Err(missing("command")),
        (Some(given), None) | (None, Some(given)) => given,
    };
    match given {
        TextOrList::Text(text) if text.trim().is_empty() => {
            Err(Failure::argument("command", "is empty; example: \"ls -la\""))
        }
        TextOrList::Text(text) => Ok(CommandLine::Shell(text)),
        TextOrList::List(list) if list.first().is_none_or(String::is_empty) => {
            Err(Failure::argument("argv", "names no program; example: [\"ls\", \"-la\"]"))
        }
        TextOrList::List(list) => Ok(CommandLine::Argv(list)),
    }
}
