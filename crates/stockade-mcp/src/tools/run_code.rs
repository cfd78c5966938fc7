//! `run_code`: a program in a language.

use rmcp::model::{CallToolResult, Tool};
use stockade_core::request::RunCode;

use super::answer::{Show, run_result};
use super::options::{run_options, with_run_options};
use super::{Effect, annotations};
use crate::args::Args;
use crate::call::Call;
use crate::error::Outcome;
use crate::facts::Facts;
use crate::schema::{self, Schema};
use crate::wait;

pub(super) fn tool(facts: &Facts) -> Tool {
    let schema = Schema::default()
        .required("code", schema::text("The whole program."))
        .required("language", schema::text("Name or alias of the language, for example python."))
        .optional(
            "packages",
            schema::texts("Packages the program needs, beside those that are ready."),
        )
        .optional("args", schema::texts("Arguments of the program."))
        .optional("fresh", schema::flag("Start with nothing kept in the interpreter."));
    let schema = with_run_options(schema, facts).build();
    Tool::new("run_code", description(facts), schema)
        .with_title("Run code")
        .with_annotations(annotations("Run code", Effect::Changes { open: facts.has_network() }))
}

fn description(facts: &Facts) -> String {
    let packages = match facts.packages.as_str() {
        "" => String::new(),
        packages => format!(" Packages ready: {packages}."),
    };
    format!(
        "Runs a program in an isolated Linux sandbox. Languages: {languages}.{packages} \
         Each call is a new process in /workspace: variables are gone afterwards, files last. Give a \
         `workspace` name, or the `sandbox` handle from an earlier answer, to find them again. Save charts as files (png, jpeg, gif, webp): \
         they are shown as images, other files are linked. The last expression's value is printed \
         where the language can. {network} Limits: {limits}. A run of more than {within} goes on \
         behind the answer: follow it with continue_run.",
        languages = facts.languages,
        network = facts.network_sentence(),
        limits = facts.limits,
        within = facts.answer_within,
    )
}

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let request = RunCode {
        code: args.required_text("code")?,
        language: args.required_text("language")?.trim().to_owned(),
        packages: args.packages("packages")?,
        args: args.words("args")?,
        echo: true,
        options: stockade_core::request::RunOptions {
            fresh: args.flag("fresh")?.unwrap_or_default(),
            ..run_options(&mut args)?
        },
    };
    let within = call.engine.settings().answer_within;
    let started = call.engine.run_code(&call.caller, request).await?;
    let view = wait::follow(call, started, within).await?;
    Ok(run_result(call, &view, Show::FIRST).await)
}
