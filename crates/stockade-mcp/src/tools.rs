//! The tools of the default profile: one file each, in the order in which they are listed.

mod answer;
mod continue_run;
mod list_files;
mod list_runtimes;
mod options;
mod read_file;
mod run_code;
mod run_command;
mod sandbox;
mod write_file;

use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};

use crate::args::Args;
use crate::call::Call;
use crate::error::{Failure, Outcome};
use crate::facts::Facts;

/// Every tool, in a stable order.
pub(crate) fn all(facts: &Facts) -> Vec<Tool> {
    vec![
        run_code::tool(facts),
        run_command::tool(facts),
        continue_run::tool(facts),
        read_file::tool(),
        write_file::tool(),
        list_files::tool(),
        sandbox::tool(facts),
        list_runtimes::tool(),
    ]
}

/// Carries out one call of a tool that [`all`] names.
pub(crate) async fn run(name: &str, call: &mut Call<'_>, args: Args) -> Outcome<CallToolResult> {
    match name {
        "run_code" => run_code::call(call, args).await,
        "run_command" => run_command::call(call, args).await,
        "continue_run" => continue_run::call(call, args).await,
        "read_file" => read_file::call(call, args).await,
        "write_file" => write_file::call(call, args).await,
        "list_files" => list_files::call(call, args).await,
        "sandbox" => sandbox::call(call, args).await,
        "list_runtimes" => list_runtimes::call(call).await,
        other => Err(Failure::argument("name", format!("no tool is called {other}"))),
    }
}

/// What a tool does to the world, for clients that ask their user.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// Looks only.
    Reads,
    /// May change or remove things; `open` when it can reach beyond the sandbox.
    Changes { open: bool },
}

fn annotations(title: &str, effect: Effect) -> ToolAnnotations {
    let annotations = ToolAnnotations::with_title(title);
    match effect {
        Effect::Reads => {
            annotations.read_only(true).destructive(false).idempotent(true).open_world(false)
        }
        Effect::Changes { open } => {
            annotations.read_only(false).destructive(true).idempotent(false).open_world(open)
        }
    }
}

fn text_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}
