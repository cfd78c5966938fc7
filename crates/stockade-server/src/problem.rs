//! The one place where a failure becomes a status code and a body.
//!
//! Bodies are RFC 9457 problems. What is for the log only (the source of a
//! failure of ours) never gets into one; the request id leads from the body to
//! the log. A `Problem` becomes a response without a body, which the outermost
//! layer writes once it knows the id.

use std::error::Error as _;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stockade_core::Error;

/// A request that was not carried out, as its sender sees it.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    next: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// For the log only.
    cause: Option<String>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
    request_id: &'a str,
}

impl Problem {
    /// A problem of this status, with its stable code and what is wrong.
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, code, detail, next: None, headers: Vec::new(), cause: None }
    }

    /// Adds what to do next.
    pub(crate) fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// No key, or one that is not good. Never says which.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs one valid key")
            .next(
                "send the key once, as `Authorization: Bearer KEY` or as `X-API-Key: KEY`; \
                 the operator of this server gives out keys",
            )
            .header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// A body that is larger than what is taken.
    pub(crate) fn too_large(most: u64) -> Self {
        let detail = format!("the body is larger than {most} bytes, the most that is taken here");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
            .next("send less, or send files one by one to /api/workspaces/{workspace}/files/{path}")
    }

    /// A failure of ours. `cause` is for the log.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        let detail = "the server failed to do this";
        let problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            .next("try again; the server's log has the cause under this request id");
        Self { cause: Some(cause.into()), ..problem }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = error.code();
        let detail = error.to_string();
        match error {
            Error::Invalid { .. } => Self::new(StatusCode::BAD_REQUEST, code, detail),
            Error::NotFound { what, .. } => {
                Self::new(StatusCode::NOT_FOUND, code, detail).next(where_to_look(what))
            }
            Error::Conflict { .. } => Self::new(StatusCode::CONFLICT, code, detail),
            Error::Denied { .. } => Self::new(StatusCode::FORBIDDEN, code, detail),
            Error::Exhausted { retry_after_s, .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, code, detail)
                    .next(format!("free some, or try again in {retry_after_s} s"))
                    .header(RETRY_AFTER, HeaderValue::from(retry_after_s))
            }
            Error::Unenforceable { .. } => Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
                .next("the operator can run `stockade doctor`, which names the mend"),
            Error::Unsupported { .. } => Self::new(StatusCode::NOT_IMPLEMENTED, code, detail),
            Error::Backend { .. } => Self::internal(chain(&error)),
            other => Self::internal(chain(&other)),
        }
    }
}

fn where_to_look(what: &str) -> &'static str {
    match what {
        "workspace" => "GET /api/workspaces lists those of this key",
        "file" => "GET /api/workspaces/{workspace}/files lists what is there",
        _ => "it may have ended, or belong to another key",
    }
}

/// An error with all of its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let mut response = self.status.into_response();
        response
            .headers_mut()
            .extend(self.headers.drain(..).map(|(name, value)| (Some(name), value)));
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of a response that is a problem, and what only the log may know.
pub(crate) fn render(mut response: Response, request_id: &str) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    if let Some(cause) = &problem.cause {
        tracing::error!(request_id, cause, "a request failed");
    }
    let document = Document {
        r#type: "about:blank",
        title: problem.status.canonical_reason().unwrap_or("Error"),
        status: problem.status.as_u16(),
        code: problem.code,
        detail: &problem.detail,
        next: problem.next.as_deref(),
        request_id,
    };
    // Text and numbers always serialise.
    let body = serde_json::to_string(&document).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    for (name, value) in [
        (CONTENT_TYPE, "application/problem+json"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::Value;
    use stockade_core::isolation::Layer;

    use super::*;

    async fn shown(problem: Problem) -> (StatusCode, Value) {
        let response = render(problem.into_response(), "abc");
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn each_error_has_its_status() {
        let table = [
            (Error::invalid("path", "is wrong"), 400),
            (Error::not_found("file", "x"), 404),
            (Error::conflict("workspace", "in use"), 409),
            (Error::denied("this"), 403),
            (Error::Exhausted { what: "queue", retry_after_s: 3 }, 429),
            (Error::Unenforceable { layer: Layer::Syscalls, reason: "gone".to_owned() }, 503),
            (Error::Unsupported { feature: "fork", hint: "wait".to_owned() }, 501),
            (Error::backend("native", "starting", "secret detail"), 500),
        ];
        for (error, expected) in table {
            let (code, text) = (error.code(), error.to_string());
            let (status, body) = shown(error.into()).await;
            assert_eq!(status.as_u16(), expected, "{text}");
            assert_eq!(body["status"], expected);
            assert_eq!(body["code"], code);
            assert_eq!(body["request_id"], "abc");
            assert!(!body.to_string().contains("secret detail"), "{body}");
        }
    }

    #[tokio::test]
    async fn exhaustion_says_when_to_come_back() {
        let problem = Problem::from(Error::Exhausted { what: "queue", retry_after_s: 3 });
        assert_eq!(problem.into_response().headers()[RETRY_AFTER], "3");
    }
}
