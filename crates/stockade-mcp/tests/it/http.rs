//! The HTTP front: callers, sessions, and requests as clients really send them.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use stockade_core::caller::{Caller, Role};
use stockade_core::id::OwnerId;
use stockade_mcp::{McpOptions, router};
use tower::ServiceExt as _;

use crate::bench::Bench;

struct Front {
    bench: Bench,
    router: Router,
}

/// One request in the making.
struct Ask<'a> {
    method: Method,
    owner: Option<&'a str>,
    headers: Vec<(&'a str, String)>,
    body: String,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self { method: Method::POST, owner: Some("ann"), headers: Vec::new(), body: String::new() }
    }
}

impl<'a> Ask<'a> {
    fn post(body: &Value) -> Self {
        Self { body: body.to_string(), ..Self::default() }
    }

    fn by(mut self, owner: &'a str) -> Self {
        self.owner = Some(owner);
        self
    }

    fn header(mut self, name: &'a str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }
}

impl Front {
    async fn new(options: McpOptions) -> Self {
        let bench = Bench::new().await;
        let router = router(Arc::clone(&bench.engine), options);
        Self { bench, router }
    }

    async fn send(&self, ask: Ask<'_>) -> Response {
        let mut request = Request::builder().method(ask.method).uri("/mcp");
        if !ask.headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost:8080");
        }
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(Body::from(ask.body)).unwrap();
        if let Some(owner) = ask.owner {
            let caller = Caller { owner: OwnerId::of_key(owner), role: Role::User };
            request.extensions_mut().insert(caller);
        }
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Opens a session and gives its id.
    async fn session(&self, owner: &str) -> String {
        let response = self.send(Ask::post(&initialize()).by(owner)).await;
        assert_eq!(response.status(), StatusCode::OK);
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let (_, body) = read(response).await;
        assert_eq!(body["result"]["serverInfo"]["name"], "stockade");
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let ask = Ask::post(&initialized).by(owner).header("mcp-session-id", &id);
        assert_eq!(self.send(ask).await.status(), StatusCode::ACCEPTED);
        id
    }
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } } })
}

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })
}

fn run(command: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "run_command", "arguments": { "command": command } } })
}

/// The message of an answer, out of JSON or out of an event stream.
async fn read(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 24).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let data = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .find(|data| data.contains("\"result\"") || data.contains("\"error\""));
    (status, serde_json::from_str(data.unwrap_or(&text)).unwrap_or(Value::String(text)))
}

#[tokio::test]
async fn without_a_caller_nothing_is_done() {
    let front = Front::new(Bench::options()).await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let ask = Ask { owner: None, ..Ask::post(&run("echo hi")).method(method) };
        let (status, body) = read(front.send(ask).await).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body["error"]["code"], -32603);
    }
    assert_eq!(front.bench.backend.created(), 0);
}

#[tokio::test]
async fn a_session_serves_its_owner_and_ends_with_204() {
    let front = Front::new(Bench::options()).await;
    let id = front.session("ann").await;
    let call = || Ask::post(&run("echo hi")).header("mcp-session-id", &id);
    let (status, body) = read(front.send(call()).await).await;
    assert_eq!(status, StatusCode::OK);
    let text = body["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("stdout:\nhi\n"), "{text}");
    let end = || call().method(Method::DELETE);
    for (ask, expected) in [
        (call().by("bob"), StatusCode::NOT_FOUND),
        (end().by("bob"), StatusCode::NOT_FOUND),
        (call().by("bob").method(Method::GET), StatusCode::NOT_FOUND),
        (end(), StatusCode::NO_CONTENT),
        (end(), StatusCode::NOT_FOUND),
        (call(), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(front.send(ask).await.status(), expected);
    }
}

#[tokio::test]
async fn owners_see_their_own_things_only() {
    let front = Front::new(Bench::options()).await;
    let (_, body) = read(front.send(Ask::post(&run("echo secret"))).await).await;
    let text = body["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let run = crate::bench::after(&text, " · run ");
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "continue_run", "arguments": { "run": run } } });
    let (_, body) = read(front.send(Ask::post(&ask).by("bob")).await).await;
    assert_eq!(body["result"]["isError"], true);
    let (_, body) = read(front.send(Ask::post(&ask)).await).await;
    assert!(body["result"]["content"][0]["text"].as_str().unwrap().contains("secret"));
}

#[tokio::test]
async fn omissions_of_clients_are_mended() {
    let front = Front::new(Bench::options()).await;
    for ask in [
        Ask::post(&list()),
        Ask::post(&list()).header("accept", "application/json"),
        Ask::post(&list()).header("accept", "*/*"),
        Ask::post(&list()).header("content-type", "application/json; charset=utf-8"),
        Ask::post(&list()).header("mcp-protocol-version", "2025-06-18"),
    ] {
        let (status, body) = read(front.send(ask).await).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!(body["result"]["tools"].as_array().unwrap().len(), 8);
    }
    let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2024-11-05" } });
    let response = front.send(Ask::post(&bare)).await;
    assert!(response.headers().contains_key("mcp-session-id"));
    let (_, body) = read(response).await;
    assert_eq!(body["result"]["protocolVersion"], "2024-11-05");
    let ask = Ask::post(&bare).header("accept", "application/json");
    let response = front.send(ask.header("mcp-session-id", "of-an-earlier-life")).await;
    assert!(!response.headers().contains_key("mcp-session-id"));
    assert_eq!(response.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn an_initialize_with_a_dead_session_opens_a_new_one() {
    let front = Front::new(Bench::options()).await;
    let ask = Ask::post(&initialize()).header("mcp-session-id", "gone");
    let response = front.send(ask).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_ne!(response.headers()["mcp-session-id"], "gone");
}

#[tokio::test]
async fn the_modern_protocol_needs_no_session() {
    let front = Front::new(Bench::options()).await;
    let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} } } });
    let ask = Ask::post(&body)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/list")
        .header("mcp-session-id", "ignored");
    let (status, body) = read(front.send(ask).await).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["result"]["tools"].as_array().unwrap().len(), 8);
    let get = Ask::default().method(Method::GET).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(front.send(get).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn bad_bodies_are_told_apart() {
    let options = McpOptions { max_message_bytes: 1000, ..Bench::options() };
    let front = Front::new(options).await;
    let raw = |body: &str| Ask { body: body.to_owned(), ..Ask::default() };
    for (ask, status, code) in [
        (raw("{"), StatusCode::BAD_REQUEST, -32700),
        (raw(""), StatusCode::BAD_REQUEST, -32700),
        (raw("\u{0}"), StatusCode::BAD_REQUEST, -32700),
        (raw("[]"), StatusCode::BAD_REQUEST, -32600),
        (raw(&format!("\"{}\"", "x".repeat(2000))), StatusCode::PAYLOAD_TOO_LARGE, -32600),
    ] {
        let (got, body) = read(front.send(ask).await).await;
        assert_eq!((got, body["error"]["code"].as_i64()), (status, Some(code)), "{body}");
        assert!(body["error"]["message"].as_str().unwrap().len() > 20);
    }
}

#[tokio::test]
async fn calls_that_break_the_protocol_are_told_how() {
    let front = Front::new(Bench::options()).await;
    for (call, code, words) in [
        (json!({ "id": 7, "method": "tools/call" }), -32602, "`name`"),
        (json!({ "id": 7, "method": "tools/call", "params": {} }), -32602, "`name`"),
        (
            json!({ "id": 7, "method": "tools/call", "params": { "name": "run_code", "arguments": [] } }),
            -32602,
            "`arguments`",
        ),
        (json!({ "id": 7, "method": "nonsense" }), -32601, "tools/list and tools/call"),
        (json!({ "id": 7, "method": "tools/call", "params": [] }), -32600, "params: must be"),
        (json!({ "id": 7 }), -32600, "method: is missing"),
    ] {
        let mut call = call;
        call["jsonrpc"] = json!("2.0");
        let (_, body) = read(front.send(Ask::post(&call)).await).await;
        let got = (body["error"]["code"].as_i64(), body["id"].as_i64());
        assert_eq!(got, (Some(code), Some(7)), "{body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(words), "{body}");
    }
}

#[tokio::test]
async fn host_and_origin_are_checked() {
    let origins = vec!["https://app.example".to_owned(), "http://localhost:3000".to_owned()];
    let front = Front::new(McpOptions { allowed_origins: origins, ..Bench::options() }).await;
    for (name, value, expected) in [
        ("host", "evil.example", StatusCode::FORBIDDEN),
        ("host", "127.0.0.1:8080", StatusCode::OK),
        ("origin", "https://evil.example", StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
        ("origin", "http://localhost:3001", StatusCode::FORBIDDEN),
        ("origin", "http://localhost:3000", StatusCode::OK),
        ("origin", "https://app.example", StatusCode::OK),
    ] {
        let status = front.send(Ask::post(&list()).header(name, value)).await.status();
        assert_eq!(status, expected, "{name}: {value}");
    }
    let front = Front::new(Bench::options()).await;
    let ask = Ask::post(&list()).header("origin", "http://localhost:8080");
    assert_eq!(front.send(ask).await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn idle_sessions_make_room_at_the_cap() {
    let front = Front::new(McpOptions { max_sessions_per_owner: 3, ..Bench::options() }).await;
    let first = front.session("ann").await;
    let bobs = front.session("bob").await;
    let mut last = String::new();
    for _ in 0..10 {
        last = front.session("ann").await;
    }
    let status = async |owner, id: &str| {
        front.send(Ask::post(&list()).by(owner).header("mcp-session-id", id)).await.status()
    };
    assert_eq!(status("ann", &first).await, StatusCode::NOT_FOUND);
    assert_eq!(status("ann", &last).await, StatusCode::OK);
    assert_eq!(status("bob", &bobs).await, StatusCode::OK);
}

#[tokio::test]
async fn sessions_in_use_are_not_pushed_out() {
    let front = Front::new(McpOptions { max_sessions_per_owner: 1, ..Bench::options() }).await;
    let id = front.session("ann").await;
    let stream = front.send(Ask::default().method(Method::GET).header("mcp-session-id", &id)).await;
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(stream.headers()["x-accel-buffering"], "no");
    let (status, body) = read(front.send(Ask::post(&initialize())).await).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    drop(stream);
    assert_eq!(front.send(Ask::post(&initialize())).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn other_methods_are_refused() {
    let front = Front::new(Bench::options()).await;
    let ask = Ask::default().method(Method::PUT);
    assert_eq!(front.send(ask).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}
