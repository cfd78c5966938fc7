//! One message as it came, looked at just enough to know where it goes.

use axum::body::Bytes;
use axum::http::HeaderMap;
use rmcp::model::ProtocolVersion;
use serde_json::Value;

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
}

impl Message {
    /// Reads a body, and completes an `initialize` that leaves out what it may not.
    pub(super) fn parse(body: Bytes, headers: &HeaderMap) -> Result<Self, Problem> {
        let mut value: Value = serde_json::from_slice(&body).map_err(Problem::NotJson)?;
        match &value {
            Value::Object(_) => {}
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
    fn a_bare_initialize_is_completed_in_its_own_era_only() {
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let message = parse(bare, None).unwrap();
        assert!(message.is_initialize);
        let value: Value = serde_json::from_slice(&message.body).unwrap();
        assert!(value["params"]["capabilities"].is_object());
        assert_eq!(parse(bare, Some("2026-07-28")).unwrap().body, bare.as_bytes());
    }
}
