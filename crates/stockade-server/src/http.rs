//! Everything that is answered over HTTP, and the gates in front of it.
//!
//! A request passes, from the outside in: its id and its line in the log, the
//! catch for panics, the check of `Host` and `Origin`, and, unless its route is
//! public, the check of its key. Only then is it looked at and its body read.
//! Unknown routes need a key as well, so that nobody can map the server without one.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use stockade_core::engine::Engine;
use stockade_mcp::McpOptions;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::auth::{Keys, require_key};
use crate::hosts::{Hosts, require_own_name};
use crate::links::Links;
use crate::problem::Problem;
use crate::rest::{self, Api, Endpoint};

mod envelope;
mod mcp;
mod serve;

pub use serve::serve;

/// A body of which nothing more came for this long is given up.
const BODY_STALLS: Duration = Duration::from_secs(60);

/// How the server is reached, and what it takes at most.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// What links begin with.
    pub public_base_url: String,
    /// Further names it answers to (`server.allowed_hosts`).
    pub allowed_hosts: Vec<String>,
    /// Further pages that may call (`server.allowed_origins`).
    pub allowed_origins: Vec<String>,
    /// Largest body that is held in memory: JSON and MCP messages.
    pub max_body_bytes: usize,
    /// Largest file that can be uploaded.
    pub max_upload_bytes: u64,
    /// How long requests may take to end after the server was told to stop.
    pub shutdown_grace: Duration,
    /// How long a download link is good.
    pub link_ttl: Duration,
    /// Connections at once; further ones wait.
    pub max_connections: usize,
}

/// The whole server.
pub fn router(
    engine: Arc<Engine>,
    keys: Arc<Keys>,
    links: Arc<Links>,
    options: &HttpOptions,
) -> Router {
    let hosts = Hosts::new(
        options.listen,
        &options.public_base_url,
        &options.allowed_hosts,
        &options.allowed_origins,
    );
    let mcp = mcp::router(engine.clone(), mcp_options(&engine, links.clone(), options));
    let api = Arc::new(Api {
        engine,
        links,
        max_body_bytes: options.max_body_bytes,
        max_upload_bytes: options.max_upload_bytes,
    });
    let keyed = routes(rest::keyed())
        .with_state(api.clone())
        .merge(mcp)
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_route)
        .layer(from_fn_with_state(keys, require_key));
    routes(rest::public())
        .with_state(api)
        .method_not_allowed_fallback(wrong_method)
        .merge(keyed)
        .layer(RequestBodyTimeoutLayer::new(BODY_STALLS))
        .layer(from_fn_with_state(Arc::new(hosts), require_own_name))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(envelope::wrap))
}

/// Each route that is answered, with its method, for whoever wants to be sure to know all.
pub fn endpoints() -> Vec<(Method, &'static str)> {
    let rest = rest::public().into_iter().chain(rest::keyed());
    let rest = rest.map(|endpoint| (endpoint.method, endpoint.path));
    rest.chain(mcp::METHODS.map(|method| (method, mcp::PATH))).collect()
}

fn routes(endpoints: Vec<Endpoint>) -> Router<Arc<Api>> {
    let add = |router: Router<Arc<Api>>, endpoint: Endpoint| {
        router.route(endpoint.path, endpoint.handler)
    };
    endpoints.into_iter().fold(Router::new(), add)
}

fn mcp_options(engine: &Engine, links: Arc<Links>, options: &HttpOptions) -> McpOptions {
    McpOptions {
        links: Some(links),
        // Both are checked in front of it.
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        max_message_bytes: options.max_body_bytes,
        session_idle: McpOptions::default()
            .session_idle
            .max(2 * engine.settings().ceiling.wall_time),
        ..McpOptions::default()
    }
}

async fn no_route(uri: Uri) -> Problem {
    let known = "routes are below /api, at /mcp and /healthz";
    // A path may hold the token of a link that was cut off.
    let path = if uri.path().len() > 200 { "this path" } else { uri.path() };
    Problem::new(StatusCode::NOT_FOUND, "no_route", format!("nothing is at {path}")).next(known)
}

async fn wrong_method(method: Method) -> Problem {
    let detail = format!("{} is not done here", method.as_str());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        .next("use a method that the `Allow` header names")
}

#[expect(clippy::needless_pass_by_value, reason = "the layer gives it away")]
fn panicked(payload: Box<dyn Any + Send>) -> Response {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Problem::internal(format!("panic: {text}")).into_response()
}
