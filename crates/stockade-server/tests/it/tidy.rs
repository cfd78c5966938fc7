//! The rules of ARCHITECTURE.md that neither crate borders nor lints hold.

use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every source file of a crate, with its path below `src`.
fn sources(name: &str) -> Vec<(String, String)> {
    let root = crates().join(name).join("src");
    let mut dirs = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&root).unwrap().display().to_string();
                files.push((below, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!files.is_empty(), "{name} has no sources");
    files
}

fn manifest(name: &str) -> String {
    let text = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let dependencies = text.split("[dependencies]").nth(1).unwrap_or_default();
    dependencies.split("[dev-dependencies]").next().unwrap_or_default().to_owned()
}

const ALL: [&str; 7] = [
    "stockade-core",
    "stockade-agent",
    "stockade-link",
    "stockade-native",
    "stockade-runtimes",
    "stockade-mcp",
    "stockade-server",
];

#[test]
fn crates_depend_only_on_whom_they_may() {
    let forbidden: [(&str, &[&str]); 6] = [
        (
            "stockade-core",
            &["axum", "rmcp", "hyper", "stockade-agent", "stockade-native", "rusqlite"],
        ),
        ("stockade-agent", &["tokio", "stockade-", "axum", "hyper"]),
        ("stockade-link", &["stockade-native", "stockade-server", "axum"]),
        ("stockade-native", &["stockade-server", "stockade-mcp", "stockade-runtimes", "axum"]),
        ("stockade-runtimes", &["stockade-native", "stockade-server", "tokio"]),
        ("stockade-mcp", &["stockade-native", "stockade-server", "stockade-runtimes"]),
    ];
    for (name, words) in forbidden {
        let manifest = manifest(name);
        for word in words {
            let found = manifest.lines().any(|line| line.starts_with(word));
            assert!(!found, "{name} must not depend on {word}");
        }
    }
}

#[test]
fn unsafe_stands_in_one_file() {
    for name in ALL {
        for (path, text) in sources(name) {
            let found = text.contains("unsafe {") || text.contains("unsafe fn");
            let allowed = name == "stockade-agent" && path == "sys.rs";
            assert!(!found || allowed, "{name}/src/{path} has unsafe code");
        }
    }
}

#[test]
fn user_code_has_one_spawn_path() {
    // The launcher is executed by native; package clients by runtimes; nothing else starts processes.
    let allowed = [("stockade-native", "launch.rs"), ("stockade-runtimes", "clients.rs")];
    for name in ALL {
        for (path, text) in sources(name) {
            let production = text.split("#[cfg(test)]").next().unwrap_or_default();
            let found =
                production.contains("process::Command") || production.contains("Command::new(");
            let fine = allowed.contains(&(name, path.as_str())) || name == "stockade-core";
            assert!(!found || fine, "{name}/src/{path} starts processes");
        }
    }
}

#[test]
fn edges_do_not_know_each_other() {
    for (path, text) in sources("stockade-server") {
        let is_rest = path.starts_with("rest");
        assert!(!is_rest || !text.contains("crate::cli"), "{path} knows the command line");
        let is_cli = path.starts_with("cli");
        assert!(!is_cli || !text.contains("crate::rest"), "{path} knows REST");
    }
}

#[test]
fn files_stay_small_enough_to_read() {
    for name in ALL {
        for (path, text) in sources(name) {
            let production = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = production.lines().count();
            assert!(lines <= 600, "{name}/src/{path} has {lines} lines");
        }
    }
}
