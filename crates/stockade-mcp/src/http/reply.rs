//! Answers that the front gives itself, each as a JSON-RPC error.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::message::Problem;
use crate::render::text::scaled;

/// The authentication in front is missing: ours to mend.
pub(super) fn internal() -> Response {
    error(
        StatusCode::INTERNAL_SERVER_ERROR,
        -32603,
        "the server did not authenticate this request; its operator has to look at the log",
    )
}

pub(super) fn too_large(most: usize) -> Response {
    let text = format!(
        "the message is larger than {}, or broke off; send big files with \
         POST /api/workspaces/{{workspace}}/files/{{path}}",
        scaled(most as u64)
    );
    error(StatusCode::PAYLOAD_TOO_LARGE, -32600, &text)
}

pub(super) fn bad_message(problem: &Problem) -> Response {
    let (code, id) = match problem {
        Problem::NotJson(_) => (-32700, &Value::Null),
        Problem::Batch | Problem::NotAMessage => (-32600, &Value::Null),
        Problem::Field { id, .. } => (-32600, id),
    };
    error_to(id, StatusCode::BAD_REQUEST, code, &problem.to_string())
}

pub(super) fn unknown_session() -> Response {
    error(
        StatusCode::NOT_FOUND,
        -32001,
        "no such session; it has ended or is not yours: send `initialize` to get a new one",
    )
}

pub(super) fn too_many_sessions() -> Response {
    let mut response = error(
        StatusCode::TOO_MANY_REQUESTS,
        -32600,
        "all sessions are in use; end one with DELETE, or wait for a call to end",
    );
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

fn error(status: StatusCode, code: i64, message: &str) -> Response {
    error_to(&Value::Null, status, code, message)
}

fn error_to(id: &Value, status: StatusCode, code: i64, message: &str) -> Response {
    let body = json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": { "code": code, "message": message },
    });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
