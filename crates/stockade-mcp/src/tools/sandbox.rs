//! `sandbox`: the life of sandboxes.

use std::time::Duration;

use rmcp::model::{CallToolResult, Tool};
use stockade_core::Error;
use stockade_core::isolation::Enforcement;
use stockade_core::limits::LimitsRequest;
use stockade_core::request::{CreateSandbox, SandboxView};

use super::options::{network, network_schema};
use super::{Effect, annotations, text_result};
use crate::args::{Args, missing};
use crate::call::Call;
use crate::error::Outcome;
use crate::facts::{Facts, network_name};
use crate::render::text::{one_line, scaled, time};
use crate::schema::{self, Schema};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Create,
    List,
    Info,
    Stop,
    /// Not in this version.
    Later(&'static str),
}

const ACTIONS: [(&str, Action); 10] = [
    ("create", Action::Create),
    ("list", Action::List),
    ("info", Action::Info),
    ("checkpoint", Action::Later("checkpoint")),
    ("diff", Action::Later("diff")),
    ("commit", Action::Later("commit")),
    ("discard", Action::Later("discard")),
    ("restore", Action::Later("restore")),
    ("fork", Action::Later("fork")),
    ("stop", Action::Stop),
];

pub(super) fn tool(facts: &Facts) -> Tool {
    let schema = Schema::default()
        .required("action", schema::choice(&ACTIONS.map(|(name, _)| name), "What to do."))
        .optional("sandbox", schema::text("Handle or name of a sandbox, for info and stop."))
        .optional(
            "name",
            schema::text(
                "create: a name of your own; an existing sandbox of that name is given back.",
            ),
        )
        .optional(
            "image",
            schema::text("create: `host` (default), or an image the operator allowed."),
        )
        .optional(
            "workspace",
            schema::text("create: name of a workspace; made if it is not there."),
        )
        .optional("ttl_s", schema::integer("create: seconds without use after which it ends."))
        .optional("memory_mb", schema::integer("create: memory of the whole sandbox in MB."))
        .optional("cpus", schema::number("create: share of the processors in cores."))
        .optional("network", network_schema(facts))
        .build();
    Tool::new("sandbox", description(facts), schema)
        .with_title("Manage sandboxes")
        .with_annotations(annotations("Manage sandboxes", Effect::Changes { open: false }))
}

fn description(facts: &Facts) -> String {
    format!(
        "Makes, lists, shows and stops sandboxes. You rarely need it: run_code and run_command make \
         one when none is given. `create` is for limits, network or a name of your own; `stop` ends \
         the runs of a sandbox and removes it, with its files unless they are in a named workspace. \
         Lifetimes: {lifetimes}; named workspaces are {workspaces}. checkpoint, diff, commit, discard, \
         restore and fork are not supported yet.",
        lifetimes = facts.lifetimes,
        workspaces = facts.workspaces,
    )
}

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    match args.choice("action", &ACTIONS)?.ok_or_else(|| missing("action"))? {
        Action::Create => create(call, args).await,
        Action::List => list(call).await,
        Action::Info => {
            let view = call.engine.sandbox(&call.caller, &which(&mut args)?).await?;
            Ok(text_result(info(&view)))
        }
        Action::Stop => {
            let sandbox = which(&mut args)?;
            call.engine.stop_sandbox(&call.caller, &sandbox).await?;
            Ok(text_result(format!("stopped: sandbox {}", one_line(&sandbox))))
        }
        Action::Later(feature) => Err(Error::Unsupported {
            feature,
            hint:
                "this version has create, list, info and stop; copy what you want to keep into a \
                   named workspace"
                    .to_owned(),
        }
        .into()),
    }
}

fn which(args: &mut Args) -> Outcome<String> {
    let sandbox = args.name("sandbox")?;
    let name = args.name("name")?;
    sandbox.or(name).ok_or_else(|| missing("sandbox"))
}

async fn create(call: &Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let sandbox = args.name("sandbox")?;
    let request = CreateSandbox {
        name: args.name("name")?.or(sandbox),
        image: args.name("image")?,
        workspace: args.name("workspace")?,
        ttl_s: args.integer("ttl_s")?,
        limits: LimitsRequest {
            memory_mb: args.integer("memory_mb")?,
            cpus: args.number("cpus")?,
            ..LimitsRequest::default()
        },
        network: network(&mut args)?,
    };
    let view = call.engine.create_sandbox(&call.caller, request).await?;
    Ok(text_result(format!("ready: {}", info(&view))))
}

async fn list(call: &Call<'_>) -> Outcome<CallToolResult> {
    let views = call.engine.sandboxes(&call.caller).await?;
    if views.is_empty() {
        return Ok(text_result("You have no sandboxes; run_code and run_command make one."));
    }
    let lines: Vec<String> = views.iter().map(summary).collect();
    Ok(text_result(format!("{} of yours\n{}\n", lines.len(), lines.join("\n"))))
}

fn summary(view: &SandboxView) -> String {
    let mut parts = vec![format!("sandbox {}", view.sandbox)];
    parts.extend(view.name.as_ref().map(|name| format!("name {}", one_line(name))));
    parts.extend(view.workspace.as_ref().map(|name| format!("workspace {name}")));
    parts.push(format!("network {}", network_name(view.network)));
    parts.push(match view.memory_bytes {
        Some(used) => format!("memory {} of {} MB", scaled(used), view.memory_mb),
        None => format!("memory {} MB", view.memory_mb),
    });
    parts.push(match view.active_runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    });
    parts.push(format!("age {}", time(Duration::from_secs(view.age_s))));
    parts.join(" · ")
}

fn info(view: &SandboxView) -> String {
    let idle = time(Duration::from_secs(view.idle_ttl_s));
    let left = time(Duration::from_secs(view.expires_in_s));
    let mut text = format!(
        "{}\nimage {} · ends after {idle} without use, in {left} in any case\nwall: level {:?}\n",
        summary(view),
        one_line(&view.image),
        view.isolation.level
    );
    for (layer, enforcement) in &view.isolation.layers {
        let gap = match enforcement {
            Enforcement::Full { .. } => continue,
            Enforcement::Partial { gap, .. } => format!("enforced in part: {gap}"),
            Enforcement::Absent { reason, .. } => format!("not enforced: {reason}"),
        };
        text.push_str(&format!("{}: {}\n", layer.name(), one_line(&gap)));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stockade_core::isolation::{Assurance, Isolation, Layer};
    use stockade_core::request::NetworkRequest;

    use super::*;

    #[test]
    fn a_sandbox_is_described_with_its_gaps() {
        let full = Enforcement::Full { by: "mount namespace".to_owned() };
        let absent = Enforcement::Absent {
            reason: "no cgroup is writable".to_owned(),
            remedy: "systemd-run --user".to_owned(),
        };
        let view = SandboxView {
            sandbox: "calm-otter-1".to_owned(),
            name: Some("mine".to_owned()),
            workspace: Some("analysis".to_owned()),
            image: "host".to_owned(),
            network: NetworkRequest::None,
            active_runs: 1,
            age_s: 61,
            idle_ttl_s: 1800,
            expires_in_s: 86_000,
            memory_mb: 512,
            memory_bytes: Some(34 << 20),
            isolation: Isolation {
                level: Assurance::L2,
                layers: BTreeMap::from([(Layer::Filesystem, full), (Layer::Memory, absent)]),
            },
        };
        assert_eq!(
            info(&view),
            "sandbox calm-otter-1 · name mine · workspace analysis · network none · memory 34 MB of \
             512 MB · 1 run · age 1 min 1 s\n\
             image host · ends after 30 min without use, in 23 h 53 min in any case\n\
             wall: level L2\n\
             memory: not enforced: no cgroup is writable\n"
        );
    }
}
