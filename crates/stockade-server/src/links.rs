//! Addresses from which a file can be fetched without a key.
//!
//! An address carries all that is needed to check it: the workspace, the time
//! until which it is good, and a MAC over both and the path. Whoever has it can
//! fetch that one file and nothing else. It ends with its time, when it is
//! revoked (within one second), or when `link.key` is removed (all of them, at
//! the next start).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use stockade_core::caller::{Action, Caller, Role};
use stockade_core::path::RelPath;
use stockade_core::store::Store;
use stockade_core::{Error, Result};
use stockade_mcp::LinkMaker;
use tokio::time::Instant;

use crate::auth::{now, random};
use crate::recent::Recent;
use token::{Ticket, Token};

mod key_file;
mod token;

/// How long an answer of the store is good.
const REMEMBERED: Duration = Duration::from_secs(1);
/// What stays as it is in a URL path: RFC 3986 `unreserved`.
pub(crate) const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Makes download links and checks them.
#[derive(Debug)]
pub struct Links {
    key: key_file::Key,
    base_url: String,
    time_to_live: Duration,
    store: Arc<dyn Store>,
    recent: Recent<String, bool>,
}

impl Links {
    /// Takes the key of this data directory, made when it is not there.
    pub fn open(
        data_dir: &Path,
        base_url: &str,
        time_to_live: Duration,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let key = key_file::open(data_dir)?;
        let base_url = base_url.trim_end_matches('/').to_owned();
        Ok(Self { key, base_url, time_to_live, store, recent: Recent::new(REMEMBERED) })
    }

    /// The directory of the workspace that this token opens for that path (in
    /// the text form of `RelPath`). `None` when it does not, whatever the reason.
    /// `Err` when the store cannot tell.
    pub async fn check(&self, token: &str, path: &str) -> Result<Option<String>> {
        let (Ok(path), Some(token)) = (RelPath::from_text(path), Token::parse(token)) else {
            return Ok(None);
        };
        if !token.verify(&self.key, &path) || token.ticket.expires_at <= unix_now() {
            return Ok(None);
        }
        let revoked = self.is_revoked(token.ticket.id()).await?;
        Ok((!revoked).then(|| token.ticket.dir()))
    }

    /// Makes a link worthless. Only whoever owns its workspace, or an admin, may.
    pub async fn revoke(&self, caller: &Caller, token: &str) -> Result<()> {
        caller.may(Action::Write)?;
        let missing = || Error::not_found("link", "of that token among those of this key");
        let ticket = Token::parse(token).ok_or_else(missing)?.ticket;
        let (store, caller) = (self.store.clone(), caller.clone());
        let id = ticket.id();
        let revoking = tokio::task::spawn_blocking(move || {
            let workspace = store.workspace_by_dir(&ticket.dir())?.ok_or_else(missing)?;
            if workspace.owner != caller.owner && caller.role != Role::Admin {
                return Err(missing());
            }
            store.revoke_link(&ticket.id(), now())
        });
        revoking.await.map_err(|e| Error::backend("links", "revoking a link", e))??;
        self.recent.forget(&id);
        Ok(())
    }

    async fn is_revoked(&self, id: String) -> Result<bool> {
        if let Some(revoked) = self.recent.get(&id) {
            return Ok(revoked);
        }
        let (store, asked, key) = (self.store.clone(), Instant::now(), id.clone());
        let revoked = tokio::task::spawn_blocking(move || store.link_revoked(&key));
        let revoked =
            revoked.await.map_err(|e| Error::backend("links", "checking a link", e))??;
        self.recent.put(id, asked, revoked);
        Ok(revoked)
    }

    fn token(&self, workspace_dir: &str, path: &RelPath) -> Option<Token> {
        let expires_at = unix_now().saturating_add(self.time_to_live.as_secs());
        let ticket = Ticket::new(workspace_dir, expires_at, random().ok()?)?;
        Some(ticket.sign(&self.key, path))
    }
}

impl LinkMaker for Links {
    fn link(&self, workspace_dir: &str, path: &str) -> Option<String> {
        let path = RelPath::from_text(path).ok()?;
        let token = self.token(workspace_dir, &path)?;
        Some(format!("{}/files/{token}/{}", self.base_url, url_path(&path)))
    }
}

/// A path as it stands in a URL. It is the text form that is encoded, so that
/// decoding it once gives what the engine takes.
pub(crate) fn url_path(path: &RelPath) -> String {
    let text = path.to_text();
    let segments = text.split('/').map(|name| utf8_percent_encode(name, SEGMENT).to_string());
    segments.collect::<Vec<_>>().join("/")
}

fn unix_now() -> u64 {
    u64::try_from(now()).unwrap_or(0)
}
