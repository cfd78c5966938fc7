//! The schema, as a list of steps. A database knows how many it has taken.

use rusqlite::{Connection, TransactionBehavior};
use stockade_core::{Error, Result};

use super::failure;

/// Step by step; never edited once released, only added to.
const STEPS: &[&str] = &["
    create table keys (
        id text primary key, name text not null, role text not null,
        hash blob not null unique, created_at integer not null,
        expires_at integer, revoked_at integer
    ) strict;
    create table workspaces (
        dir text primary key, owner text not null, name text,
        created_at integer not null, used_at integer not null,
        unique (owner, name)
    ) strict;
    create table runs (
        id text primary key, owner text not null, sandbox text not null,
        runtime text not null, created_at integer not null, outcome text
    ) strict;
    create index runs_by_owner on runs (owner, created_at);
    create index runs_open on runs (created_at) where outcome is null;
    create table revoked_links (nonce text primary key, at integer not null) strict;
"];

/// Takes the steps that are missing.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    let failed = |source| failure("migrating state.db", source);
    // Immediate: of two processes that start together one waits for the other.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let taken: usize = transaction
        .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        .map(|version| usize::try_from(version).unwrap_or(usize::MAX))
        .map_err(failed)?;
    let Some(missing) = STEPS.get(taken..) else {
        return Err(Error::conflict(
            "state.db",
            format!(
                "of version {taken}, newer than this program knows ({}); start the newer \
                 program again, or use another data directory",
                STEPS.len()
            ),
        ));
    };
    for step in missing {
        transaction.execute_batch(step).map_err(failed)?;
    }
    let version = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "user_version", version).map_err(failed)?;
    transaction.commit().map_err(failed)
}
