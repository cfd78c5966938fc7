//! Arguments that several tools share.

use serde_json::Value;
use stockade_core::limits::LimitsRequest;
use stockade_core::request::{FilePlace, NetworkRequest, RunOptions, StdinRequest};

use crate::args::Args;
use crate::error::{Failure, Outcome};
use crate::facts::Facts;
use crate::schema::{self, Schema};
use crate::wait;

const NETWORKS: [(&str, NetworkRequest); 4] = [
    ("none", NetworkRequest::None),
    ("packages", NetworkRequest::Packages),
    ("allowlist", NetworkRequest::Allowlist),
    ("open", NetworkRequest::Open),
];

/// Adds the arguments of [`run_options`] to a schema.
pub(super) fn with_run_options(schema: Schema, facts: &Facts) -> Schema {
    schema
        .optional("sandbox", sandbox_schema())
        .optional(
            "workspace",
            schema::text("Name of a workspace to run in; made if it is not there."),
        )
        .optional(
            "stdin",
            schema::text("Text for standard input. Without it, input is at its end."),
        )
        .optional("env", schema::dictionary("Environment variables to add."))
        .optional("network", network_schema(facts))
        .optional("timeout_s", schema::number("Seconds after which the run is ended."))
        .optional(
            "idempotency_key",
            schema::text(
                "A second call with the same key gives the first run instead of a new one.",
            ),
        )
}

pub(super) fn sandbox_schema() -> Value {
    schema::text("Handle or name of a sandbox from an earlier answer.")
}

pub(super) fn network_schema(facts: &Facts) -> Value {
    let networks = facts.networks.join(", ");
    schema::choice(
        &NETWORKS.map(|(name, _)| name),
        format!("Which network the program has. The operator allows: {networks}."),
    )
}

/// Where and how something runs.
pub(super) fn run_options(args: &mut Args) -> Outcome<RunOptions> {
    Ok(RunOptions {
        sandbox: args.name("sandbox")?,
        workspace: args.name("workspace")?,
        stdin: args.text("stdin")?.map(StdinRequest::Text),
        env: args.dictionary("env")?,
        network: network(args)?,
        limits: LimitsRequest { timeout_s: args.number("timeout_s")?, ..LimitsRequest::default() },
        idempotency_key: args.name("idempotency_key")?,
        wait: wait::START,
        ..RunOptions::default()
    })
}

pub(super) fn network(args: &mut Args) -> Outcome<Option<NetworkRequest>> {
    args.choice("network", &NETWORKS)
}

/// Adds the arguments of [`place`] to a schema.
pub(super) fn with_place(schema: Schema) -> Schema {
    schema
        .optional("sandbox", schema::text("Handle or name of the sandbox whose files are meant."))
        .optional("workspace", schema::text("Name of the workspace, instead of a sandbox."))
}

/// Whose files are meant.
pub(super) fn place(args: &mut Args) -> Outcome<FilePlace> {
    let place = FilePlace { sandbox: args.name("sandbox")?, workspace: args.name("workspace")? };
    match (&place.sandbox, &place.workspace) {
        (Some(_), Some(_)) => {
            Err(Failure::argument("workspace", "came together with `sandbox`; give one of them"))
        }
        (None, None) => Err(Failure::argument(
            "sandbox",
            "is missing, and so is `workspace`; give the handle from an earlier answer or the name \
             of a workspace",
        )),
        _ => Ok(place),
    }
}
