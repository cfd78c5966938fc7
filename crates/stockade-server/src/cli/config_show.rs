//! `stockade config show`: what is in force, and where each value came from.
#![expect(clippy::print_stdout, reason = "the answer goes there")]

use std::process::ExitCode;

use clap::Subcommand;

use super::terminal::Style;
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print every value that is in force, with its origin. There are no secrets among them
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn carry_out(command: &ConfigCommand, config: &Config) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Show { json } = command;
    if *json {
        println!("{}", serde_json::to_string_pretty(&config.shown)?);
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::of(&std::io::stdout());
    let width = |length: fn(&crate::config::Shown) -> usize| {
        config.shown.iter().map(length).max().unwrap_or(0)
    };
    let (keys, values) = (width(|row| row.key.len()), width(|row| row.value.len()).min(60));
    for row in &config.shown {
        let origin = match row.origin.as_str() {
            "default" => row.origin.clone(),
            set => style.strong(set),
        };
        println!("{:keys$} = {:values$}  # {origin}", row.key, row.value);
    }
    Ok(ExitCode::SUCCESS)
}
