//! The command line, through the binary itself.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the binary with a data directory of its own and no environment of ours.
fn stockade(data_dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the binary under test")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(env.iter().copied());
    command.arg("--data-dir").arg(data_dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn refused(args: &[&str], env: &[(&str, &str)], code: i32, words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let output = stockade(&data_dir, args, env);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?} lacks {word:?}: {stderr}");
    }
    assert_eq!(text(&output.stdout), "", "{args:?} printed to standard output");
}

#[test]
fn wrong_use_is_told_with_the_way_out() {
    refused(&["run"], &[], 2, &["LANGUAGE", "FILE"]);
    refused(&["run", "python", "x.py", "-c", "1"], &[], 2, &["cannot be used"]);
    refused(&["run", "python", "/no/such/file"], &[], 2, &["/no/such/file"]);
    refused(&["run", "python", "-", "--stdin"], &[], 2, &["--stdin"]);
    refused(&["run", "python", "-c", "1", "--env", "NOEQUALS"], &[], 2, &["NAME=VALUE"]);
    refused(&["serve", "--listen", "here"], &[], 2, &["--listen", "ADDRESS:PORT"]);
    refused(&["serve"], &[("STOCKADE_LISTNE", "x")], 2, &["STOCKADE_LISTEN"]);
    refused(&["--config", "/no/such.toml", "serve"], &[], 1, &["/no/such.toml"]);
    refused(&["key", "revoke", "nobody"], &[], 1, &["no key `nobody`"]);
}

#[test]
fn a_program_without_an_end_or_that_is_no_text_is_refused() {
    refused(&["run", "python", "/dev/zero"], &[], 2, &["/dev/zero", "16 MiB"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program.py");
    std::fs::write(&file, b"print(1)\xff\xfe").unwrap();
    refused(&["run", "python", file.to_str().unwrap()], &[], 2, &["UTF-8", "byte 8"]);
}

#[test]
fn a_key_has_a_name_that_can_be_shown() {
    for name in ["", "two\nlines", "\u{1b}[31mred", &"x".repeat(101)] {
        refused(&["key", "create", name], &[], 1, &["name", "100"]);
    }
}

#[test]
fn a_server_that_others_can_reach_needs_a_key_first() {
    refused(&["serve", "--listen", "0.0.0.0:0"], &[], 1, &["no key yet", "stockade key create"]);
    let weak = [("STOCKADE_ADMIN_KEY", "short")];
    refused(&["serve", "--listen", "0.0.0.0:0"], &weak, 1, &["32"]);
}

#[test]
fn a_data_directory_that_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = stockade(dir.path(), &["key", "list"], &[]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("chmod 700"), "{stderr}");
}

#[test]
fn keys_are_made_listed_and_revoked_and_only_their_hash_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let made = stockade(&data_dir, &["key", "create", "ci", "--role", "read-only"], &[]);
    let secret = text(&made.stdout).trim().to_owned();
    assert!(secret.starts_with("stk_") && secret.len() > 40, "{secret:?}");
    let listed = stockade(&data_dir, &["key", "list", "--json"], &[]);
    let keys: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((keys[0]["name"].as_str(), keys[0]["state"].as_str()), (Some("ci"), Some("valid")));
    assert_eq!(keys[0]["role"], "read-only");
    let id = keys[0]["id"].as_str().unwrap();
    assert!(stockade(&data_dir, &["key", "revoke", id], &[]).status.success());
    let listed = text(&stockade(&data_dir, &["key", "list"], &[]).stdout);
    assert!(listed.contains("revoked"), "{listed}");
    for entry in std::fs::read_dir(&data_dir).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "the secret is on disk");
    }
}

#[test]
fn config_show_prints_values_with_their_origin_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let env = [("STOCKADE_LISTEN", "127.0.0.1:77"), ("STOCKADE_ADMIN_KEY", "do-not-print-this")];
    let output = stockade(&dir.path().join("data"), &["config", "show", "--json"], &env);
    let printed = text(&output.stdout);
    assert!(!printed.contains("do-not-print-this"));
    let rows: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "server.listen").unwrap();
    assert_eq!(row["value"], "\"127.0.0.1:77\"");
    assert_eq!(row["origin"], "$STOCKADE_LISTEN");
}
