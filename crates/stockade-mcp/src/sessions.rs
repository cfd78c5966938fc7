//! Sessions of the older protocol revisions, each bound to its owner.
//!
//! An owner sees its own sessions only: the id of somebody else's is as good
//! as unknown. Their number is capped per owner and in total; when a cap is
//! reached, the session that was idle longest makes room. Clients seldom
//! say good-bye, so refusing instead would lock them out of their own server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use stockade_core::id::OwnerId;

/// The sessions of all owners.
#[derive(Debug)]
pub(crate) struct Sessions {
    local: LocalSessionManager,
    known: Mutex<HashMap<SessionId, Session>>,
    caps: Caps,
}

/// How many sessions there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    pub(crate) per_owner: usize,
    pub(crate) total: usize,
}

#[derive(Debug)]
struct Session {
    owner: OwnerId,
    used: Instant,
    /// One reference is here; each open response holds another.
    busy: Arc<()>,
}

impl Session {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.busy) == 1
    }
}

/// Keeps a session from being taken for idle.
#[derive(Debug, Clone)]
pub(crate) struct InUse(#[expect(dead_code, reason = "held, not read")] Arc<()>);

/// The sessions as one owner sees them.
#[derive(Debug, Clone)]
pub(crate) struct OwnSessions {
    all: Arc<Sessions>,
    owner: OwnerId,
}

/// Why a session cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// Every session that could make room is in use.
    #[error("too many sessions are in use")]
    Full,
    /// There is none of this id for this owner.
    #[error("no such session")]
    Unknown,
    /// The session itself failed.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Sessions {
    pub(crate) fn new(caps: Caps, idle: Duration) -> Arc<Self> {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        // Old clients fail on the empty event that announces a retry; background runs
        // are the way to survive a lost stream.
        local.session_config.sse_retry = None;
        local.session_config.completed_cache_ttl = Duration::ZERO;
        Arc::new(Self { local, known: Mutex::default(), caps })
    }

    /// The sessions of one owner.
    pub(crate) fn of(self: &Arc<Self>, owner: OwnerId) -> OwnSessions {
        OwnSessions { all: Arc::clone(self), owner }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        // The map is whole after every statement, so a panic elsewhere does not spoil it.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the session that has to go before this owner can have another.
    fn make_room(&self, owner: &OwnerId) -> Result<Option<SessionId>, SessionError> {
        let mut known = self.known();
        let own = known.values().filter(|session| session.owner == *owner).count();
        let own_only = own >= self.caps.per_owner;
        if !own_only && known.len() < self.caps.total {
            return Ok(None);
        }
        let oldest = known
            .iter()
            .filter(|(_, session)| session.is_idle() && (!own_only || session.owner == *owner))
            .min_by_key(|(_, session)| session.used)
            .map(|(id, _)| id.clone());
        let oldest = oldest.ok_or(SessionError::Full)?;
        known.remove(&oldest);
        Ok(Some(oldest))
    }
}

impl OwnSessions {
    /// Marks a session as in use for as long as the answer lives; `None` for an unknown id.
    pub(crate) fn enter(&self, id: &SessionId) -> Option<InUse> {
        let mut known = self.all.known();
        let session = known.get_mut(id).filter(|session| session.owner == self.owner)?;
        session.used = Instant::now();
        Some(InUse(Arc::clone(&session.busy)))
    }

    /// Fails if there can be no further session; makes room where that helps.
    pub(crate) async fn make_room(&self) -> Result<(), SessionError> {
        while let Some(oldest) = self.all.make_room(&self.owner)? {
            tracing::info!(owner = %self.owner, "an idle session made room for another");
            self.all.local.close_session(&oldest).await?;
        }
        Ok(())
    }

    fn check(&self, id: &SessionId) -> Result<(), SessionError> {
        match self.all.known().get(id) {
            Some(session) if session.owner == self.owner => Ok(()),
            _ => Err(SessionError::Unknown),
        }
    }

    /// Counts a new session in, unless others were faster.
    fn admit(&self, id: &SessionId) -> Result<(), SessionError> {
        let mut known = self.all.known();
        let own = known.values().filter(|session| session.owner == self.owner).count();
        if own >= self.all.caps.per_owner || known.len() >= self.all.caps.total {
            return Err(SessionError::Full);
        }
        let session =
            Session { owner: self.owner.clone(), used: Instant::now(), busy: Arc::new(()) };
        known.insert(id.clone(), session);
        Ok(())
    }
}

impl SessionManager for OwnSessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.all.local.create_session().await?;
        if let Err(full) = self.admit(&id) {
            self.all.local.close_session(&id).await?;
            return Err(full);
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.check(id)?;
        Ok(self.all.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        match self.check(id) {
            Ok(()) => Ok(self.all.local.has_session(id).await?),
            Err(_) => Ok(false),
        }
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        // Also called when a session ends by itself; it may have made room already.
        let own = self.check(id).is_ok();
        if own {
            self.all.known().remove(id);
            self.all.local.close_session(id).await?;
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.check(id)?;
        Ok(self.all.local.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.check(id)?;
        Ok(self.all.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.check(id)?;
        Ok(self.all.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.check(id)?;
        Ok(self.all.local.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { per_owner: 2, total: 3 };

    fn owner(name: &str) -> OwnerId {
        OwnerId::of_key(name)
    }

    async fn open(sessions: &OwnSessions) -> SessionId {
        sessions.make_room().await.unwrap();
        // Dropping the transport ends the session's worker, which these tests do not need.
        sessions.create_session().await.unwrap().0
    }

    #[tokio::test]
    async fn sessions_of_others_are_unknown() {
        let all = Sessions::new(CAPS, Duration::from_secs(60));
        let (ann, bob) = (all.of(owner("ann")), all.of(owner("bob")));
        let id = open(&ann).await;
        assert!(ann.has_session(&id).await.unwrap() && ann.enter(&id).is_some());
        assert!(!bob.has_session(&id).await.unwrap() && bob.enter(&id).is_none());
        bob.close_session(&id).await.unwrap();
        assert!(ann.has_session(&id).await.unwrap());
        ann.close_session(&id).await.unwrap();
        assert!(!ann.has_session(&id).await.unwrap());
    }

    #[tokio::test]
    async fn the_longest_idle_session_makes_room() {
        let all = Sessions::new(CAPS, Duration::from_secs(60));
        let ann = all.of(owner("ann"));
        let (first, second) = (open(&ann).await, open(&ann).await);
        let held = ann.enter(&first);
        let third = open(&ann).await;
        assert!(ann.enter(&first).is_some() && ann.enter(&third).is_some());
        assert!(ann.enter(&second).is_none());
        let also_held = ann.enter(&third);
        assert!(matches!(ann.make_room().await, Err(SessionError::Full)));
        drop((held, also_held));
        assert!(ann.make_room().await.is_ok());
    }

    #[tokio::test]
    async fn the_total_is_capped_and_one_owner_cannot_push_out_its_own_limit() {
        let all = Sessions::new(CAPS, Duration::from_secs(60));
        let (ann, bob) = (all.of(owner("ann")), all.of(owner("bob")));
        for _ in 0..10 {
            open(&ann).await;
        }
        assert_eq!(all.known().len(), 2);
        open(&bob).await;
        open(&bob).await;
        assert_eq!(all.known().len(), 3);
        assert!(all.local.sessions.read().await.len() <= 3);
    }

    #[tokio::test]
    async fn the_cap_holds_without_asking_for_room() {
        let all = Sessions::new(CAPS, Duration::from_secs(60));
        let ann = all.of(owner("ann"));
        for _ in 0..2 {
            ann.create_session().await.unwrap();
        }
        assert!(matches!(ann.create_session().await, Err(SessionError::Full)));
        assert_eq!(all.local.sessions.read().await.len(), 2);
    }
}
