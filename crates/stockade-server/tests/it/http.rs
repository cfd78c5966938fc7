//! The routes: which there are, who may take them, and what they give away.

mod bodies;
mod downloads;
mod paths;
mod wire;

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::json;
use stockade_server::http::endpoints;

use crate::front::{Answer, Front, Who};

/// What a route answers to nobody, a stranger, and keys that may read, use and administer.
struct Row {
    method: Method,
    path: &'static str,
    statuses: [u16; 5],
}

const ALL: [Who; 5] = [Who::Nobody, Who::Stranger, Who::ReadOnly, Who::User, Who::Admin];
const FILE: &str = "/api/workspaces/{workspace}/files/{*path}";

fn row(method: Method, path: &'static str, statuses: [u16; 5]) -> Row {
    Row { method, path, statuses }
}

fn table() -> Vec<Row> {
    vec![
        row(Method::GET, "/healthz", [200; 5]),
        row(Method::GET, "/files/{*rest}", [200; 5]),
        row(Method::GET, "/api/auth/verify", [401, 401, 200, 200, 200]),
        row(Method::GET, "/api/stats", [401, 401, 200, 200, 200]),
        row(Method::GET, "/api/workspaces", [401, 401, 200, 200, 200]),
        row(Method::POST, "/api/workspaces", [401, 401, 403, 201, 201]),
        row(Method::DELETE, "/api/workspaces/{workspace}", [401, 401, 403, 204, 204]),
        row(Method::GET, "/api/workspaces/{workspace}/files", [401, 401, 200, 200, 200]),
        row(Method::GET, FILE, [401, 401, 200, 200, 200]),
        row(Method::POST, FILE, [401, 401, 403, 201, 201]),
        row(Method::PUT, FILE, [401, 401, 403, 201, 201]),
        row(Method::DELETE, FILE, [401, 401, 403, 204, 204]),
        row(Method::DELETE, "/api/links/{token}", [401, 401, 403, 204, 204]),
        row(Method::POST, "/mcp", [401, 401, 200, 200, 200]),
        // These two are for a session, and there is none here.
        row(Method::GET, "/mcp", [401, 401, 405, 405, 405]),
        row(Method::DELETE, "/mcp", [401, 401, 405, 405, 405]),
    ]
}

/// A path for a pattern, about things that `who` owns.
fn filled(front: &Front, pattern: &str, who: Who) -> String {
    let owner = if who < Who::ReadOnly { Who::User } else { who };
    let link = front.link(owner, "w", "a.txt");
    let token = link.split('/').nth(2).unwrap();
    pattern
        .replace("/files/{*rest}", &link)
        .replace("{workspace}", "w")
        .replace("{*path}", "a.txt")
        .replace("{token}", token)
}

/// One file for each role in a server of its own, so that no row sees another one's effects.
async fn furnished() -> Front {
    let front = Front::new().await;
    for who in [Who::ReadOnly, Who::User, Who::Admin] {
        front.put(who, "w", "a.txt", b"content").await;
    }
    front
}

fn body(row: &Row) -> String {
    match row.path {
        "/api/workspaces" => json!({ "name": "new" }).to_string(),
        "/mcp" => json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string(),
        _ => "new content".to_owned(),
    }
}

#[tokio::test]
async fn each_route_answers_each_role_as_the_table_says() {
    for row in table() {
        let front = furnished().await;
        for (who, expected) in ALL.into_iter().zip(row.statuses) {
            let uri = filled(&front, row.path, who);
            let mut ask = front.ask(who, row.method.clone(), &uri);
            if row.method == Method::POST && !row.path.contains("files") {
                ask = ask.header("content-type", "application/json");
            }
            let answer = ask.body(body(&row)).send().await;
            let what = format!("{} {} by {who:?}: {}", row.method, row.path, answer.text());
            assert_eq!(answer.status.as_u16(), expected, "{what}");
        }
    }
}

#[tokio::test]
async fn each_route_has_a_row_in_the_table() {
    let known: BTreeSet<_> = table().iter().map(|row| (row.method.to_string(), row.path)).collect();
    let routes = endpoints();
    let there: BTreeSet<_> =
        routes.iter().map(|(method, path)| (method.to_string(), *path)).collect();
    assert_eq!(known, there, "the table of this test and the routes of the server differ");
    assert_eq!(routes.len(), there.len(), "a route is there twice");
}

#[tokio::test]
async fn other_methods_do_nothing_and_need_a_key_as_well() {
    let front = furnished().await;
    let paths: BTreeSet<_> = endpoints().into_iter().map(|(_, path)| path).collect();
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"];
    for path in paths {
        let is_there = |method: &str| {
            let method = if method == "HEAD" { "GET" } else { method };
            endpoints().iter().any(|(known, at)| known == method && *at == path)
        };
        let public = path == "/healthz" || path.starts_with("/files");
        for method in methods.into_iter().filter(|method| !is_there(method)) {
            let uri = filled(&front, path, Who::User);
            let method: Method = method.parse().unwrap();
            for (who, expected) in [(Who::Nobody, if public { 405 } else { 401 }), (Who::User, 405)]
            {
                let status = front.ask(who, method.clone(), &uri).send().await.status.as_u16();
                assert_eq!(status, expected, "{method} {path} by {who:?}");
            }
        }
    }
    assert_eq!(front.get(Who::User, "/api/workspaces/w/files/a.txt").await.body, b"content");
}

#[tokio::test]
async fn a_route_written_in_another_way_is_not_found_and_needs_a_key() {
    let front = furnished().await;
    for uri in [
        "/",
        "/API/workspaces",
        "/Api/Workspaces/w",
        "//api/workspaces",
        "/api//workspaces",
        "/api/workspaces/",
        "/api/workspaces/w/",
        "/api/workspaces/w/files/",
        "/api/./workspaces",
        "/api/../api/workspaces",
        "/healthz/../api/workspaces",
        "/files/../api/workspaces/w",
        "/api/../healthz",
        "/%61pi/workspaces",
        "/api%2fworkspaces",
        "/api/workspaces;x=1",
        "/mcp/",
        "/MCP",
        "/mcp/../api/stats",
        "/healthz/",
        "/files",
        "/files/",
        "/.env",
        "/metrics",
        "/openapi.json",
        "/admin",
        "/debug/pprof",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let nobody = front.ask(Who::Nobody, method.clone(), uri).send().await;
            // What is below /files is public, and every wrong link the same 404.
            let expected = match (uri.starts_with("/files/") && uri.len() > 7, &method) {
                (true, &Method::GET) => 404,
                (true, _) => 405,
                (false, _) => 401,
            };
            assert_eq!(nobody.status.as_u16(), expected, "{method} {uri} by nobody");
            let admin = front.ask(Who::Admin, method.clone(), uri).send().await;
            assert!([400, 404, 405].contains(&admin.status.as_u16()), "{method} {uri}: {admin:?}");
        }
    }
    assert_eq!(front.get(Who::Admin, "/api/workspaces/w/files/a.txt").await.body, b"content");
}

#[tokio::test]
async fn headers_cannot_change_the_method_or_the_path() {
    let front = furnished().await;
    for (name, value) in [
        ("x-http-method-override", "DELETE"),
        ("x-http-method", "DELETE"),
        ("x-method-override", "DELETE"),
        ("x-original-url", "/api/workspaces/w/files/a.txt"),
        ("x-rewrite-url", "/healthz"),
        ("x-forwarded-prefix", "/healthz"),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1;host=localhost"),
    ] {
        let uri = "/api/workspaces/w/files/a.txt?_method=DELETE";
        let nobody = front.ask(Who::Nobody, Method::GET, uri).header(name, value).send().await;
        assert_eq!(nobody.status, 401, "{name}");
        let user = front.ask(Who::User, Method::GET, uri).header(name, value).send().await;
        assert_eq!((user.status.as_u16(), user.body.as_slice()), (200, &b"content"[..]), "{name}");
    }
}

#[tokio::test]
async fn the_health_check_gives_nothing_away() {
    let front = furnished().await;
    let answer = front.get(Who::Nobody, "/healthz?verbose=1").await;
    assert_eq!(answer.text(), r#"{"status":"ok"}"#);
    let names: BTreeSet<_> = answer.headers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["content-length", "content-type", "x-request-id"].map(Into::into).into());
    let with_key = front.get(Who::Admin, "/healthz").await;
    assert_eq!(with_key, answer, "the same to everybody");
}

/// What is somebody else's and what is nowhere.
#[tokio::test]
async fn what_is_forbidden_looks_like_what_is_absent() {
    let requests = [
        (Method::GET, "/api/workspaces/secret/files"),
        (Method::GET, "/api/workspaces/secret/files?path=sub"),
        (Method::GET, "/api/workspaces/secret/files/a.txt"),
        (Method::GET, "/api/workspaces/secret/files/absent"),
        (Method::HEAD, "/api/workspaces/secret/files/a.txt"),
        (Method::DELETE, "/api/workspaces/secret/files/a.txt"),
        (Method::DELETE, "/api/workspaces/secret"),
    ];
    let (there, absent) = (Front::new().await, Front::new().await);
    there.put(Who::Other, "secret", "a.txt", b"content").await;
    there.put(Who::Other, "secret", "sub/b.txt", b"content").await;
    for (method, uri) in requests {
        let ask = async |front: &Front, who| front.ask(who, method.clone(), uri).send().await;
        for who in [Who::User, Who::Admin, Who::ReadOnly, Who::Nobody, Who::Stranger] {
            let (forbidden, missing) = (ask(&there, who).await, ask(&absent, who).await);
            assert_eq!(forbidden, missing, "{method} {uri} by {who:?}");
            assert!([401, 403, 404].contains(&forbidden.status.as_u16()), "{forbidden:?}");
        }
    }
    assert_eq!(there.get(Who::Other, "/api/workspaces/secret/files/a.txt").await.body, b"content");
}

#[tokio::test]
async fn a_name_that_somebody_else_uses_is_free() {
    let front = Front::new().await;
    front.put(Who::Other, "secret", "a.txt", b"theirs").await;
    let uri = "/api/workspaces/secret/files/a.txt";
    let mine = front.ask(Who::User, Method::PUT, uri).body("mine").send().await;
    assert_eq!(mine.status, 201, "{}", mine.text());
    assert_eq!(front.get(Who::User, uri).await.body, b"mine");
    assert_eq!(front.get(Who::Other, uri).await.body, b"theirs");
}

#[tokio::test]
async fn each_refusal_is_a_problem_with_a_code_and_a_way_on() {
    let front = furnished().await;
    let check = |answer: &Answer| {
        let what = answer.text();
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}");
        let body = answer.json();
        assert_eq!(body["status"], answer.status.as_u16(), "{what}");
        assert_eq!(body["request_id"], "the-same", "{what}");
        for word in ["code", "title", "detail"] {
            assert!(body[word].as_str().is_some_and(|text| !text.is_empty()), "{word}: {what}");
        }
        let outside = front.outside().to_str().unwrap();
        for leak in [outside, "panicked", "src/", ".rs:", "stk_"] {
            assert!(!what.contains(leak), "{leak}: {what}");
        }
    };
    check(&front.get(Who::Nobody, "/api/stats").await);
    check(&front.get(Who::User, "/nowhere").await);
    check(&front.get(Who::User, "/api/workspaces/w/files/absent").await);
    check(&front.get(Who::User, "/api/workspaces/w/files/a.txt/b").await);
    check(&front.get(Who::User, "/api/workspaces/no%20name/files/a").await);
    check(&front.get(Who::User, "/api/workspaces/w/files?depth=many").await);
    check(&front.get(Who::User, "/api/workspaces/w/files?depth=0").await);
    check(&front.get(Who::User, "/api/workspaces/w/files?glob=%5B").await);
    check(&front.get(Who::User, "/api/workspaces/w/files?what=1").await);
    check(&front.ask(Who::ReadOnly, Method::DELETE, "/api/workspaces/w").send().await);
    check(&front.ask(Who::User, Method::PATCH, "/api/workspaces").send().await);
    check(&front.ask(Who::User, Method::POST, "/api/workspaces").body("{").send().await);
}
