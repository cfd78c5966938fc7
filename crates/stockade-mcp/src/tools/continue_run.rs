//! `continue_run`: wait for a run, read on, feed it, signal it.

use rmcp::model::{CallToolResult, Tool};
use stockade_core::request::{ContinueRun, RunState, Wait};

use super::answer::{Files, Show, run_result};
use super::{Effect, annotations};
use crate::args::Args;
use crate::call::Call;
use crate::error::Outcome;
use crate::facts::Facts;
use crate::render::excerpt::Part;
use crate::schema::{self, Schema};
use crate::wait::{Until, patience, watch};

/// Ctrl-D: the end of input, as on a terminal.
const END_OF_INPUT: char = '\u{4}';

pub(super) fn tool(facts: &Facts) -> Tool {
    let schema = Schema::default()
        .required("run", schema::text("The run's handle from an earlier answer."))
        .optional("wait_s", schema::number("Seconds to wait for its end. 0 looks only."))
        .optional(
            "input",
            schema::text("Text for its standard input, line ends included; \\u0004 at its end closes the input."),
        )
        .optional(
            "signal",
            schema::text("A signal by name: INT, TERM, … KILL ends the run and all of its processes."),
        )
        .optional("stdout_offset", schema::integer("Read standard output from this byte on."))
        .optional("stderr_offset", schema::integer("Read standard error from this byte on."))
        .build();
    Tool::new("continue_run", description(facts), schema)
        .with_title("Continue a run")
        .with_annotations(annotations(
            "Continue a run",
            Effect::Changes { open: facts.has_network() },
        ))
}

fn description(facts: &Facts) -> String {
    format!(
        "Goes on with a run that run_code or run_command left running: waits for its end (at most \
         `wait_s`, default {within}), or feeds it `input` and answers when it has answered, or sends \
         a `signal`. Also reads output that an answer left out: from `stdout_offset` or \
         `stderr_offset` on, as the answer said; without them, the beginning and the end of all \
         output. Ended runs can be read for {retention}.",
        within = facts.answer_within,
        retention = facts.run_retention,
    )
}

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let run = args.required_text("run")?.trim().to_owned();
    let wait = patience(call, "wait_s", args.number("wait_s")?)?;
    let (input, close_stdin) = input(args.text("input")?);
    let acts = input.is_some() || close_stdin;
    let look = ContinueRun {
        run,
        wait: Wait::Background,
        stdout_offset: args.integer("stdout_offset")?,
        stderr_offset: args.integer("stderr_offset")?,
        ..ContinueRun::default()
    };
    let act = ContinueRun { input, close_stdin, signal: args.name("signal")?, ..look.clone() };
    let before = call.engine.continue_run(&call.caller, look.clone()).await?;
    let files = match (before.state, look.stdout_offset.or(look.stderr_offset)) {
        (RunState::Ended, Some(_)) => Files::Known,
        _ => Files::News,
    };
    let mut view = call.engine.continue_run(&call.caller, act).await?;
    if view.state != RunState::Ended {
        let until = match acts {
            true => Until::Answered(before.stdout.total_bytes, before.stderr.total_bytes),
            false => Until::Ended,
        };
        watch(call, &view.run, wait, until).await?;
        view = call.engine.continue_run(&call.caller, look.clone()).await?;
    }
    let show = Show { stdout: part(look.stdout_offset), stderr: part(look.stderr_offset), files };
    Ok(run_result(call, &view, show).await)
}

fn input(given: Option<String>) -> (Option<String>, bool) {
    let Some(text) = given else { return (None, false) };
    match text.strip_suffix(END_OF_INPUT) {
        Some(text) => (Some(text.to_owned()).filter(|text| !text.is_empty()), true),
        None => (Some(text).filter(|text| !text.is_empty()), false),
    }
}

fn part(offset: Option<u64>) -> Part {
    match offset {
        Some(_) => Part::Next,
        None => Part::Ends,
    }
}
