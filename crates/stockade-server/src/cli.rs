//! The command line: flags in, one subcommand out.
#![expect(clippy::print_stderr, reason = "people read the command line's errors there")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Config, Inputs};
use crate::data_dir;

mod config_show;
mod doctor;
mod key;
mod mcp;
mod run;
mod serve;
mod terminal;
mod up;

/// Wrong use of the command line, as clap has it too.
const USAGE: u8 = 2;
/// Stockade itself failed, as against the program it ran.
const OURS: u8 = 125;

/// Runs code nobody has read yet: safely, truthfully and fast.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every subcommand.
#[derive(Debug, Args)]
struct Common {
    /// Where state and workspaces are kept [default: /var/lib/stockade for root,
    /// ~/.local/share/stockade otherwise]
    #[arg(
        long,
        global = true,
        env = "STOCKADE_DATA_DIR",
        value_name = "DIR",
        hide_env_values = true
    )]
    data_dir: Option<PathBuf>,
    /// Configuration file [default: stockade.toml in the data directory, if there is one]
    #[arg(
        long,
        global = true,
        env = "STOCKADE_CONFIG",
        value_name = "FILE",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepare whatever is missing, then serve
    Up(up::Up),
    /// Serve MCP and REST over HTTP
    Serve(serve::Serve),
    /// Serve MCP on standard input and output
    Mcp,
    /// Run one program: from a file, from standard input, or given as text
    Run(run::Run),
    /// Try every layer of the wall and every runtime, and say what is missing
    Doctor(doctor::Doctor),
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        command: config_show::ConfigCommand,
    },
    /// Make, list and revoke keys
    Key {
        #[command(subcommand)]
        command: key::KeyCommand,
    },
}

/// Parses the command line and carries it out.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let ours = if matches!(cli.command, Command::Run(_)) { OURS } else { 1 };
    match carry_out(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stockade: {error:#}");
            ExitCode::from(ours)
        }
    }
}

fn carry_out(cli: Cli) -> anyhow::Result<ExitCode> {
    let flags = match &cli.command {
        Command::Up(up) => up.serve.flags(),
        Command::Serve(serve) => serve.flags(),
        _ => Vec::new(),
    };
    let config = match load(&cli.common, flags)? {
        Ok(config) => config,
        Err(problems) => {
            eprintln!("stockade: the configuration has {} problem(s):", problems.len());
            for problem in problems {
                eprintln!("  {problem}");
            }
            return Ok(ExitCode::from(USAGE));
        }
    };
    match cli.command {
        Command::Up(up) => up::carry_out(&up, &config),
        Command::Serve(_) => serve::carry_out(&config),
        Command::Mcp => mcp::carry_out(&config),
        Command::Run(run) => run::carry_out(run, &config),
        Command::Doctor(doctor) => doctor::carry_out(&doctor, &config),
        Command::Config { command } => config_show::carry_out(&command, &config),
        Command::Key { command } => key::carry_out(&command, &config),
    }
}

type Flags = Vec<(&'static str, String, &'static str)>;

fn load(common: &Common, flags: Flags) -> anyhow::Result<Result<Config, Vec<config::Problem>>> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    let data_dir = match &common.data_dir {
        Some(dir) => std::path::absolute(dir)?,
        None => data_dir::default(path("HOME"), path("XDG_DATA_HOME")),
    };
    let ours = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("STOCKADE_"))?;
        Some((name, value.to_string_lossy().into_owned()))
    };
    let environment: BTreeMap<_, _> = std::env::vars_os().filter_map(ours).collect();
    let inputs = Inputs {
        file: file(common.config.as_ref(), &data_dir)?,
        data_dir,
        environment,
        flags,
        cores: std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
    };
    Ok(config::load(&inputs))
}

/// The file that was named, which must be there; otherwise the first usual one that is.
fn file(
    named: Option<&PathBuf>,
    data_dir: &std::path::Path,
) -> anyhow::Result<Option<(PathBuf, String)>> {
    if let Some(path) = named {
        let text = std::fs::read_to_string(path)
            .map_err(|error| anyhow::anyhow!("--config {}: {error}", path.display()))?;
        return Ok(Some((path.clone(), text)));
    }
    for path in [data_dir.join("stockade.toml"), PathBuf::from("/etc/stockade/stockade.toml")] {
        match std::fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => anyhow::bail!("{}: {error}", path.display()),
        }
    }
    Ok(None)
}

/// The runtime for subcommands that serve or run.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A thread may be reading a standard input that nobody closes; it goes with the process.
    runtime.shutdown_background();
    done
}
