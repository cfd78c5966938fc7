//! Keys: who is calling, from a secret that only the caller has.
//!
//! Only the SHA-256 of a secret is stored. A secret has 256 random bits, so a
//! fast hash is as good as a slow one: there is nothing to guess.
//!
//! A key that is revoked stops working within one second: for that long an
//! answer of the store is remembered, so that requests do not wait for the disk.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use stockade_core::caller::{Caller, Role};
use stockade_core::id::OwnerId;
use stockade_core::store::{KeyRecord, Store, UnixSeconds};
use stockade_core::{Error, Result};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::recent::Recent;

mod credential;
mod guard;

pub(crate) use guard::require_key;

/// How long an answer of the store is good.
const REMEMBERED: Duration = Duration::from_secs(1);
/// What a generated secret begins with, so that scanners for leaked secrets find it.
const PREFIX: &str = "stk_";
/// Shortest secret that an operator may choose.
const SHORTEST: usize = 32;
/// Longest name of a key.
const LONGEST_NAME: usize = 100;
/// Longest secret that is looked at.
const LONGEST: usize = 512;

/// All keys of this server.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    recent: Recent<[u8; 32], KeyRecord>,
}

impl Keys {
    /// The keys in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, recent: Recent::new(REMEMBERED) }
    }

    /// Who has this secret; `None` when it is no key, expired or revoked.
    /// `Err` when the store cannot tell.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Caller>> {
        if secret.is_empty() || secret.len() > LONGEST {
            return Ok(None);
        }
        let hash = hash(secret);
        let record = match self.recent.get(&hash) {
            Some(record) => Some(record),
            None => self.look_up(hash).await?,
        };
        let good = record.filter(|record| is_good(record, &hash, now()));
        Ok(good.map(|record| Caller { owner: OwnerId::of_key(&record.id), role: record.role }))
    }

    /// Only keys that exist are remembered: wrong ones would push them out.
    async fn look_up(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        let (store, asked) = (self.store.clone(), Instant::now());
        let found = tokio::task::spawn_blocking(move || store.key_by_hash(&hash));
        let found = found.await.map_err(|e| Error::backend("keys", "looking up a key", e))??;
        if let Some(record) = &found {
            self.recent.put(hash, asked, record.clone());
        }
        Ok(found)
    }
}

fn is_good(record: &KeyRecord, hash: &[u8; 32], now: UnixSeconds) -> bool {
    let same = bool::from(record.hash.ct_eq(hash));
    let expired = record.expires_at.is_some_and(|at| at <= now);
    same && !expired && record.revoked_at.is_none()
}

/// Makes a key and stores it. The secret that comes with it is kept nowhere. Blocks.
pub fn new_key(
    store: &dyn Store,
    name: &str,
    role: Role,
    expires_at: Option<UnixSeconds>,
) -> Result<(KeyRecord, String)> {
    let secret = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random::<32>()?));
    let record = record(name, role, expires_at, &secret)?;
    store.add_key(&record)?;
    Ok((record, secret))
}

/// Sees to it that there is an admin key. At the first start it makes one and
/// gives its secret, to be shown once; or takes the `given` secret instead and
/// gives nothing. Once a store has had an admin key, this does nothing. Blocks.
pub fn admin_key(store: &dyn Store, given: Option<&str>) -> Result<Option<String>> {
    if store.keys()?.iter().any(|key| key.role == Role::Admin) {
        return Ok(None);
    }
    let Some(secret) = given else {
        return new_key(store, "admin", Role::Admin, None).map(|(_, secret)| Some(secret));
    };
    check_given(secret)?;
    match store.add_key(&record("admin", Role::Admin, None, secret)?) {
        // Another process of the same first start was faster.
        Ok(()) | Err(Error::Conflict { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn check_given(secret: &str) -> Result<()> {
    let field = "STOCKADE_ADMIN_KEY";
    if !(SHORTEST..=LONGEST).contains(&secret.len()) {
        return Err(Error::invalid(
            field,
            "must be 32 to 512 characters; `openssl rand -base64 32` prints a good one",
        ));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid(
            field,
            "must be visible ASCII without spaces, since it travels in a header",
        ));
    }
    Ok(())
}

fn record(
    name: &str,
    role: Role,
    expires_at: Option<UnixSeconds>,
    secret: &str,
) -> Result<KeyRecord> {
    let is_shown = |letter: char| !letter.is_control();
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.chars().all(is_shown) {
        return Err(Error::invalid(
            "name",
            "must be 1 to 100 bytes without control characters; it is shown in lists and logs",
        ));
    }
    let id: String = random::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(KeyRecord {
        id: format!("key-{id}"),
        name: name.to_owned(),
        role,
        hash: hash(secret),
        created_at: now(),
        expires_at,
        revoked_at: None,
    })
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::backend("keys", "asking for randomness", e))?;
    Ok(bytes)
}

pub(crate) fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
