//! Configuration: precedence, origins, and every problem at once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use stockade_core::isolation::Layer;
use stockade_core::request::NetworkRequest;
use stockade_server::config::{Config, Inputs, KEYS, load};

fn inputs(file: &str, variables: &[(&str, &str)]) -> Inputs {
    Inputs {
        data_dir: PathBuf::from("/data"),
        file: Some((PathBuf::from("/conf.toml"), file.to_owned())),
        environment: variables.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect(),
        flags: Vec::new(),
        cores: 3,
    }
}

#[track_caller]
fn good(file: &str, variables: &[(&str, &str)]) -> Config {
    load(&inputs(file, variables)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

#[track_caller]
fn bad(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    match load(&inputs(file, variables)) {
        Ok(_) => panic!("{file:?} {variables:?} was accepted"),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// One wrong value gives one problem that has all of these words.
#[track_caller]
fn check(file: &str, words: &[&str]) {
    let problems = bad(file, &[]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    for word in words {
        assert!(problems[0].contains(word), "{:?} lacks {word:?}", problems[0]);
    }
}

#[test]
fn nothing_configured_is_safe() {
    let config = good("", &[]);
    assert!(config.server.listen.ip().is_loopback());
    assert_eq!(config.policy.networks, []);
    assert_eq!(config.engine.max_concurrent, 6, "twice the cores");
    assert_eq!(config.default_limits.wall_time, Duration::from_secs(30));
    assert_eq!(config.default_limits.memory_bytes, 512 << 20);
    for layer in [Layer::Filesystem, Layer::Processes, Layer::Network, Layer::Syscalls] {
        assert!(config.policy.required_layers.contains(&layer), "{layer:?}");
    }
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let file = "server.listen = \"127.0.0.1:1\"\nlimits.default.memory_mb = 100";
    assert_eq!(good(file, &[]).server.listen.port(), 1);
    let variables = [("STOCKADE_LISTEN", "127.0.0.1:2")];
    let config = good(file, &variables);
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.default_limits.memory_bytes, 100 << 20);
    let mut inputs = inputs(file, &variables);
    inputs.flags.push(("server.listen", "127.0.0.1:3".to_owned(), "--listen"));
    let config = load(&inputs).unwrap();
    assert_eq!(config.server.listen.port(), 3);
    let origin = |key: &str| {
        config.shown.iter().find(|row| row.key == key).map(|row| row.origin.clone()).unwrap()
    };
    assert_eq!(origin("server.listen"), "--listen");
    assert_eq!(origin("limits.default.memory_mb"), "/conf.toml");
    assert_eq!(origin("limits.default.pids"), "default");
}

#[test]
fn every_key_can_be_set_by_its_variable() {
    for key in KEYS {
        let value = match key.name {
            "server.listen" => "127.0.0.1:9",
            "server.public_base_url" => "https://example.com",
            "log.format" => "json",
            "log.level" => "debug",
            "policy.networks" => "none,open",
            "policy.required_layers" => "filesystem",
            name if name.ends_with("s") && key.default.starts_with('[') => "/a,/b",
            _ => key.default,
        };
        let value = if value.is_empty() { "7" } else { value };
        let variable = key.variable();
        let config = good("", &[(&variable, value)]);
        let row = config.shown.iter().find(|row| row.key == key.name).unwrap();
        assert_eq!(row.origin, format!("${variable}"));
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    check("server.lisen = \"x\"", &["/conf.toml", "server.lisen", "server.listen"]);
    check("[limits.default]\ntimeout = 3", &["limits.default.timeout", "limits.default.timeout_s"]);
    let problems = bad("", &[("STOCKADE_LISTEM", "x")]);
    assert!(problems[0].contains("STOCKADE_LISTEN"), "{problems:?}");
    // Those that are ours but no keys.
    good("", &[("STOCKADE_ADMIN_KEY", "secret"), ("STOCKADE_DATA_DIR", "/data")]);
}

#[test]
fn all_problems_are_told_at_once() {
    let file = "server.listen = 5\nlog.format = \"xml\"\nnonsense = true\n\
                limits.default.pids = 0\nlimits.default.timeout_s = 1e9";
    let problems = bad(file, &[("STOCKADE_WHAT", "x"), ("STOCKADE_ENGINE_MAX_QUEUED", "many")]);
    for word in [
        "server.listen",
        "log.format",
        "nonsense",
        "pids",
        "timeout_s",
        "STOCKADE_WHAT",
        "max_queued",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(word)), "{word}: {problems:?}");
    }
}

#[test]
fn wrong_values_say_what_would_be_right() {
    check("server.listen = \"nowhere\"", &["ADDRESS:PORT"]);
    check("server.public_base_url = \"example.com\"", &["https://"]);
    check("server.allowed_hosts = \"one\"", &["list"]);
    check("limits.default.memory_mb = \"much\"", &["whole number"]);
    check("limits.default.memory_mb = -5", &["outside"]);
    check("limits.default.timeout_s = nan", &["outside"]);
    check("limits.default.memory_mb = 5000", &["limits.ceiling.memory_mb"]);
    check("policy.networks = [\"wifi\"]", &["wifi", "open"]);
    check("policy.required_layers = [\"moat\"]", &["moat", "filesystem"]);
    check("policy.image_roots = [\"rel\"]", &["absolute"]);
    check("log.level = \"info,rmcp=purple\"", &["log.level"]);
    check("[image.mounts]\n\"/a\" = \"b\"", &["/dir/inside"]);
    check("[[runtime]]\nid = \"x\"", &["entry 1"]);
    check("this is no toml", &["TOML"]);
}

#[test]
fn tables_are_taken_over() {
    let file = "[image.mounts]\n\"/opt/tool\" = \"/opt/stockade/tool\"\n\
                [policy]\nnetworks = [\"open\"]\n\
                [[runtime]]\nid = \"lua\"\nextension = \"lua\"\nrun = [\"{tool}\", \"{program}\"]\ntools = [\"lua\"]";
    let config = good(file, &[]);
    let mounts =
        BTreeMap::from([(PathBuf::from("/opt/tool"), PathBuf::from("/opt/stockade/tool"))]);
    assert_eq!(config.mounts, mounts);
    assert_eq!(config.policy.networks, [NetworkRequest::Open]);
    assert_eq!(config.runtimes[0].id, "lua");
}
