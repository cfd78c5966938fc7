//! Paths that try to leave their workspace, against every route that takes one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use axum::http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use stockade_core::path::RelPath;

use crate::front::{Front, Who};

const CANARY: &[u8] = b"never to be seen, changed or made";
const NAME: &str = "canary.txt";

/// What a path is taken for.
enum Taken {
    /// It is refused.
    No,
    /// It is the name of a file in the workspace, and nothing else.
    As(OsString),
}

/// A raw path as it stands behind `/files/`, and what it means.
fn corpus(outside: &Path, neighbour: &str) -> Vec<(String, Taken)> {
    let absolute = outside.join(NAME).display().to_string();
    let up = |step: &str| format!("{}{NAME}", step.repeat(3));
    let mut paths: Vec<(String, Taken)> = Vec::new();
    // Steps up, written in each way that is decoded once.
    for step in ["../", "%2e%2e/", "%2E%2e/", ".%2e/", "%2e./", "..%2f", "..%2F", "%2e%2e%2f"] {
        paths.push((up(step), Taken::No));
        paths.push((format!("sub/{step}{}", up(step)), Taken::No));
        paths.push((format!("{step}{neighbour}/{NAME}"), Taken::No));
    }
    for raw in ["..", "%2e%2e", "../", ".", "%2e", "a/..", "/workspace/..", "//", "%2f", "%00"] {
        paths.push((raw.to_owned(), Taken::No));
    }
    for raw in ["a%00", "%00a", "a%00/../b", "canary.txt%00.png", "../%00"] {
        paths.push((raw.to_owned(), Taken::No));
    }
    // Absolute ones.
    paths.push((absolute.clone(), Taken::No));
    paths.push((format!("/{absolute}"), Taken::No));
    paths.push((absolute.replace('/', "%2f"), Taken::No));
    for raw in ["/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "/proc/self/environ"] {
        paths.push((raw.to_owned(), Taken::No));
    }
    for raw in ["/workspace/../../etc/passwd", "/workspacex/a", "/workspace/%2e%2e/a"] {
        paths.push((raw.to_owned(), Taken::No));
    }
    paths.push(("n".repeat(256), Taken::No));
    paths.push(("d/".repeat(2100), Taken::No));
    paths.push((format!("{}../{NAME}", "d/".repeat(30_000)), Taken::No));
    // Names that are odd and yet names: none of these is a step for the kernel.
    let names = [
        ("%252e%252e%252fcanary.txt", "%2e%2e%2fcanary.txt"),
        // What the second step decodes is never a dot or a slash.
        ("%25252e%25252e", "%2e%2e"),
        ("..%5c..%5ccanary.txt", "..\\..\\canary.txt"),
        ("..\\..\\canary.txt", "..\\..\\canary.txt"),
        ("..;/canary.txt", "..;/canary.txt"),
        ("..;x=1/canary.txt", "..;x=1/canary.txt"),
        ("...", "..."),
        (".../canary.txt", ".../canary.txt"),
        ("~/canary.txt", "~/canary.txt"),
        ("..%20/canary.txt", ".. /canary.txt"),
        ("%EF%BC%8E%EF%BC%8E/canary.txt", "．．/canary.txt"),
        ("file:/canary.txt", "file:/canary.txt"),
        ("C:%5ccanary.txt", "C:\\canary.txt"),
        ("NUL", "NUL"),
        ("a%0d%0ab", "a\r\nb"),
        ("-rf", "-rf"),
        ("a/./b//c", "a/b/c"),
        ("/workspace/inside", "inside"),
        ("/data/inside-too", "inside-too"),
        ("files/files/files", "files/files/files"),
    ];
    paths.extend(names.map(|(raw, name)| (raw.to_owned(), Taken::As(name.into()))));
    // Overlong forms of `.` and `/` are bytes that are no text.
    let overlong = OsString::from_vec(b"\xc0\xae\xc0\xae\xc0\xafcanary.txt".to_vec());
    paths.push(("%c0%ae%c0%ae%c0%afcanary.txt".to_owned(), Taken::As(overlong)));
    paths
}

/// Every file and directory below, with its content, except what is in `but`.
fn tree(root: &Path, but: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let is_dir = path.symlink_metadata().unwrap().is_dir();
            let content = if is_dir { Vec::new() } else { fs::read(&path).unwrap() };
            found.insert(path.display().to_string(), content);
            if is_dir && path != but {
                dirs.push(path);
            }
        }
    }
    found
}

/// A workspace to attack, with canaries around it.
async fn surrounded() -> Front {
    let front = Front::new().await;
    front.put(Who::User, "w", "a.txt", b"content").await;
    front.put(Who::Other, "neighbour", NAME, CANARY).await;
    for dir in ["", "data", "data/workspaces"] {
        fs::write(front.outside().join(dir).join(NAME), CANARY).unwrap();
    }
    front
}

fn has_canary(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|part| part == CANARY)
}

#[tokio::test]
async fn no_path_leaves_its_workspace() {
    let front = surrounded().await;
    let home = front.on_disk(Who::User, "w");
    let before = tree(front.outside(), &home);
    let neighbour = front.dir(Who::Other, "neighbour");
    for (raw, taken) in corpus(front.outside(), &neighbour) {
        let uri = format!("/api/workspaces/w/files/{raw}");
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::GET];
        for (turn, method) in methods.into_iter().chain([Method::DELETE]).enumerate() {
            let answer = front.ask(Who::User, method.clone(), &uri).body("mine").send().await;
            let shown: String = raw.chars().take(80).collect();
            let what = format!("{method} {shown} ({turn}): {} {}", answer.status, answer.text());
            let expected: &[u16] = match (&taken, turn) {
                (Taken::No, _) => &[400, 404],
                (Taken::As(_), 0 | 1) => &[404],
                (Taken::As(_), 2 | 3) => &[201],
                (Taken::As(_), 4) => &[200],
                (Taken::As(_), _) => &[204],
            };
            assert!(expected.contains(&answer.status.as_u16()), "{what}");
            assert!(!has_canary(&answer.body), "{what}");
            if let (Taken::As(name), 2) = (&taken, turn) {
                let text = RelPath::parse(name).unwrap().to_text();
                assert_eq!(answer.json()["path"], text.as_str(), "{what}");
                assert_eq!(fs::read(home.join(name)).unwrap(), b"mine", "{what}");
            }
        }
        assert!(tree(front.outside(), &home) == before, "{raw:.80} reached outside");
    }
    assert_eq!(fs::read(home.join("a.txt")).unwrap(), b"content");
}

#[tokio::test]
async fn no_listing_leaves_its_workspace() {
    let front = surrounded().await;
    let neighbour = front.dir(Who::Other, "neighbour");
    for (raw, taken) in corpus(front.outside(), &neighbour) {
        // In a query the path is decoded by the form's rules, so it is sent encoded as a whole.
        let decoded = percent_encoding::percent_decode_str(&raw).decode_utf8_lossy();
        for (key, value) in [("path", &*decoded), ("path", raw.as_str()), ("glob", &*decoded)] {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            let uri = format!("/api/workspaces/w/files?{key}={value}");
            if uri.len() > 60_000 {
                continue;
            }
            let answer = front.get(Who::User, &uri).await;
            let what = format!("{key} {raw:.80}: {} {}", answer.status, answer.text());
            assert!([200, 400, 404].contains(&answer.status.as_u16()), "{what}");
            assert!(!answer.text().contains(NAME) || answer.status != 200, "{what}");
            let refused = key == "path" && matches!(taken, Taken::No) && decoded.contains("..");
            assert!(
                !refused || value.to_string().contains("%25") || answer.status != 200,
                "{what}"
            );
        }
    }
}

#[tokio::test]
async fn no_link_is_good_for_another_path() {
    let front = surrounded().await;
    let link = front.link(Who::User, "w", "a.txt");
    assert_eq!(front.get(Who::Nobody, &link).await.body, b"content");
    let token = link.split('/').nth(2).unwrap().to_owned();
    let neighbour = front.dir(Who::Other, "neighbour");
    for (raw, _) in corpus(front.outside(), &neighbour) {
        for uri in [
            format!("/files/{token}/{raw}"),
            format!("/files/{raw}"),
            format!("/files/{token}%2f{raw}"),
        ] {
            let answer = front.get(Who::Nobody, &uri).await;
            assert_eq!(answer.status, 404, "{uri:.200}");
            assert!(!has_canary(&answer.body), "{uri:.200}");
        }
    }
}

#[tokio::test]
async fn no_workspace_name_is_a_path() {
    let front = surrounded().await;
    let before = tree(front.outside(), Path::new("/"));
    let neighbour = front.dir(Who::Other, "neighbour");
    let names =
        ["..", "%2e%2e", ".", "..%2f..", "%2fetc", "w%2f..", "w%00", "%252e", "..%5c", "%E9"];
    for name in names.into_iter().chain(["neighbour", neighbour.as_str()]) {
        for (method, rest) in [
            (Method::GET, "/files"),
            (Method::GET, "/files/canary.txt"),
            (Method::DELETE, "/files/canary.txt"),
            (Method::DELETE, ""),
        ] {
            let uri = format!("/api/workspaces/{name}{rest}");
            let answer = front.ask(Who::User, method.clone(), &uri).send().await;
            assert!([400, 404].contains(&answer.status.as_u16()), "{method} {uri}: {answer:?}");
            assert!(!has_canary(&answer.body), "{method} {uri}");
        }
    }
    for name in ["..", ".", "", "a/b", "/etc", "a\0", "a\\b", " ", ".hidden"] {
        let body = serde_json::json!({ "name": name }).to_string();
        let ask = front.ask(Who::User, Method::POST, "/api/workspaces").body(body);
        let answer = ask.send().await;
        assert_eq!(answer.status, 400, "{name:?}: {}", answer.text());
    }
    assert!(tree(front.outside(), Path::new("/")) == before, "something was made or removed");
}

#[tokio::test]
async fn links_of_a_program_are_not_followed() {
    let front = surrounded().await;
    let home = front.on_disk(Who::User, "w");
    std::os::unix::fs::symlink(front.outside().join(NAME), home.join("leaf")).unwrap();
    std::os::unix::fs::symlink(front.outside(), home.join("dir")).unwrap();
    std::os::unix::fs::symlink(front.outside().join("fresh"), home.join("dangling")).unwrap();
    std::os::unix::fs::symlink("/proc/self", home.join("magic")).unwrap();
    let before = tree(front.outside(), &home);
    for path in ["leaf", "dir/canary.txt", "dir/fresh", "dangling", "magic/environ", "magic/cwd/x"]
    {
        let uri = format!("/api/workspaces/w/files/{path}");
        for method in [Method::GET, Method::POST, Method::GET] {
            let answer = front.ask(Who::User, method.clone(), &uri).body("mine").send().await;
            assert!(!has_canary(&answer.body), "{method} {path}");
            assert!(!answer.status.is_server_error(), "{method} {path}: {}", answer.text());
        }
        let link = front.link(Who::User, "w", path);
        assert!(!has_canary(&front.get(Who::Nobody, &link).await.body), "{link}");
    }
    assert!(tree(front.outside(), &home) == before, "a link was followed");
}
