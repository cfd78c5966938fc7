//! MCP over HTTP at `/mcp`: a thin front that lets in what clients really send.
//!
//! Everything the protocol asks for is rmcp's. The front knows who calls, keeps
//! each owner to its own sessions, mends small omissions (`Accept`,
//! `Content-Type`, a bare `initialize`), and says clearly what is wrong.

mod message;
mod reply;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use axum::routing::post;
use futures::StreamExt as _;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use stockade_core::caller::Caller;
use stockade_core::engine::Engine;
use tower::ServiceExt as _;

use self::message::{Era, Message};
use crate::McpOptions;
use crate::server::{Access, Server};
use crate::sessions::{Caps, InUse, Sessions};

const SESSION_HEADER: &str = "mcp-session-id";
const BOTH_TYPES: &str = "application/json, text/event-stream";

/// Serves `/mcp` (POST, GET, DELETE).
///
/// A middleware in front must put the authenticated [`Caller`] into the extensions of each
/// request; a request without one is answered with an internal error and touches nothing.
pub fn router(engine: Arc<Engine>, options: McpOptions) -> Router {
    let front = Arc::new(Front::new(engine, options));
    Router::new().route("/mcp", post(answer).get(answer).delete(answer)).with_state(front)
}

#[derive(Debug)]
struct Front {
    server: Server,
    sessions: Arc<Sessions>,
    config: StreamableHttpServerConfig,
}

impl Front {
    fn new(engine: Arc<Engine>, options: McpOptions) -> Self {
        let caps = Caps { per_owner: options.max_sessions_per_owner, total: options.max_sessions };
        let sessions = Sessions::new(caps, options.session_idle);
        let origins = options.allowed_origins.iter().map(|origin| with_port(origin));
        let config = StreamableHttpServerConfig::default()
            .with_sse_retry(None)
            .with_json_response(true)
            .with_cancellation_token(options.shutdown.clone())
            .with_max_request_body_bytes(options.max_message_bytes)
            .with_allowed_hosts(options.allowed_hosts.clone())
            .with_allowed_origins(origins)
            .enforce_origin_validation();
        Self { server: Server::new(engine, options, Access::Http), sessions, config }
    }
}

/// An origin without a port means each port of it; rmcp wants that said.
fn with_port(origin: &str) -> String {
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    let after_brackets = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    match origin == "null" || after_brackets.contains(':') {
        true => origin.to_owned(),
        false => format!("{origin}:*"),
    }
}

async fn answer(State(front): State<Arc<Front>>, request: Request) -> Response {
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        tracing::error!("a request reached /mcp without an authenticated caller");
        return reply::internal();
    };
    match *request.method() {
        Method::POST => front.post(&caller, request).await,
        _ => front.other(&caller, request).await,
    }
}

impl Front {
    async fn post(&self, caller: &Caller, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, self.config.max_request_body_bytes).await else {
            return reply::too_large(self.config.max_request_body_bytes);
        };
        let message = match Message::parse(body, &parts.headers) {
            Ok(message) => message,
            Err(problem) => return reply::bad_message(&problem),
        };
        let takes_stream = takes_stream(&parts.headers);
        parts.headers.insert(ACCEPT, HeaderValue::from_static(BOTH_TYPES));
        let json = HeaderValue::from_static("application/json");
        parts.headers.entry(CONTENT_TYPE).or_insert(json);
        let session = session_id(&parts.headers);
        if message.is_initialize {
            // It opens a new session, whatever session the client had before.
            parts.headers.remove(SESSION_HEADER);
        }
        let request = Request::from_parts(parts, Body::from(message.body));
        match (message.era, session) {
            (Era::Legacy, _) if message.is_initialize && takes_stream => {
                self.open_session(caller, request).await
            }
            (Era::Legacy, Some(id)) if !message.is_initialize => {
                self.in_session(caller, &id, request).await
            }
            _ => self.stateless(request).await,
        }
    }

    /// GET opens the stream of a session, DELETE ends one.
    async fn other(&self, caller: &Caller, mut request: Request) -> Response {
        if request.method() == Method::GET {
            let stream = HeaderValue::from_static(BOTH_TYPES);
            request.headers_mut().insert(ACCEPT, stream);
        }
        match (message::era_of(request.headers()), session_id(request.headers())) {
            (Era::Legacy, Some(id)) => self.in_session(caller, &id, request).await,
            (Era::Legacy, None) | (Era::Modern, _) => self.stateless(request).await,
        }
    }

    async fn open_session(&self, caller: &Caller, request: Request) -> Response {
        let sessions = self.sessions.of(caller.owner.clone());
        if let Err(error) = sessions.make_room().await {
            tracing::warn!(owner = %caller.owner, %error, "no session for a client");
            return reply::too_many_sessions();
        }
        let response = self.with_sessions(caller, request).await;
        // Until the answer is out the session is in use.
        let held = session_id(response.headers()).and_then(|id| sessions.enter(&id));
        finish(response, held)
    }

    async fn in_session(&self, caller: &Caller, id: &SessionId, request: Request) -> Response {
        let Some(held) = self.sessions.of(caller.owner.clone()).enter(id) else {
            return reply::unknown_session();
        };
        let is_delete = request.method() == Method::DELETE;
        let mut response = self.with_sessions(caller, request).await;
        // Clients take 202 for a failed termination.
        if is_delete && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        finish(response, Some(held))
    }

    async fn with_sessions(&self, caller: &Caller, request: Request) -> Response {
        let server = self.server.clone();
        let sessions = Arc::new(self.sessions.of(caller.owner.clone()));
        let config = self.config.clone();
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        map(service.oneshot(request).await)
    }

    async fn stateless(&self, request: Request) -> Response {
        let server = self.server.clone();
        let config = self.config.clone().with_legacy_session_mode(false);
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        finish(map(service.oneshot(request).await), None)
    }
}

fn map<B>(result: Result<Response<B>, Infallible>) -> Response
where
    B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    match result {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

/// Lets a stream through proxies at once, and holds the session until the answer is out.
fn finish(response: Response, held: Option<InUse>) -> Response {
    let is_stream = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return response;
    }
    let mut response = response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _until_the_end = &held;
        }))
    });
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Whether a client can read an answer that is a stream. One that says nothing can.
fn takes_stream(headers: &HeaderMap) -> bool {
    let mut accepts = headers.get_all(ACCEPT).iter().peekable();
    let said_nothing = accepts.peek().is_none();
    said_nothing
        || accepts.any(|accept| {
            let accept = String::from_utf8_lossy(accept.as_bytes()).to_ascii_lowercase();
            ["text/event-stream", "text/*", "*/*"].iter().any(|kind| accept.contains(kind))
        })
}

fn session_id(headers: &HeaderMap) -> Option<SessionId> {
    let id = headers.get(SESSION_HEADER)?.to_str().ok()?;
    Some(SessionId::from(id))
}
