//! The first lines of a stdio client: what came before its first request is let pass.
//!
//! Some clients send a notification of an earlier life first, or leave out parts
//! of `initialize`; a strict server would end there.

use std::io::{self, Cursor};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// Reads up to the first request; gives the stream from it on, or `None` if there is none.
pub(super) async fn first_request<R>(
    reader: R,
    most: usize,
) -> io::Result<Option<impl AsyncRead + Send + Unpin + 'static>>
where
    R: AsyncRead + Send + Unpin + 'static,
{
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        let read = (&mut reader).take(limit).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        match judge(&line) {
            Opening::Skip => tracing::debug!("a message before the first request was passed over"),
            Opening::Request(line) => return Ok(Some(Cursor::new(line).chain(reader))),
        }
    }
}

enum Opening {
    Skip,
    Request(Vec<u8>),
}

fn judge(line: &[u8]) -> Opening {
    let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
        // What is not JSON is the protocol layer's to refuse.
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        return if is_blank { Opening::Skip } else { Opening::Request(line.to_vec()) };
    };
    let is_notification = message.get("method").is_some() && message.get("id").is_none();
    if is_notification {
        return Opening::Skip;
    }
    let is_initialize = message.get("method").and_then(Value::as_str) == Some("initialize");
    if is_initialize && complete_initialize(&mut message) {
        return Opening::Request(format!("{message}\n").into_bytes());
    }
    Opening::Request(line.to_vec())
}

/// Fills in what an `initialize` must say and some clients do not. Whether it changed anything.
pub(crate) fn complete_initialize(message: &mut Value) -> bool {
    let Some(message) = message.as_object_mut() else { return false };
    let params = message.entry("params").or_insert_with(|| json!({}));
    let Some(params) = params.as_object_mut() else { return false };
    let mut changed = false;
    for (name, value) in [
        ("protocolVersion", json!("2025-03-26")),
        ("capabilities", json!({})),
        ("clientInfo", json!({ "name": "unknown", "version": "0" })),
    ] {
        if params.get(name).is_none_or(Value::is_null) {
            params.insert(name.to_owned(), value);
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn opening(input: &'static str) -> Option<String> {
        let mut reader = first_request(input.as_bytes(), 1 << 20).await.unwrap()?;
        let mut rest = String::new();
        reader.read_to_string(&mut rest).await.unwrap();
        Some(rest)
    }

    #[tokio::test]
    async fn notifications_before_the_first_request_are_passed_over() {
        let input = "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}\r\n\
                     {\"id\":1,\"method\":\"ping\"}\nmore\n";
        assert_eq!(opening(input).await.unwrap(), "{\"id\":1,\"method\":\"ping\"}\nmore\n");
        assert_eq!(opening("").await, None);
        assert_eq!(opening("{\"method\":\"notifications/x\"}\n").await, None);
    }

    #[tokio::test]
    async fn what_is_not_json_is_left_to_the_protocol() {
        assert_eq!(opening("hello\nx").await.unwrap(), "hello\nx");
    }

    #[tokio::test]
    async fn a_bare_initialize_is_completed() {
        let text = opening("{\"id\":1,\"method\":\"initialize\"}\nrest").await.unwrap();
        let (line, rest) = text.split_once('\n').unwrap();
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["params"]["clientInfo"]["name"], "unknown");
        assert_eq!(rest, "rest");
    }
}
