//! What each request gets: an id, a line in the log, and a written-out problem.
//!
//! The log has the pattern of the route, never the path or the query: those may
//! hold the token of a link or names of files.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use crate::auth::random;
use crate::problem;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken from a client or proxy.
const LONGEST_ID: usize = 64;

pub(super) async fn wrap(request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let method = request.method().as_str().to_owned();
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("-", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("request", request_id = id, method, route);
    async move {
        let begun = Instant::now();
        let mut response = problem::render(next.run(request).await, &id);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        let status = response.status().as_u16();
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(status, took_ms, "answered");
        response
    }
    .instrument(span)
    .await
}

/// The id that a proxy in front gave it, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let good = |id: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
    };
    match given.filter(good) {
        Some(id) => id.to_owned(),
        // An id is a convenience: a request does not fail for want of one.
        None => format!("{:016x}", u64::from_be_bytes(random().unwrap_or_default())),
    }
}
