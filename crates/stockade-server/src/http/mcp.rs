//! MCP's place among the routes.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use stockade_core::engine::Engine;
use stockade_mcp::McpOptions;

use super::serve::Stop;
use crate::rest::check_length;

pub(super) const PATH: &str = "/mcp";
pub(super) const METHODS: [Method; 3] = [Method::POST, Method::GET, Method::DELETE];

pub(super) fn router(engine: Arc<Engine>, options: McpOptions) -> Router {
    let most = u64::try_from(options.max_message_bytes).unwrap_or(u64::MAX);
    stockade_mcp::router(engine, options)
        .layer(from_fn(end_with_server))
        .layer(from_fn_with_state(most, refuse_large))
}

/// Refuses a message that says itself that it is too large before any of it is read.
async fn refuse_large(State(most): State<u64>, request: Request, next: Next) -> Response {
    match check_length(request.headers(), most) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// The stream that a client listens on has no end of its own: it ends when the
/// server is told to stop, so that it does not use up the grace of the runs.
async fn end_with_server(request: Request, next: Next) -> Response {
    let stop = request.extensions().get::<Stop>().cloned();
    let listens = request.method() == Method::GET;
    let response = next.run(request).await;
    match stop {
        Some(Stop(stop)) if listens => response.map(|body| {
            let ended = stop.cancelled_owned();
            Body::from_stream(body.into_data_stream().take_until(ended))
        }),
        _ => response,
    }
}
