//! Between rows and records.

use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type};
use serde::de::DeserializeOwned;
use stockade_core::caller::Role;
use stockade_core::outcome::Outcome;
use stockade_core::store::{KeyRecord, RunRecord, WorkspaceRecord};
use stockade_core::{Error, Result};

pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::ReadOnly => "read-only",
        Role::User => "user",
        Role::Admin => "admin",
    }
}

/// Ids and roles are written as plain text; reading goes through their own decoders.
fn parsed<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let text: String = row.get(index)?;
    let value = serde_json::Value::String(text);
    serde_json::from_value(value).map_err(|error| broken(index, error))
}

fn broken(index: usize, error: serde_json::Error) -> rusqlite::Error {
    let error = FromSqlError::Other(Box::new(error));
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    Ok(KeyRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        role: parsed(row, 2)?,
        hash: row.get(3)?,
        created_at: row.get(4)?,
        expires_at: row.get(5)?,
        revoked_at: row.get(6)?,
    })
}

pub(super) fn workspace(row: &Row<'_>) -> rusqlite::Result<WorkspaceRecord> {
    let name: Option<String> = row.get(2)?;
    Ok(WorkspaceRecord {
        dir: row.get(0)?,
        owner: parsed(row, 1)?,
        name: name.map(|_| parsed(row, 2)).transpose()?,
        created_at: row.get(3)?,
        used_at: row.get(4)?,
    })
}

pub(super) fn run(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    let outcome: Option<String> = row.get(5)?;
    let outcome = outcome.map(|text| serde_json::from_str(&text)).transpose();
    Ok(RunRecord {
        id: parsed(row, 0)?,
        owner: parsed(row, 1)?,
        sandbox: parsed(row, 2)?,
        runtime: row.get(3)?,
        created_at: row.get(4)?,
        outcome: outcome.map_err(|error| broken(5, error))?,
    })
}

pub(super) fn outcome_text(outcome: &Outcome) -> Result<String> {
    serde_json::to_string(outcome).map_err(|error| Error::backend("state", "writing a run", error))
}
