//! Downloads: parts, conditions, and headers that no file name can break.

use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

use axum::http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::front::{Answer, Front, Who};

const URI: &str = "/api/workspaces/w/files/a.txt";
/// When the file was changed: Sun, 06 Nov 1994 08:49:37 GMT.
const CHANGED: u64 = 784_111_777;
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

/// A server with one file of ten bytes that was changed long ago.
async fn settled() -> Front {
    let front = Front::new().await;
    front.put(Who::User, "w", "a.txt", b"0123456789").await;
    let file = File::options().write(true).open(front.on_disk(Who::User, "w").join("a.txt"));
    file.unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(CHANGED)).unwrap();
    front
}

async fn ask(front: &Front, method: Method, uri: &str, headers: &[(&'static str, &str)]) -> Answer {
    let mut ask = front.ask(Who::User, method, uri);
    for (name, value) in headers {
        ask = ask.header(name, value);
    }
    ask.send().await
}

#[tokio::test]
async fn a_range_gives_that_part() {
    let front = settled().await;
    let link = front.link(Who::User, "w", "a.txt");
    let table: [(&str, u16, &str, Option<&str>); 17] = [
        ("bytes=0-3", 206, "0123", Some("bytes 0-3/10")),
        ("bytes=4-", 206, "456789", Some("bytes 4-9/10")),
        ("bytes=-3", 206, "789", Some("bytes 7-9/10")),
        ("bytes=9-9", 206, "9", Some("bytes 9-9/10")),
        ("bytes=0-0", 206, "0", Some("bytes 0-0/10")),
        ("bytes=-100", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=8-100", 206, "89", Some("bytes 8-9/10")),
        ("bytes=10-", 416, "", Some("bytes */10")),
        ("bytes=-0", 416, "", Some("bytes */10")),
        ("bytes=18446744073709551615-", 416, "", Some("bytes */10")),
        ("bytes=99999999999999999999999-", 416, "", Some("bytes */10")),
        ("bytes=0-1,3-4", 200, "0123456789", None),
        ("bytes=0-,0-,0-,0-", 200, "0123456789", None),
        ("bytes=5-2", 200, "0123456789", None),
        ("bytes=-1-2", 200, "0123456789", None),
        ("lines=1-2", 200, "0123456789", None),
        ("nonsense", 200, "0123456789", None),
    ];
    for (range, status, body, said) in table {
        for uri in [URI, &link] {
            let answer = ask(&front, Method::GET, uri, &[("range", range)]).await;
            assert_eq!(answer.status, status, "{range} {uri}");
            assert_eq!(answer.header("content-range"), said, "{range} {uri}");
            if status == 416 {
                assert_eq!(answer.code(), "no_such_range", "{range}");
            } else {
                assert_eq!(answer.text(), body, "{range} {uri}");
                let length = body.len().to_string();
                assert_eq!(answer.header("content-length"), Some(length.as_str()), "{range}");
            }
        }
    }
    let head = ask(&front, Method::HEAD, URI, &[("range", "bytes=0-3")]).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, Some("10")));
    assert!(head.body.is_empty());
}

#[tokio::test]
async fn a_condition_spares_what_the_client_has() {
    let front = settled().await;
    let first = ask(&front, Method::GET, URI, &[]).await;
    let tag = first.header("etag").unwrap().to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    assert_eq!(first.header("last-modified"), Some(DATE));
    let (weak, list) = (format!("W/{tag}"), format!("\"x\", {tag}, \"y\""));
    let table: [(&[(&'static str, &str)], u16); 17] = [
        (&[("if-none-match", &tag)], 304),
        (&[("if-none-match", &list)], 304),
        (&[("if-none-match", "*")], 304),
        (&[("if-none-match", "\"other\"")], 200),
        (&[("if-none-match", "")], 200),
        // We said that of bytes that could still change.
        (&[("if-none-match", &weak)], 200),
        (&[("if-modified-since", DATE)], 304),
        (&[("if-modified-since", EARLIER)], 200),
        (&[("if-modified-since", "yesterday")], 200),
        // The tag is the better witness.
        (&[("if-none-match", "\"other\""), ("if-modified-since", DATE)], 200),
        (&[("if-none-match", &tag), ("if-modified-since", EARLIER)], 304),
        (&[("if-none-match", &tag), ("range", "bytes=0-3")], 304),
        (&[("if-range", &tag), ("range", "bytes=0-3")], 206),
        (&[("if-range", DATE), ("range", "bytes=0-3")], 206),
        (&[("if-range", "\"other\""), ("range", "bytes=0-3")], 200),
        (&[("if-range", &weak), ("range", "bytes=0-3")], 200),
        (&[("if-range", EARLIER), ("range", "bytes=0-3")], 200),
    ];
    for (headers, status) in table {
        let answer = ask(&front, Method::GET, URI, headers).await;
        assert_eq!(answer.status, status, "{headers:?}");
        let length = match status {
            304 => 0,
            206 => 4,
            _ => 10,
        };
        assert_eq!(answer.body.len(), length, "{headers:?}");
        assert_eq!(answer.header("etag"), Some(tag.as_str()), "{headers:?}");
    }
    front.put(Who::User, "w", "a.txt", b"9876543210").await;
    let changed = ask(&front, Method::GET, URI, &[("if-none-match", &tag)]).await;
    assert_eq!((changed.status.as_u16(), changed.text().as_str()), (200, "9876543210"));
    // It may change again within this second, so nobody may rely on its tag.
    let fresh = changed.header("etag").unwrap();
    assert!(fresh.starts_with("W/"), "{fresh}");
}

#[tokio::test]
async fn no_file_name_adds_a_header() {
    let front = Front::new().await;
    let names: [&[u8]; 12] = [
        b"a\r\nX-Bad: 1.txt",
        b"a\nSet-Cookie: s=1",
        b"a\"; filename=\"b.exe",
        b"a\\\"b",
        b"\x01\x1b[31m\x7f",
        b"caf\xe9\xff.txt",
        "größe ☃.txt".as_bytes(),
        "\u{202e}txt.exe".as_bytes(),
        b"a%0d%0aX-Bad: 1",
        b"a;b=c",
        b" ",
        b"<script>alert(1)<script>.html",
    ];
    for name in names {
        let raw = percent_encoding::percent_encode(name, NON_ALPHANUMERIC).to_string();
        let uri = format!("/api/workspaces/w/files/{raw}");
        let made = front.ask(Who::User, Method::POST, &uri).body("content").send().await;
        assert_eq!(made.status, 201, "{raw}: {}", made.text());
        let (path, url) = (made.json()["path"].clone(), made.json()["url"].clone());
        let link = front.link(Who::User, "w", path.as_str().unwrap());
        assert!(url.as_str().unwrap().is_ascii(), "{url}");
        for uri in [format!("{uri}?preview=1"), uri, link] {
            let answer = ask(&front, Method::GET, &uri, &[]).await;
            assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "content"), "{uri}");
            for bad in ["x-bad", "set-cookie"] {
                assert!(!answer.headers.contains_key(bad), "{uri}");
            }
            let disposition = answer.header("content-disposition").unwrap();
            assert!(disposition.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{disposition}");
            assert_eq!(disposition.matches('"').count(), 2, "{disposition}");
        }
        let listed = ask(&front, Method::GET, "/api/workspaces/w/files", &[]).await.json();
        let entries = listed["entries"].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["path"] == path), "{path} in {listed}");
        let again = utf8_percent_encode(path.as_str().unwrap(), NON_ALPHANUMERIC).to_string();
        let uri = format!("/api/workspaces/w/files/{again}");
        assert_eq!(ask(&front, Method::DELETE, &uri, &[]).await.status, 204, "{path}");
    }
}

#[tokio::test]
async fn no_browser_runs_a_file() {
    let front = Front::new().await;
    for (name, inline) in [
        ("a.html", false),
        ("a.svg", false),
        ("a.js", false),
        ("a.pdf", false),
        ("a.xml", false),
        ("a.wasm", false),
        ("a", false),
        ("a.png", true),
        ("a.csv", true),
    ] {
        front.put(Who::User, "w", name, b"<script>alert(1)</script>").await;
        let link = front.link(Who::User, "w", name);
        for (uri, inline) in [(format!("{link}?preview=1"), inline), (link, false)] {
            let answer = ask(&front, Method::GET, &uri, &[]).await;
            let disposition = answer.header("content-disposition").unwrap();
            let kind = if inline { "inline" } else { "attachment" };
            assert!(disposition.starts_with(kind), "{name}: {disposition}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            let policy = answer.header("content-security-policy").unwrap();
            assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"));
            assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        }
    }
}
