//! Project tasks: `cargo xtask test` is the whole gate.
//!
//! It installs what the tests need (as root, with apt, pip and npm by name),
//! says which features of the host it declares to the tests, and runs
//! everything. A step that fails ends it; nothing is skipped in silence.
#![expect(clippy::print_stderr, reason = "a command line tool for developers")]

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

mod host;
mod surfaces;

const USAGE: &str = "usage: cargo xtask <task>

  test      install what the tests need, then run everything (the gate)
  check     format, lints and documentation only
  surfaces  drive the release binary with real clients (needs `test` once)
  bench     measure against bare execution and bubblewrap in one interleaved run";

fn main() -> ExitCode {
    let task = env::args().nth(1);
    let done = match task.as_deref() {
        Some("test") => test(),
        Some("check") => check(),
        Some("surfaces") => surfaces::run(),
        Some("bench") => bench(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<()> {
    host::install()?;
    check()?;
    let features = host::features();
    eprintln!("xtask: this host is declared to have: {features}");
    cargo(&["build", "--workspace", "--all-targets", "--locked"], &[])?;
    let declared = [("STOCKADE_TEST_HOST", features.as_str())];
    let nextest = has("cargo-nextest");
    let runner = if nextest { ["nextest", "run"].as_slice() } else { ["test"].as_slice() };
    let most = ["--workspace", "--locked", "--no-fail-fast"];
    cargo(&[runner, most.as_slice()].concat(), &declared)?;
    if nextest {
        // The documentation's examples are not run by nextest.
        cargo(&["test", "--workspace", "--doc", "--locked"], &declared)?;
    }
    surfaces::run()
}

fn check() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    cargo(&lint, &[])?;
    let doc = ["doc", "--workspace", "--no-deps", "--locked"];
    cargo(&doc, &[("RUSTDOCFLAGS", "-D warnings")])?;
    // Advisories need a database from the network; licences, bans and sources do not.
    cargo(&["deny", "check", "licenses", "bans", "sources"], &[])
}

fn bench() -> Result<()> {
    cargo(&["build", "--release", "--locked", "-p", "stockade-server"], &[])?;
    step("python3", &["bench/overhead.py"], &[])
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    step(env!("CARGO"), args, env)
}

/// Runs one step to its end, shows what it is and how long it took.
fn step(program: impl AsRef<OsStr>, args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let text = format!("{} {}", program.as_ref().display(), args.join(" "));
    eprintln!("xtask: {text}");
    let started = Instant::now();
    #[expect(clippy::disallowed_methods, reason = "a task runner starts the project's own tools")]
    let mut command = Command::new(program.as_ref());
    command.args(args).envs(env.iter().copied()).current_dir(root());
    let status = command.status().with_context(|| format!("starting {text}"))?;
    let seconds = started.elapsed().as_secs_f64();
    if !status.success() {
        bail!("`{text}` failed after {seconds:.1} s: {status}");
    }
    eprintln!("xtask: done in {seconds:.1} s");
    Ok(())
}

/// Whether a program is on the path.
fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// The checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
