//! Bodies of requests, never larger than what is taken.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use futures::TryStreamExt as _;
use serde::de::DeserializeOwned;
use stockade_core::Error;
use stockade_core::engine::Reader;
use tokio_util::io::StreamReader;

use crate::problem::Problem;

/// Refuses a body that says itself that it is too large.
pub(crate) fn check_length(headers: &HeaderMap, most: u64) -> Result<(), Problem> {
    let said = headers.get(CONTENT_LENGTH).and_then(|said| said.to_str().ok());
    match said.map(str::parse::<u64>) {
        Some(Ok(length)) if length > most => Err(Problem::too_large(most)),
        _ => Ok(()),
    }
}

/// The body as JSON, held in memory.
pub(super) async fn json<T: DeserializeOwned>(request: Request, most: usize) -> Result<T, Problem> {
    let most_bytes = u64::try_from(most).unwrap_or(u64::MAX);
    check_length(request.headers(), most_bytes)?;
    if media_type(request.headers()).is_some_and(|kind| !kind.ends_with("json")) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "Content-Type: must be application/json here",
        ));
    }
    let bytes = to_bytes(request.into_body(), most).await.map_err(|error| {
        let is_cap = std::error::Error::source(&error)
            .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
        if is_cap { Problem::too_large(most_bytes) } else { broken(&error.to_string()).into() }
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::invalid("body", format!("is not the JSON that is taken here: {error}")).into()
    })
}

/// The body as a stream, which fails once it is larger than `most`, and whether it did.
pub(super) fn stream(body: Body, most: u64) -> (Reader, Arc<AtomicBool>) {
    let too_large = Arc::new(AtomicBool::new(false));
    let (tell, mut taken) = (too_large.clone(), 0_u64);
    let pieces = body.into_data_stream().map_err(io::Error::other).and_then(move |piece| {
        taken = taken.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        let fits = taken <= most;
        if !fits {
            tell.store(true, Ordering::Relaxed);
        }
        std::future::ready(if fits { Ok(piece) } else { Err(io::Error::other("too large")) })
    });
    (Box::pin(StreamReader::new(pieces)), too_large)
}

/// The media type of a body, in lower case and without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(said.split(';').next()?.trim().to_ascii_lowercase())
}

fn broken(error: &str) -> Error {
    Error::invalid("body", format!("broke off: {error}; send it again"))
}
