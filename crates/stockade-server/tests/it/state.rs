//! State in SQLite: what is put in comes out after a restart; strangers' schemas are refused.

use stockade_core::caller::Role;
use stockade_core::id::{OwnerId, RunId, SandboxId, WorkspaceName};
use stockade_core::outcome::{Outcome, Usage, Verdict};
use stockade_core::store::{KeyRecord, RunRecord, Store, WorkspaceRecord};
use stockade_server::state::SqliteStore;

fn key(id: &str, byte: u8) -> KeyRecord {
    KeyRecord {
        id: id.to_owned(),
        name: "a \"name\"; drop table keys".to_owned(),
        role: Role::ReadOnly,
        hash: [byte; 32],
        created_at: 5,
        expires_at: Some(9),
        revoked_at: None,
    }
}

fn workspace(dir: &str, owner: &str, name: Option<&str>) -> WorkspaceRecord {
    WorkspaceRecord {
        dir: dir.to_owned(),
        owner: OwnerId::of_key(owner),
        name: name.map(|name| WorkspaceName::parse(name).unwrap()),
        created_at: 1,
        used_at: 2,
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    Outcome { verdict, exit_code: Some(3), signal: None, usage: Usage::default(), detail: None }
}

#[test]
fn everything_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunRecord {
        id: RunId::random(),
        owner: OwnerId::local(),
        sandbox: SandboxId::random(),
        runtime: "python".to_owned(),
        created_at: 7,
        outcome: None,
    };
    {
        let store = SqliteStore::open(dir.path()).unwrap();
        store.add_key(&key("k1", 1)).unwrap();
        store.add_workspace(&workspace("d1", "a", Some("ws"))).unwrap();
        store.add_workspace(&workspace("d2", "a", None)).unwrap();
        store.put_run(&run).unwrap();
        store.revoke_link("nonce", 1).unwrap();
    }
    let store = SqliteStore::open(dir.path()).unwrap();
    assert_eq!(store.key_by_hash(&[1; 32]).unwrap(), Some(key("k1", 1)));
    assert_eq!(store.key_by_hash(&[2; 32]).unwrap(), None);
    let name = WorkspaceName::parse("ws").unwrap();
    let found = store.workspace(&OwnerId::of_key("a"), &name).unwrap();
    assert_eq!(found, Some(workspace("d1", "a", Some("ws"))));
    assert_eq!(store.workspace(&OwnerId::of_key("b"), &name).unwrap(), None);
    assert_eq!(store.workspace_by_dir("d2").unwrap(), Some(workspace("d2", "a", None)));
    assert!(store.link_revoked("nonce").unwrap() && !store.link_revoked("other").unwrap());
    assert_eq!(store.runs(None, 10).unwrap(), std::slice::from_ref(&run));
    assert_eq!(store.end_open_runs(&outcome(Verdict::Lost)).unwrap(), 1);
    assert_eq!(store.end_open_runs(&outcome(Verdict::Internal)).unwrap(), 0);
    let ended = RunRecord { outcome: Some(outcome(Verdict::Lost)), ..run };
    assert_eq!(store.runs(Some(&OwnerId::local()), 10).unwrap(), [ended]);
    assert_eq!(store.runs(Some(&OwnerId::of_key("a")), 10).unwrap(), []);
}

#[test]
fn names_are_unique_per_owner_and_keys_by_hash() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.add_workspace(&workspace("d1", "a", Some("ws"))).unwrap();
    let again = store.add_workspace(&workspace("d2", "a", Some("ws"))).unwrap_err();
    assert_eq!(again.code(), "conflict");
    store.add_workspace(&workspace("d3", "b", Some("ws"))).unwrap();
    store.add_workspace(&workspace("d4", "a", None)).unwrap();
    store.add_workspace(&workspace("d5", "a", None)).unwrap();
    store.add_key(&key("k1", 1)).unwrap();
    assert_eq!(store.add_key(&key("k2", 1)).unwrap_err().code(), "conflict");
    assert_eq!(store.revoke_key("nobody", 1).unwrap_err().code(), "not_found");
    store.revoke_key("k1", 11).unwrap();
    store.revoke_key("k1", 99).unwrap();
    assert_eq!(store.keys().unwrap()[0].revoked_at, Some(11), "the first time counts");
}

#[test]
fn the_file_is_for_its_owner_only_and_two_processes_may_share_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let one = SqliteStore::open(dir.path()).unwrap();
    let other = SqliteStore::open(dir.path()).unwrap();
    one.add_key(&key("k1", 1)).unwrap();
    assert_eq!(other.keys().unwrap().len(), 1);
    let mode = std::fs::metadata(dir.path().join("state.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_newer_schema_is_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let connection = rusqlite::Connection::open(dir.path().join("state.db")).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let error = SqliteStore::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("newer") && error.contains("another data directory"), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    std::fs::write(&path, "no database at all, but somebody's text".repeat(50)).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(SqliteStore::open(dir.path()).unwrap_err().code(), "internal");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
