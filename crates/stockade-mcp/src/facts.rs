//! What the engine is like, in the words of tool descriptions. Generated from
//! its settings, so that a description is never a promise that does not hold.

use std::collections::BTreeMap;

use stockade_core::engine::Settings;
use stockade_core::limits::Limits;
use stockade_core::request::{NetworkRequest, RuntimesView};

use crate::render::text::{one_line, scaled, time};

/// Most languages and packages that a description names; list_runtimes has them all.
const MOST_NAMES: usize = 14;

/// The phrases that descriptions are made of.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// `python 3.11.2, typescript, shell 5.2`.
    pub(crate) languages: String,
    /// `python: numpy, pandas; javascript: pg`; empty when none is ready.
    pub(crate) packages: String,
    /// `30 s (at most 10 min), 512 MB memory, …`.
    pub(crate) limits: String,
    /// The networks that may be asked for, `none` first.
    pub(crate) networks: Vec<&'static str>,
    /// How long a call waits: `25 s`.
    pub(crate) answer_within: String,
    /// How long a sandbox and an ended run live.
    pub(crate) lifetimes: String,
    /// `Workspaces are kept until removed` or for how long.
    pub(crate) workspaces: String,
    /// How long an ended run can be asked for.
    pub(crate) run_retention: String,
}

impl Facts {
    /// From the settings, and from the probed runtimes once these are known.
    pub(crate) fn new(settings: &Settings, probed: Option<&RuntimesView>) -> Self {
        Self {
            languages: languages(settings, probed),
            packages: packages(&settings.packages),
            limits: limits(&settings.default_limits, &settings.ceiling),
            networks: networks(&settings.networks),
            answer_within: time(settings.answer_within),
            lifetimes: format!(
                "a sandbox ends after {} without use and after {} in any case",
                time(settings.sandbox_idle),
                time(settings.sandbox_life)
            ),
            workspaces: match settings.workspace_idle {
                Some(idle) => format!("kept for {} after last use", time(idle)),
                None => "kept until removed".to_owned(),
            },
            run_retention: time(settings.run_retention),
        }
    }

    /// Whether programs can reach anything outside.
    pub(crate) fn has_network(&self) -> bool {
        self.networks.len() > 1
    }

    /// One sentence about the network.
    pub(crate) fn network_sentence(&self) -> String {
        match self.has_network() {
            true => format!("Network: none unless asked for ({}).", self.networks.join(", ")),
            false => "Network: none.".to_owned(),
        }
    }
}

/// The name of a network as callers write it.
pub(crate) const fn network_name(network: NetworkRequest) -> &'static str {
    match network {
        NetworkRequest::None => "none",
        NetworkRequest::Packages => "packages",
        NetworkRequest::Allowlist => "allowlist",
        NetworkRequest::Open => "open",
    }
}

fn networks(allowed: &[NetworkRequest]) -> Vec<&'static str> {
    let mut names = vec![network_name(NetworkRequest::None)];
    for network in allowed {
        let name = network_name(*network);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn languages(settings: &Settings, probed: Option<&RuntimesView>) -> String {
    let names: Vec<String> = match probed {
        Some(view) => view
            .runtimes
            .iter()
            .map(|runtime| match runtime.version.as_deref().and_then(version_number) {
                Some(version) => format!("{} {version}", runtime.language),
                None => runtime.language.clone(),
            })
            .collect(),
        None => settings.runtimes.iter().map(|runtime| runtime.id.clone()).collect(),
    };
    listed(&names)
}

fn packages(ready: &BTreeMap<String, Vec<String>>) -> String {
    let of = |(language, packages): (&String, &Vec<String>)| {
        let names: Vec<String> = packages
            .iter()
            .filter_map(|package| package.split_whitespace().next())
            .map(str::to_owned)
            .collect();
        (!names.is_empty()).then(|| format!("{language}: {}", listed(&names)))
    };
    ready.iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| one_line(name)).collect();
    let more = if names.len() > MOST_NAMES { " and more" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// `3.11.2` out of `Python 3.11.2`, `v20.1.0` or `go version go1.22.1 linux/amd64`.
pub(crate) fn version_number(text: &str) -> Option<&str> {
    let word = text.split(|c: char| c.is_whitespace() || c == ',' || c == '(').find(|word| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        digits.contains('.') && digits.starts_with(|c: char| c.is_ascii_digit())
    })?;
    let number = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    Some(number[..end].trim_end_matches('.'))
}

fn limits(default: &Limits, ceiling: &Limits) -> String {
    format!(
        "{} per run (timeout_s up to {}), {} memory, {} processes, {} core(s)",
        time(default.wall_time),
        time(ceiling.wall_time),
        scaled(default.memory_bytes),
        default.pids,
        f64::from(default.cpu_millis) / 1000.0
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use stockade_core::runtime::Runtime;

    use super::*;

    /// Settings as a fresh machine has them.
    pub(crate) fn settings() -> Settings {
        let runtime = |id: &str| Runtime {
            id: id.to_owned(),
            aliases: Vec::new(),
            extension: "x".to_owned(),
            run: Vec::new(),
            build: Vec::new(),
            tools: Vec::new(),
            version_args: Vec::new(),
            env: BTreeMap::new(),
            place: stockade_core::runtime::Place::Private,
            min_memory_mb: 0,
            notes: String::new(),
        };
        let ready = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Settings {
            data_dir: PathBuf::from("/var/lib/stockade"),
            default_limits: Limits::DEFAULT,
            ceiling: Limits::CEILING,
            required_layers: Vec::new(),
            networks: vec![NetworkRequest::None, NetworkRequest::Open],
            host_mounts: BTreeMap::new(),
            image_roots: Vec::new(),
            runtimes: [
                "python",
                "typescript",
                "javascript",
                "shell",
                "go",
                "c",
                "cpp",
                "rust",
                "java",
                "ruby",
                "perl",
                "php",
                "r",
            ]
            .map(runtime)
            .to_vec(),
            packages: BTreeMap::from([
                ("python".to_owned(), ready(&["numpy 2.3.1", "pandas 2.3.0", "matplotlib 3.10"])),
                ("javascript".to_owned(), ready(&["pg 8.16", "csv-parser 3.2"])),
            ]),
            base_env: BTreeMap::new(),
            fixed_env: BTreeMap::new(),
            max_concurrent: 4,
            max_queued: 64,
            answer_within: Duration::from_secs(25),
            sandbox_idle: Duration::from_secs(1800),
            sandbox_life: Duration::from_secs(86_400),
            max_sandboxes_per_owner: 20,
            workspace_idle: None,
            run_retention: Duration::from_secs(3600),
            workspace_bytes: 1 << 30,
        }
    }

    #[test]
    fn facts_come_from_the_settings() {
        let facts = Facts::new(&settings(), None);
        assert!(facts.languages.starts_with("python, typescript, javascript, shell, go"));
        assert_eq!(facts.packages, "javascript: pg, csv-parser; python: numpy, pandas, matplotlib");
        assert_eq!(
            facts.limits,
            "30 s per run (timeout_s up to 10 min), 512 MB memory, 128 processes, 1 core(s)"
        );
        assert_eq!(facts.networks, ["none", "open"]);
        assert_eq!(facts.network_sentence(), "Network: none unless asked for (none, open).");
    }

    #[test]
    fn versions_are_found_in_what_tools_print() {
        for (text, expected) in [
            ("Python 3.11.2", Some("3.11.2")),
            ("v20.19.1", Some("20.19.1")),
            ("go version go1.22.1 linux/amd64", Some("1.22.1")),
            ("GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)", Some("5.2.15")),
            ("gcc (Debian 12.2.0-14) 12.2.0", Some("12.2.0")),
            ("bun 1.3", Some("1.3")),
            ("no digits", None),
            ("", None),
        ] {
            assert_eq!(version_number(text), expected, "{text}");
        }
    }
}
