//! `stockade key`: make, list and revoke keys.
#![expect(clippy::print_stdout, reason = "the answer goes there")]
#![expect(clippy::print_stderr, reason = "notes for people go there")]

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Subcommand, ValueEnum};
use stockade_core::caller::Role;

use crate::config::Config;
use crate::{assembly, auth, data_dir};

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key and print its secret, once, on standard output
    Create {
        /// What people call it
        name: String,
        /// What it may do
        #[arg(long, value_enum, default_value = "user")]
        role: RoleName,
        /// Days until it stops working [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
        expires: Option<u32>,
    },
    /// List keys; secrets are not kept and cannot be shown
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a key worthless
    Revoke {
        /// Its id, from `key list`
        id: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum RoleName {
    /// Looks at its own things
    ReadOnly,
    /// Runs code and changes its own things
    User,
    /// Everything
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::ReadOnly => Self::ReadOnly,
            RoleName::User => Self::User,
            RoleName::Admin => Self::Admin,
        }
    }
}

pub(super) fn carry_out(command: &KeyCommand, config: &Config) -> anyhow::Result<ExitCode> {
    data_dir::open(&config.data_dir)?;
    let store = assembly::store(&config.data_dir)?;
    match command {
        KeyCommand::Create { name, role, expires } => {
            let expires_at = expires.map(|days| now() + i64::from(days) * 86_400);
            let (record, secret) = auth::new_key(store.as_ref(), name, (*role).into(), expires_at)?;
            eprintln!("key {} ({}), shown only now:", record.id, record.name);
            println!("{secret}");
        }
        KeyCommand::List { json } => list(&store.keys()?, *json)?,
        KeyCommand::Revoke { id } => {
            store.revoke_key(id, now())?;
            eprintln!("revoked {id}; a running server takes notice within a second");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(keys: &[stockade_core::store::KeyRecord], json: bool) -> anyhow::Result<()> {
    let now = now();
    let state = |key: &stockade_core::store::KeyRecord| match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        _ => "valid",
    };
    if json {
        let rows: Vec<_> = keys
            .iter()
            .map(|key| {
                serde_json::json!({
                    "id": key.id, "name": key.name, "role": key.role, "state": state(key),
                    "created_at": key.created_at, "expires_at": key.expires_at,
                })
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    for key in keys {
        let role = format!("{:?}", key.role);
        println!("{:24}  {:9}  {:8}  {}", key.id, role, state(key), key.name.escape_debug());
    }
    Ok(())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
