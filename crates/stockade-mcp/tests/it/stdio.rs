//! The server over a pair of streams, with bytes as clients really send them.

use std::sync::Arc;

use serde_json::{Value, json};
use stockade_mcp::{McpOptions, serve};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::bench::Bench;

/// Sends lines, ends the input, and gives every line that came back.
async fn exchange(bench: &Bench, lines: &[Value]) -> Vec<Value> {
    let (input, mut sender) = tokio::io::duplex(1 << 20);
    let (receiver, output) = tokio::io::duplex(1 << 20);
    let engine = Arc::clone(&bench.engine);
    let server = tokio::spawn(serve(engine, McpOptions::default(), input, output));
    let reading = tokio::spawn(async move {
        let mut lines = BufReader::new(receiver).lines();
        let mut answers = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            answers.push(serde_json::from_str(&line).unwrap());
        }
        answers
    });
    for line in lines {
        sender.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    sender.shutdown().await.unwrap();
    drop(sender);
    server.await.unwrap().unwrap();
    reading.await.unwrap()
}

#[tokio::test]
async fn stray_notifications_and_a_bare_initialize_do_not_end_the_server() {
    let bench = Bench::new().await;
    let answers = exchange(
        &bench,
        &[
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-06-18" } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "run_command", "arguments": { "command": "echo hi" } } }),
        ],
    )
    .await;
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "stockade");
    assert!(answers[0]["result"]["instructions"].as_str().unwrap().contains("run_code"));
    let text = answers[1]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("exit 0 · ") && text.contains("stdout:\nhi\n"), "{text}");
}

#[tokio::test]
async fn the_modern_protocol_needs_no_handshake() {
    let bench = Bench::new().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let answers = exchange(
        &bench,
        &[json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } })],
    )
    .await;
    assert_eq!(answers[0]["result"]["tools"].as_array().unwrap().len(), 8, "{answers:?}");
    assert_eq!(answers[0]["result"]["cacheScope"], "public");
}

#[tokio::test]
async fn the_end_of_input_is_a_clean_end() {
    let bench = Bench::new().await;
    assert!(exchange(&bench, &[]).await.is_empty());
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" });
    assert_eq!(exchange(&bench, &[initialize]).await.len(), 1);
}

#[tokio::test]
async fn shutdown_ends_a_server_that_waits() {
    let bench = Bench::new().await;
    let options = McpOptions::default();
    let shutdown = options.shutdown.clone();
    let (_open, input) = tokio::io::duplex(64);
    let engine = Arc::clone(&bench.engine);
    let server = tokio::spawn(serve(engine, options, input, tokio::io::sink()));
    tokio::task::yield_now().await;
    shutdown.cancel();
    server.await.unwrap().unwrap();
}
