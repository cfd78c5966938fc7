//! `stockade up`: prepares whatever is missing, then serves.
#![expect(clippy::print_stderr, reason = "progress and the first key are for people")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use stockade_runtimes::{Options, Problem, Progress, SystemPackages};

use super::serve::{self, Serve};
use super::terminal::Style;
use crate::config::Config;
use crate::{assembly, data_dir, logs};

#[derive(Debug, Args)]
pub(super) struct Up {
    #[command(flatten)]
    pub(super) serve: Serve,
    /// Only prepare; do not serve
    #[arg(long)]
    no_serve: bool,
    /// Leave the system's packages alone; by default root on Debian gets Python, pip, Node and npm
    /// where they are missing
    #[arg(long)]
    no_system_packages: bool,
}

pub(super) fn carry_out(up: &Up, config: &Config) -> Result<ExitCode> {
    logs::start(&config.log);
    data_dir::open(&config.data_dir)?;
    let style = Style::of(&std::io::stderr());
    // Before anything else: it forks.
    let lock = if up.no_serve { None } else { Some(data_dir::lock_for_server(&config.data_dir)?) };
    let backend = if up.no_serve { None } else { Some(assembly::backend(&config.data_dir)?) };
    prepare(up, config, style)?;
    let store = assembly::store(&config.data_dir)?;
    let greet = |secret: Option<&str>| greet(config, secret, style);
    let code = match backend {
        Some(backend) => serve::serve(config, backend, store, greet)?,
        None => {
            greet(serve::first_key(config, store.as_ref())?.as_deref());
            ExitCode::SUCCESS
        }
    };
    drop(lock);
    Ok(code)
}

fn prepare(up: &Up, config: &Config, style: Style) -> Result<()> {
    let system_packages = if up.no_system_packages || !rustix::process::geteuid().is_root() {
        SystemPackages::Leave
    } else {
        SystemPackages::Install
    };
    let last = Mutex::new(String::new());
    let show = |progress: Progress| {
        let line = format!("{}: {}", progress.step, progress.detail);
        // The same words again mean that time has passed; only a live terminal wants those.
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let repeated = *last == line;
        let seconds = progress.elapsed.as_secs();
        match (style.is_live(), repeated) {
            (true, _) if seconds > 0 => eprint!("\r\x1b[K  {line} ({seconds} s)"),
            (true, false) => eprint!("\r\x1b[K  {line}"),
            (false, false) => eprintln!("  {line}"),
            (_, true) => {}
        }
        *last = line;
    };
    eprintln!("Preparing {}", config.data_dir.display());
    let prepared =
        stockade_runtimes::prepare(&config.data_dir, Options { system_packages }, &show)?;
    if style.is_live() {
        eprint!("\r\x1b[K");
    }
    for (runtime, packages) in &prepared.packages {
        eprintln!("  {} {runtime}: {} packages", style.good("ready"), packages.len());
    }
    for Problem { what, cause, remedy } in &prepared.problems {
        eprintln!("  {} {what}: {cause}\n    next: {remedy}", style.warning("not ready"));
    }
    Ok(())
}

fn greet(config: &Config, secret: Option<&str>, style: Style) {
    let url = &config.server.public_base_url;
    eprintln!("\nStockade answers at {}", style.strong(format!("{url}/mcp")));
    let key = match secret {
        Some(secret) => {
            eprintln!("The first admin key, shown only now:\n\n  {}\n", style.strong(secret));
            secret
        }
        None => "$STOCKADE_KEY",
    };
    eprintln!("Connect Claude Code:\n");
    eprintln!(
        "  claude mcp add --transport http stockade {url}/mcp --header \"Authorization: Bearer {key}\"\n"
    );
    let hours = config.link_ttl.max(Duration::from_secs(3600)).as_secs() / 3600;
    eprintln!("Download links work for {hours} h. More keys: stockade key create NAME\n");
}
