//! State that survives a restart: SQLite in the data directory.
//!
//! One connection, one writer at a time; several processes may share the file.
//! The schema has a version; a newer one than this program knows is refused.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use stockade_core::id::{OwnerId, WorkspaceName};
use stockade_core::outcome::Outcome;
use stockade_core::store::{KeyRecord, RunRecord, Store, UnixSeconds, WorkspaceRecord};
use stockade_core::{Error, Result};

mod rows;
mod schema;

/// Records in SQLite.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Mutex<Connection>,
}

const BUSY: Duration = Duration::from_secs(10);

impl SqliteStore {
    /// Opens `state.db` in this directory, making or migrating it.
    pub fn open(data_dir: &Path) -> Result<Self> {
        let path = data_dir.join("state.db");
        let failed = |doing| move |source| failure(doing, source);
        // SQLite would make it with the process's own mask.
        File::options()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| Error::backend("state", "making state.db", source))?;
        let mut connection = Connection::open(&path).map_err(failed("opening state.db"))?;
        connection.busy_timeout(BUSY).map_err(failed("opening state.db"))?;
        connection
            .execute_batch(
                "pragma journal_mode = wal; pragma synchronous = normal; pragma foreign_keys = on;",
            )
            .map_err(failed("opening state.db"))?;
        schema::migrate(&mut connection)?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // Statements are transactions of their own: a panic leaves nothing half done.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<usize> {
        execute(&self.connection(), doing, sql, values)
    }

    /// Like `execute`, but on disk before it returns, even if the power fails then: for what
    /// grants or takes away access. Everything else survives the end of the process only,
    /// which costs no wait for the disk.
    fn execute_durably(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<usize> {
        let connection = self.connection();
        let set = |text| connection.execute_batch(text).map_err(|source| failure(doing, source));
        set("pragma synchronous = full")?;
        let done = execute(&connection, doing, sql, values);
        set("pragma synchronous = normal")?;
        done
    }

    fn one<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql).map_err(|e| failure("reading", e))?;
        statement.query_row(values, read).optional().map_err(|e| failure("reading", e))
    }

    fn many<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql).map_err(|e| failure("reading", e))?;
        let rows = statement.query_map(values, read).map_err(|e| failure("reading", e))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| failure("reading", e))
    }
}

fn execute(
    connection: &Connection,
    doing: &'static str,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<usize> {
    let mut statement = connection.prepare_cached(sql).map_err(|e| failure(doing, e))?;
    statement.execute(values).map_err(|source| match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => Error::conflict(doing, "there already"),
        _ => failure(doing, source),
    })
}

fn failure(doing: &'static str, source: rusqlite::Error) -> Error {
    Error::backend("state", doing, source)
}

impl Store for SqliteStore {
    fn add_key(&self, key: &KeyRecord) -> Result<()> {
        let values = params![
            key.id,
            key.name,
            rows::role_name(key.role),
            key.hash,
            key.created_at,
            key.expires_at,
            key.revoked_at
        ];
        self.execute_durably(
            "key",
            "insert into keys values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            values,
        )?;
        Ok(())
    }

    fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
        self.one("select * from keys where hash = ?1", [hash], rows::key)
    }

    fn keys(&self) -> Result<Vec<KeyRecord>> {
        self.many("select * from keys order by created_at, id", [], rows::key)
    }

    fn revoke_key(&self, id: &str, at: UnixSeconds) -> Result<()> {
        let sql = "update keys set revoked_at = coalesce(revoked_at, ?2) where id = ?1";
        match self.execute_durably("key", sql, params![id, at])? {
            0 => Err(Error::not_found("key", id)),
            _ => Ok(()),
        }
    }

    fn add_workspace(&self, workspace: &WorkspaceRecord) -> Result<()> {
        let values = params![
            workspace.dir,
            workspace.owner.as_str(),
            workspace.name.as_ref().map(WorkspaceName::as_str),
            workspace.created_at,
            workspace.used_at
        ];
        self.execute("workspace", "insert into workspaces values (?1, ?2, ?3, ?4, ?5)", values)?;
        Ok(())
    }

    fn workspace(&self, owner: &OwnerId, name: &WorkspaceName) -> Result<Option<WorkspaceRecord>> {
        let sql = "select * from workspaces where owner = ?1 and name = ?2";
        self.one(sql, [owner.as_str(), name.as_str()], rows::workspace)
    }

    fn workspace_by_dir(&self, dir: &str) -> Result<Option<WorkspaceRecord>> {
        self.one("select * from workspaces where dir = ?1", [dir], rows::workspace)
    }

    fn workspaces(&self, owner: Option<&OwnerId>) -> Result<Vec<WorkspaceRecord>> {
        let sql = "select * from workspaces where ?1 is null or owner = ?1 order by name, dir";
        self.many(sql, [owner.map(OwnerId::as_str)], rows::workspace)
    }

    fn touch_workspace(&self, dir: &str, at: UnixSeconds) -> Result<()> {
        let sql = "update workspaces set used_at = max(used_at, ?2) where dir = ?1";
        self.execute("workspace", sql, params![dir, at])?;
        Ok(())
    }

    fn remove_workspace(&self, dir: &str) -> Result<()> {
        self.execute("workspace", "delete from workspaces where dir = ?1", [dir])?;
        Ok(())
    }

    fn put_run(&self, run: &RunRecord) -> Result<()> {
        let outcome = run.outcome.as_ref().map(rows::outcome_text).transpose()?;
        let values = params![
            run.id.as_str(),
            run.owner.as_str(),
            run.sandbox.as_str(),
            run.runtime,
            run.created_at,
            outcome
        ];
        self.execute("run", "insert or replace into runs values (?1, ?2, ?3, ?4, ?5, ?6)", values)?;
        Ok(())
    }

    fn end_open_runs(&self, outcome: &Outcome) -> Result<u64> {
        let outcome = rows::outcome_text(outcome)?;
        let sql = "update runs set outcome = ?1 where outcome is null";
        let ended = self.execute("run", sql, [outcome])?;
        Ok(u64::try_from(ended).unwrap_or(u64::MAX))
    }

    fn runs(&self, owner: Option<&OwnerId>, limit: u32) -> Result<Vec<RunRecord>> {
        let sql = "select * from runs where ?1 is null or owner = ?1
                   order by created_at desc, rowid desc limit ?2";
        self.many(sql, params![owner.map(OwnerId::as_str), limit], rows::run)
    }

    fn revoke_link(&self, nonce: &str, at: UnixSeconds) -> Result<()> {
        let sql = "insert or ignore into revoked_links values (?1, ?2)";
        self.execute_durably("link", sql, params![nonce, at])?;
        Ok(())
    }

    fn link_revoked(&self, nonce: &str) -> Result<bool> {
        let sql = "select 1 from revoked_links where nonce = ?1";
        Ok(self.one(sql, [nonce], |_| Ok(()))?.is_some())
    }
}
