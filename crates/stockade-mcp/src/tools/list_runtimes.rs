//! `list_runtimes`: languages, versions, packages, limits, networks.

use rmcp::model::{CallToolResult, Tool};
use stockade_core::request::{RuntimeView, RuntimesView};

use super::{Effect, annotations, text_result};
use crate::call::Call;
use crate::error::Outcome;
use crate::facts::network_name;
use crate::render::text::one_line;
use crate::schema::Schema;

pub(super) fn tool() -> Tool {
    Tool::new("list_runtimes", DESCRIPTION, Schema::default().build())
        .with_title("List runtimes")
        .with_annotations(annotations("List runtimes", Effect::Reads))
}

const DESCRIPTION: &str = "Lists the languages that can be run here with their aliases and versions, \
    the packages that are ready, the default limits, and which networks may be asked for.";

pub(super) async fn call(call: &mut Call<'_>) -> Outcome<CallToolResult> {
    Ok(text_result(text_of(&call.engine.runtimes(&call.caller).await?)))
}

fn text_of(view: &RuntimesView) -> String {
    let mut text = String::from("languages:\n");
    for runtime in &view.runtimes {
        text.push_str(&language(runtime));
    }
    if !view.missing.is_empty() {
        text.push_str(&format!("not on this machine: {}\n", view.missing.join(", ")));
    }
    text.push_str("limits:\n");
    for (name, limit) in &view.limits {
        text.push_str(&format!("{name}: {limit}\n"));
    }
    let networks: Vec<&str> = view.networks.iter().map(|network| network_name(*network)).collect();
    let networks = if networks.is_empty() { "none".to_owned() } else { networks.join(", ") };
    text.push_str(&format!("networks: {networks}\nwall: level {:?}\n", view.level));
    text
}

fn language(runtime: &RuntimeView) -> String {
    let mut line = runtime.language.clone();
    if let Some(version) = &runtime.version {
        line.push_str(&format!(" · {}", one_line(version)));
    }
    if !runtime.aliases.is_empty() {
        line.push_str(&format!(" · also {}", runtime.aliases.join(", ")));
    }
    if !runtime.notes.is_empty() {
        line.push_str(&format!(" · {}", one_line(&runtime.notes)));
    }
    line.push('\n');
    if !runtime.packages.is_empty() {
        line.push_str(&format!("  packages: {}\n", runtime.packages.join(", ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stockade_core::isolation::Assurance;
    use stockade_core::request::NetworkRequest;

    use super::*;

    #[test]
    fn runtimes_are_listed() {
        let view = RuntimesView {
            runtimes: vec![RuntimeView {
                language: "python".to_owned(),
                aliases: vec!["py".to_owned(), "python3".to_owned()],
                version: Some("Python 3.11.2".to_owned()),
                packages: vec!["numpy 2.3".to_owned()],
                notes: String::new(),
            }],
            missing: vec!["r".to_owned()],
            limits: BTreeMap::from([("memory".to_owned(), "512 MB".to_owned())]),
            networks: vec![NetworkRequest::None],
            level: Assurance::L2,
        };
        assert_eq!(
            text_of(&view),
            "languages:\npython · Python 3.11.2 · also py, python3\n  packages: numpy 2.3\n\
             not on this machine: r\nlimits:\nmemory: 512 MB\nnetworks: none\nwall: level L2\n"
        );
    }
}
