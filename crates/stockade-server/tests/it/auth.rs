//! Keys, `Host` and `Origin`, in front of every route.

use std::time::Duration;

use axum::http::Method;
use serde_json::Value;
use stockade_core::caller::Role;
use stockade_core::store::Store as _;
use stockade_server::auth::new_key;

use crate::front::{Answer, Front, Who};

const KEYED: [(Method, &str); 4] = [
    (Method::GET, "/api/auth/verify"),
    (Method::GET, "/api/workspaces/w/files/a"),
    (Method::POST, "/mcp"),
    (Method::GET, "/nowhere"),
];

/// Sends a request with these headers and no others but `Host`.
async fn with(front: &Front, uri: &str, headers: &[(&'static str, &[u8])]) -> Answer {
    let mut ask = front.ask(Who::Nobody, Method::GET, uri);
    for (name, value) in headers {
        ask = ask.header(name, value);
    }
    ask.send().await
}

#[tokio::test]
async fn all_that_is_not_one_good_key_gets_the_same_answer() {
    let front = Front::new().await;
    let key = front.key(Who::User).to_owned();
    let other = front.key(Who::Other).to_owned();
    let bearer = |key: &str| format!("Bearer {key}").into_bytes();
    let (good, second, plain) = (bearer(&key), bearer(&other), key.clone().into_bytes());
    let flipped = bearer(&key.replace("stk_", "stK_"));
    let (shorter, longer) = (bearer(&key[..key.len() - 1]), bearer(&format!("{key}A")));
    let large = bearer(&"A".repeat(1 << 20));
    let both = bearer(&format!("{key}, Bearer {other}"));
    let hash = bearer(&format!("{:x?}", front.store.keys().unwrap()[0].hash).replace(' ', ""));
    let bad: [&[(&'static str, &[u8])]; 24] = [
        &[],
        &[("authorization", b"")],
        &[("authorization", b" ")],
        &[("authorization", b"Bearer")],
        &[("authorization", b"Bearer ")],
        &[("authorization", b"Bearer null")],
        &[("authorization", b"Bearer undefined")],
        &[("authorization", b"Bearer *")],
        &[("authorization", b"Bearer \xff\xfe")],
        &[("authorization", &plain)],
        &[("authorization", &flipped)],
        &[("authorization", &shorter)],
        &[("authorization", &longer)],
        &[("authorization", &large)],
        &[("authorization", &both)],
        &[("authorization", &hash)],
        &[("authorization", &good), ("authorization", &good)],
        &[("authorization", &good), ("authorization", &second)],
        &[("authorization", &good), ("x-api-key", &plain)],
        &[("authorization", b""), ("x-api-key", &plain)],
        &[("x-api-key", b"")],
        &[("x-api-key", &good)],
        &[("proxy-authorization", &good)],
        &[("cookie", &plain)],
    ];
    let expected = with(&front, "/api/auth/verify", &[]).await;
    assert_eq!((expected.status.as_u16(), expected.code().as_str()), (401, "unauthorized"));
    assert_eq!(expected.header("www-authenticate"), Some("Bearer"));
    for headers in bad {
        let answer = with(&front, "/api/auth/verify", headers).await;
        let names: Vec<_> = headers.iter().map(|(name, value)| (name, value.len())).collect();
        assert!(answer == expected, "{names:?}: {answer:?}");
    }
    for (method, uri) in KEYED {
        let answer = front.ask(Who::Stranger, method, uri).send().await;
        assert_eq!(answer, expected, "{uri}");
    }
}

#[tokio::test]
async fn a_good_key_is_taken_in_either_header() {
    let front = Front::new().await;
    let key = front.key(Who::ReadOnly);
    for scheme in ["Bearer ", "bearer ", "BEARER ", "Bearer   "] {
        let value = format!("{scheme}{key}");
        let answer = with(&front, "/api/auth/verify", &[("authorization", value.as_bytes())]).await;
        assert_eq!(answer.status, 200, "{scheme}");
        assert_eq!(answer.json()["role"], "read-only");
        assert!(!answer.text().contains(key));
    }
    let answer = with(&front, "/api/auth/verify", &[("x-api-key", key.as_bytes())]).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_key_in_the_query_is_no_key() {
    let front = Front::new().await;
    let key = front.key(Who::Admin);
    for name in ["key", "api_key", "token", "access_token", "authorization", "x-api-key"] {
        for uri in ["/api/auth/verify", "/mcp", "/api/workspaces"] {
            let uri = format!("{uri}?{name}={key}");
            let answer = front.get(Who::Nobody, &uri).await;
            assert_eq!(answer.status, 401, "{name}");
            assert!(!answer.text().contains(key), "{name}: the key is echoed");
        }
    }
}

#[tokio::test]
async fn a_key_ends_when_it_expires_or_is_revoked() {
    let front = Front::new().await;
    let (_, expired) = new_key(&*front.store, "old", Role::Admin, Some(1)).unwrap();
    let status = async |secret: &str| {
        let value = format!("Bearer {secret}");
        with(&front, "/api/auth/verify", &[("authorization", value.as_bytes())]).await.status
    };
    assert_eq!(status(&expired).await, 401);
    let key = front.key(Who::User).to_owned();
    assert_eq!(status(&key).await, 200);
    front.store.revoke_key(front.key_id(Who::User), 5).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(status(&key).await, 401, "an answer of the store is remembered for one second");
}

/// `Host` headers, `Origin` headers, and whether a good key is then asked for.
const NAMES: [(&[&str], &[&str], bool); 31] = [
    (&["localhost:8080"], &[], true),
    (&["LOCALHOST"], &[], true),
    (&["127.0.0.1"], &[], true),
    (&["127.0.0.1:1"], &[], true),
    (&["[::1]:8080"], &[], true),
    (&["files.example.org"], &[], true),
    (&[], &[], false),
    (&[""], &[], false),
    (&["evil.example"], &[], false),
    (&["evil.example:8080"], &[], false),
    (&["127.0.0.1.evil.example"], &[], false),
    (&["localhost.evil.example"], &[], false),
    (&["localhost", "localhost"], &[], false),
    (&["localhost", "evil.example"], &[], false),
    (&["localhost,evil.example"], &[], false),
    (&["user@localhost"], &[], false),
    (&["[::1].evil.example"], &[], false),
    (&["[::ffff:127.0.0.1]"], &[], false),
    (&["0.0.0.0"], &[], false),
    (&["2130706433"], &[], false),
    (&["localhost"], &["http://localhost"], true),
    (&["localhost"], &["http://127.0.0.1:3000"], true),
    (&["localhost"], &["https://app.example"], true),
    (&["localhost"], &["null"], false),
    (&["localhost"], &[""], false),
    (&["localhost"], &["https://evil.example"], false),
    (&["localhost"], &["https://app.example.evil.example"], false),
    (&["localhost"], &["http://app.example"], false),
    (&["localhost"], &["http://127.0.0.1.evil.example"], false),
    (&["localhost"], &["http://localhost", "https://evil.example"], false),
    (&["localhost"], &["http://[::1]:9"], true),
];

#[tokio::test]
async fn only_own_names_and_own_pages_are_answered() {
    let front = Front::new().await;
    front.put(Who::User, "w", "a", b"content").await;
    let link = front.link(Who::User, "w", "a");
    let routes = [
        (Who::Nobody, Method::GET, "/healthz", 200),
        (Who::Nobody, Method::GET, link.as_str(), 200),
        (Who::User, Method::GET, "/api/workspaces/w/files/a", 200),
        (Who::User, Method::PUT, "/api/workspaces/w/files/b", 201),
        (Who::User, Method::POST, "/mcp", 200),
        (Who::User, Method::GET, "/nowhere", 404),
        (Who::Nobody, Method::GET, "/nowhere", 401),
    ];
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (hosts, origins, is_own) in NAMES {
        for (who, method, uri, expected) in &routes {
            let mut ask = front.ask(*who, method.clone(), uri).without("host");
            for host in hosts {
                ask = ask.header("host", host);
            }
            for origin in origins {
                ask = ask.header("origin", origin);
            }
            let ask = ask.header("content-type", "application/json").body(list);
            let answer = ask.send().await;
            let expected = if is_own { *expected } else { 403 };
            let what = format!("{hosts:?} {origins:?} {method} {uri}: {}", answer.text());
            assert_eq!(answer.status.as_u16(), expected, "{what}");
            assert!(!answer.headers.keys().any(|name| name.as_str().contains("allow-origin")));
        }
    }
}

#[tokio::test]
async fn a_target_with_a_foreign_name_is_refused() {
    let front = Front::new().await;
    for (uri, expected) in [
        ("http://localhost:8080/healthz", 200),
        ("http://evil.example/healthz", 403),
        ("http://localhost@evil.example/healthz", 403),
        ("http://evil.example@localhost/healthz", 403),
    ] {
        let status = front.get(Who::Nobody, uri).await.status;
        assert_eq!(status.as_u16(), expected, "{uri}");
    }
}

#[tokio::test]
async fn a_preflight_opens_nothing() {
    let front = Front::new().await;
    for origin in ["https://evil.example", "https://app.example", "http://localhost:3000", "null"] {
        let ask = front.ask(Who::Nobody, Method::OPTIONS, "/mcp").header("origin", origin);
        let ask = ask.header("access-control-request-method", "POST");
        let answer = ask.header("access-control-request-headers", "authorization").send().await;
        assert!([401, 403].contains(&answer.status.as_u16()), "{origin}: {answer:?}");
        let cors = answer.headers.keys().find(|name| name.as_str().starts_with("access-control"));
        assert_eq!(cors, None, "{origin}");
    }
}

#[tokio::test]
async fn a_read_only_key_runs_nothing_over_mcp() {
    let front = Front::new().await;
    let call = |tool: &str, arguments: Value| {
        serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments } })
        .to_string()
    };
    for (tool, arguments) in [
        ("run_command", serde_json::json!({ "command": "echo hi" })),
        ("run_code", serde_json::json!({ "language": "python", "code": "1" })),
        ("write_file", serde_json::json!({ "workspace": "w", "path": "a", "content": "x" })),
        ("sandbox", serde_json::json!({ "action": "create" })),
    ] {
        let ask = front.ask(Who::ReadOnly, Method::POST, "/mcp");
        let ask = ask.header("content-type", "application/json").header("accept", "*/*");
        let text = ask.body(call(tool, arguments)).send().await.text();
        assert!(text.contains("\"isError\":true"), "{tool}: {text}");
        assert!(text.contains("role User"), "{tool}: {text}");
    }
    assert_eq!(front.engine.health().await.sandboxes, 0);
}
