//! One message as it came, looked at just enough to know where it goes.

use axum::body::Bytes;
use axum::http::HeaderMap;
use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value};

use crate::stdio::complete_initialize;

/// Which half of the protocol's history a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// Sessions that `initialize` opens.
    Legacy,
    /// Each request stands alone and says its version itself.
    Modern,
}

/// A message that is at least JSON.
#[derive(Debug)]
pub(super) struct Message {
    /// The bytes to pass on.
    pub(super) body: Bytes,
    /// Where it belongs.
    pub(super) era: Era,
    /// Whether it opens a session.
    pub(super) is_initialize: bool,
}

/// Why a body is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("the body is not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("batches are not supported; send one message per request")]
    Batch,
    #[error("the body is not a JSON-RPC message; send an object")]
    NotAMessage,
    #[error("{field}: {reason}")]
    Field { field: &'static str, reason: &'static str, id: Value },
}

impl Message {
    /// Reads a body, and completes an `initialize` that leaves out what it may not.
    pub(super) fn parse(body: Bytes, headers: &HeaderMap) -> Result<Self, Problem> {
        let mut value: Value = serde_json::from_slice(&body).map_err(Problem::NotJson)?;
        match &value {
            Value::Object(message) => check_fields(message)?,
            Value::Array(_) => return Err(Problem::Batch),
            _ => return Err(Problem::NotAMessage),
        }
        let is_initialize = value.get("method").and_then(Value::as_str) == Some("initialize");
        let era = match in_body(&value) {
            Some(version) => era_of_version(version),
            None => era_of(headers),
        };
        let completed = is_initialize && era == Era::Legacy && complete_initialize(&mut value);
        let body = if completed { Bytes::from(value.to_string()) } else { body };
        Ok(Self { body, era, is_initialize })
    }
}

/// Refuses what JSON-RPC and MCP forbid, by the name of the field.
fn check_fields(message: &Map<String, Value>) -> Result<(), Problem> {
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
    let id = message.get("id");
    let wrong = |field, reason| {
        let id = id.filter(|id| is_id(id)).cloned().unwrap_or(Value::Null);
        Err(Problem::Field { field, reason, id })
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return wrong("jsonrpc", "must be \"2.0\"");
    }
    if id.is_some_and(|id| !is_id(id)) {
        return wrong("id", "must be a text or a whole number; leave it out in a notification");
    }
    match message.get("method") {
        // An answer to a request of ours.
        None if message.contains_key("result") || message.contains_key("error") => return Ok(()),
        None => return wrong("method", "is missing; for example \"tools/call\""),
        Some(method) if !method.is_string() => return wrong("method", "must be a text"),
        Some(_) => {}
    }
    match message.get("params") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => wrong("params", "must be an object, or be left out"),
    }
}

/// The era that the headers of a request claim.
pub(super) fn era_of(headers: &HeaderMap) -> Era {
    let version = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    version.map_or(Era::Legacy, era_of_version)
}

fn era_of_version(version: &str) -> Era {
    match version >= ProtocolVersion::V_2026_07_28.as_str() {
        true => Era::Modern,
        false => Era::Legacy,
    }
}

fn in_body(message: &Value) -> Option<&str> {
    message.get("params")?.get("_meta")?.get("io.modelcontextprotocol/protocolVersion")?.as_str()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn parse(body: &'static str, version: Option<&'static str>) -> Result<Message, Problem> {
        let mut headers = HeaderMap::new();
        if let Some(version) = version {
            headers.insert("mcp-protocol-version", HeaderValue::from_static(version));
        }
        Message::parse(Bytes::from_static(body.as_bytes()), &headers)
    }

    #[test]
    fn eras_come_from_the_body_or_the_header() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert_eq!(parse(call, None).unwrap().era, Era::Legacy);
        assert_eq!(parse(call, Some("2025-11-25")).unwrap().era, Era::Legacy);
        assert_eq!(parse(call, Some("2026-07-28")).unwrap().era, Era::Modern);
        let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":
            {"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(parse(modern, None).unwrap().era, Era::Modern);
    }

    #[test]
    fn bodies_that_are_no_message_are_told_apart() {
        assert!(matches!(parse("{", None), Err(Problem::NotJson(_))));
        assert!(matches!(parse("", None), Err(Problem::NotJson(_))));
        assert!(matches!(parse("[]", None), Err(Problem::Batch)));
        assert!(matches!(parse("3", None), Err(Problem::NotAMessage)));
    }

    #[test]
    fn a_message_that_breaks_the_rules_is_told_by_its_field() {
        let field = |body| match parse(body, None) {
            Err(Problem::Field { field, id, .. }) => Some((field, id)),
            _ => None,
        };
        for (body, expected) in [
            (r#"{"id":1,"method":"ping"}"#, Some(("jsonrpc", json!(1)))),
            (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, Some(("jsonrpc", json!("a")))),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Some(("id", Value::Null))),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Some(("id", Value::Null))),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Some(("id", Value::Null))),
            (r#"{"jsonrpc":"2.0","id":1}"#, Some(("method", json!(1)))),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, Some(("method", json!(1)))),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#, Some(("params", json!(1)))),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":5}"#, Some(("params", json!(1)))),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, None),
        ] {
            assert_eq!(field(body), expected, "{body}");
        }
    }

    #[test]
    fn a_bare_initialize_is_completed_in_its_own_era_only() {
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let message = parse(bare, None).unwrap();
        assert!(message.is_initialize);
        let value: Value = serde_json::from_slice(&message.body).unwrap();
        assert!(value["params"]["capabilities"].is_object());
        assert_eq!(parse(bare, Some("2026-07-28")).unwrap().body, bare.as_bytes());
    }
}
