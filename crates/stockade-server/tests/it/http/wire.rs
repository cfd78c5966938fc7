//! What only a socket can show: heads that are no HTTP, too long, or said twice.

use std::time::Duration;

use stockade_server::http::serve;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::front::{Front, Who};

/// Serves on a port of its own and answers raw bytes with raw bytes.
struct Wire {
    front: Front,
    port: u16,
    stop: CancellationToken,
}

impl Wire {
    async fn new() -> Self {
        let front = Front::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let (router, options, told) = (front.router.clone(), front.options.clone(), stop.clone());
        tokio::spawn(async move { serve(listener, router, &options, told).await.unwrap() });
        Self { front, port, stop }
    }

    /// Sends and reads until the server closes or has nothing more to say.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        // The server may have answered and closed before it got all.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        let quiet = Duration::from_millis(700);
        while let Ok(Ok(count)) = tokio::time::timeout(quiet, stream.read(&mut piece)).await {
            if count == 0 {
                break;
            }
            answer.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn head(lines: &[&str]) -> Vec<u8> {
    format!("{}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

#[track_caller]
fn refused(answer: &str, status: &[u16], what: &str) {
    let first = answer.lines().next().unwrap_or_default();
    let said: Option<u16> = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    assert!(said.is_some_and(|said| status.contains(&said)), "{what}: {first:?}");
}

#[tokio::test]
async fn a_head_that_is_ambiguous_or_no_http_is_refused() {
    let wire = Wire::new().await;
    let key = format!("Authorization: Bearer {}", wire.front.key(Who::User));
    let put = "PUT /api/workspaces/w/files/a HTTP/1.1";
    let host = "Host: localhost";
    let cases: [(&[&str], &[u16]); 13] = [
        (&["GET /healthz HTTP/1.1", host, host], &[403]),
        (&["GET /healthz HTTP/1.1", host, "Host: evil.example"], &[403]),
        (&["GET /healthz HTTP/1.1"], &[400, 403]),
        (&["GET http://evil.example/healthz HTTP/1.1", host], &[403]),
        (&["GET /healthz HTTP/1.1", host, "X: a\0b"], &[400]),
        (&["GET /healthz\0 HTTP/1.1", host], &[400]),
        (&["GET /healthz HTTP/1.1", host, "Bad Name: x"], &[400]),
        (&["GET  /healthz HTTP/1.1", host], &[400]),
        (&["\u{16}\u{3}\u{1} TLS", host], &[400]),
        (&[put, host, &key, "Content-Length: -1"], &[400]),
        (&[put, host, &key, "Content-Length: 1", "Content-Length: 2"], &[400]),
        (&[put, host, &key, "Content-Length: 99999999999999999999"], &[400, 413]),
        (&[put, host, &key, "Transfer-Encoding: nonsense"], &[400]),
    ];
    for (lines, status) in cases {
        let answer = wire.say(&head(lines)).await;
        refused(&answer, status, &format!("{lines:?}"));
    }
    let listed = wire.front.get(Who::User, "/api/workspaces/w/files/a").await;
    assert_eq!(listed.status, 404, "nothing was stored");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let wire = Wire::new().await;
    let long = format!("GET /api/workspaces/w/files/{} HTTP/1.1", "a".repeat(64 << 10));
    let answer = wire.say(&head(&[&long, "Host: localhost"])).await;
    refused(&answer, &[414, 431], "a path of 64 KiB");
    let large = format!("X-Large: {}", "a".repeat(1 << 20));
    let answer = wire.say(&head(&["GET /healthz HTTP/1.1", "Host: localhost", &large])).await;
    refused(&answer, &[431], "a header of 1 MiB");
    let many = vec!["X-Many: 1"; 10_000].join("\r\n");
    let answer = wire.say(&head(&["GET /healthz HTTP/1.1", "Host: localhost", &many])).await;
    refused(&answer, &[431], "10,000 headers");
    let answer = wire.say(&head(&["GET /healthz HTTP/1.1", "Host: localhost"])).await;
    refused(&answer, &[200], "the next one");
}

#[tokio::test]
async fn a_body_cannot_hide_a_second_request() {
    let wire = Wire::new().await;
    wire.front.put(Who::User, "w", "a", b"content").await;
    let key = format!("Authorization: Bearer {}", wire.front.key(Who::User));
    let mut bytes = head(&[
        "POST /healthz HTTP/1.1",
        "Host: localhost",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
    ]);
    bytes.extend(b"0\r\n\r\n");
    bytes.extend(head(&["DELETE /api/workspaces/w/files/a HTTP/1.1", "Host: localhost", &key]));
    let answer = wire.say(&bytes).await;
    assert!(!answer.contains(" 204 "), "both lengths were believed: {answer}");
    assert_eq!(wire.front.get(Who::User, "/api/workspaces/w/files/a").await.body, b"content");
}
