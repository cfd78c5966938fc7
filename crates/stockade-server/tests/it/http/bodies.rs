//! Bodies: too large, broken off, of the wrong kind, or not what they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::Method;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::front::{Front, MAX_BODY, MAX_UPLOAD, Who};

const FILE: &str = "/api/workspaces/w/files/a.txt";
const PIECE: u64 = 1024;

/// A body without a length and without an end, and how much of it was taken.
fn endless() -> (Body, Arc<AtomicU64>) {
    let taken = Arc::new(AtomicU64::new(0));
    let counter = taken.clone();
    let pieces = futures::stream::repeat_with(move || {
        counter.fetch_add(PIECE, Ordering::SeqCst);
        Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1024]))
    });
    (Body::from_stream(pieces), taken)
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let front = Front::new().await;
    front.put(Who::User, "w", "a.txt", b"old").await;
    let most = u64::try_from(MAX_BODY).unwrap();
    for (method, uri, most) in [
        (Method::POST, "/api/workspaces", most),
        (Method::POST, "/mcp", most),
        (Method::POST, FILE, MAX_UPLOAD),
        (Method::PUT, FILE, MAX_UPLOAD),
    ] {
        let ask = || front.ask(Who::User, method.clone(), uri).header("accept", "*/*");
        for said in [most + 1, 100 << 20, 10 << 30, u64::MAX] {
            let (body, taken) = endless();
            let ask = ask().header("content-length", said.to_string()).body(body);
            let answer = ask.send().await;
            assert_eq!(answer.status, 413, "{method} {uri} {said}: {}", answer.text());
            assert_eq!(taken.load(Ordering::SeqCst), 0, "{method} {uri}: it was read");
            assert!(answer.text().contains(&most.to_string()), "{}", answer.text());
        }
        let (body, taken) = endless();
        let answer = ask().header("content-type", "application/json").body(body).send().await;
        assert_eq!(answer.status, 413, "{method} {uri}: {}", answer.text());
        let taken = taken.load(Ordering::SeqCst);
        assert!(taken <= most + 64 * PIECE, "{method} {uri}: {taken} bytes were read");
    }
    assert_eq!(front.get(Who::User, FILE).await.body, b"old", "the old file stays");
    let left: Vec<_> = std::fs::read_dir(front.on_disk(Who::User, "w")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn the_largest_file_is_taken() {
    let front = Front::new().await;
    let size = usize::try_from(MAX_UPLOAD).unwrap();
    let answer = front.ask(Who::User, Method::PUT, FILE).body(vec![7; size]).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(front.get(Who::User, FILE).await.body, vec![7; size]);
}

#[tokio::test]
async fn a_full_workspace_takes_no_more_and_says_so() {
    let front = Front::new().await;
    let size = usize::try_from(MAX_UPLOAD).unwrap();
    let mut refused = None;
    for number in 0..20 {
        let uri = format!("/api/workspaces/w/files/{number}");
        let answer = front.ask(Who::User, Method::PUT, &uri).body(vec![7; size]).send().await;
        if answer.status != 201 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("20 times 64 KiB do not fit into 1 MiB");
    assert!(refused.status.is_client_error(), "{}", refused.text());
    assert!(refused.text().contains("workspace"), "{}", refused.text());
}

#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let front = Front::new().await;
    front.put(Who::User, "w", "a.txt", b"old").await;
    let broken = || {
        let pieces = [Ok(Bytes::from("new")), Err(std::io::Error::other("gone"))];
        Body::from_stream(futures::stream::iter(pieces).chain(futures::stream::empty()))
    };
    for (method, uri) in
        [(Method::PUT, FILE), (Method::POST, FILE), (Method::POST, "/api/workspaces")]
    {
        let answer = front.ask(Who::User, method.clone(), uri).body(broken()).send().await;
        assert!(answer.status.is_client_error(), "{method} {uri}: {}", answer.text());
    }
    assert_eq!(front.get(Who::User, FILE).await.body, b"old");
    let left: Vec<_> = std::fs::read_dir(front.on_disk(Who::User, "w")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn what_stands_for_another_content_is_not_stored() {
    let front = Front::new().await;
    for (name, value, status) in [
        ("content-encoding", "gzip", 415),
        ("content-type", "multipart/form-data; boundary=x", 415),
        ("content-type", "MULTIPART/FORM-DATA", 415),
        ("content-range", "bytes 0-3/10", 400),
    ] {
        let ask = front.ask(Who::User, Method::PUT, FILE).header(name, value).body("x");
        let answer = ask.send().await;
        assert_eq!(answer.status, status, "{name}: {value}: {}", answer.text());
        assert!(answer.text().to_lowercase().contains(name), "{}", answer.text());
    }
    assert_eq!(front.get(Who::User, FILE).await.status, 404);
}

#[tokio::test]
async fn json_that_is_not_what_is_taken_is_refused_with_its_cause() {
    let front = Front::new().await;
    let deep = "[".repeat(4000);
    let long = json!({ "name": "n".repeat(3000) }).to_string();
    let table: [(&[u8], u16); 17] = [
        (b"", 400),
        (b"{", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"{\"name\":null}", 400),
        (b"{\"name\":1}", 400),
        (b"{\"name\":NaN}", 400),
        (b"{\"name\":\"a\",\"name\":\"b\"}", 400),
        (b"{\"name\":\"a\",\"__proto__\":{}}", 400),
        (b"{\"name\":\"a\"}trailing", 400),
        (b"{\"name\":\"\\ud800\"}", 400),
        (b"{\"name\":\"\xff\xfe\"}", 400),
        (b"\xef\xbb\xbf{\"name\":\"a\"}", 400),
        (b"{\"name\":\"a\\u0000b\"}", 400),
        (deep.as_bytes(), 400),
        (long.as_bytes(), 400),
    ];
    for (body, status) in table {
        let ask = front.ask(Who::User, Method::POST, "/api/workspaces").body(body.to_vec());
        let answer = ask.send().await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
        assert!(answer.body.len() < 1000, "{shown}: an echo of {} bytes", answer.body.len());
    }
    // What a form of a foreign page can send without asking first.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let ask = front.ask(Who::User, Method::POST, "/api/workspaces");
        let answer = ask.header("content-type", kind).body(r#"{"name":"a"}"#).send().await;
        assert_eq!(answer.status, 415, "{kind}: {}", answer.text());
    }
    let listed = front.get(Who::User, "/api/workspaces").await.json();
    assert_eq!(listed["workspaces"], Value::Array(Vec::new()));
}
