//! Files and workspaces through the engine.

use tokio::io::AsyncReadExt;

use super::*;
use crate::engine::{FileWrite, ListFiles};
use crate::error::Error;
use crate::request::{CreateSandbox, FilePlace, WriteMode};

fn workspace(name: &str) -> FilePlace {
    FilePlace { workspace: Some(name.to_owned()), sandbox: None }
}

fn write(mode: WriteMode, content: &str, old: Option<&str>) -> FileWrite {
    let old = old.map(|old| old.as_bytes().to_vec());
    FileWrite { content: content.as_bytes().to_vec(), mode, old }
}

impl World {
    async fn put(&self, path: &str, content: FileWrite) -> Result<u64, Error> {
        self.engine.write_file(&user("me"), &workspace("w"), path, content).await
    }

    async fn get(&self, path: &str) -> Result<String, Error> {
        let read = self.engine.read_file(&user("me"), &workspace("w"), path, (0, u64::MAX)).await?;
        Ok(String::from_utf8(read.bytes).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn every_way_of_writing() {
    let world = world().await;
    assert_eq!(world.put("a/b.txt", write(WriteMode::Create, "one", None)).await.unwrap(), 3);
    let twice = world.put("a/b.txt", write(WriteMode::Create, "two", None)).await;
    assert_eq!(twice.unwrap_err().code(), "conflict");
    assert_eq!(world.put("a/b.txt", write(WriteMode::Append, " two", None)).await.unwrap(), 7);
    let replace = |old| write(WriteMode::Replace, "2", old);
    assert_eq!(world.put("a/b.txt", replace(Some("two"))).await.unwrap(), 5);
    assert_eq!(world.get("/workspace/a/b.txt").await.unwrap(), "one 2");
    for old in [Some("absent"), Some(""), None] {
        let failed = world.put("a/b.txt", replace(old)).await;
        assert!(matches!(failed, Err(Error::Invalid { field: "old", .. })), "{old:?}");
    }
    world.put("a/b.txt", write(WriteMode::Overwrite, "aaa", None)).await.unwrap();
    let twice = world.put("a/b.txt", write(WriteMode::Replace, "x", Some("aa"))).await;
    assert!(matches!(twice, Err(Error::Invalid { field: "old", .. })));
    assert_eq!(world.get("a/b.txt").await.unwrap(), "aaa");
}

#[tokio::test(start_paused = true)]
async fn ranges_uploads_and_downloads() {
    let world = world().await;
    let content: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    let reader = Box::pin(std::io::Cursor::new(content.clone()));
    let place = workspace("w");
    let size = world.engine.upload(&user("me"), &place, "up/data.bin", reader).await.unwrap();
    assert_eq!(size, 1_000_000);
    let part = world.engine.read_file(&user("me"), &place, "up/data.bin", (10, 5)).await.unwrap();
    assert_eq!((part.bytes.as_slice(), part.size), (&content[10..15], 1_000_000));
    let beyond = world.engine.read_file(&user("me"), &place, "up/data.bin", (2_000_000, 5)).await;
    assert!(beyond.unwrap().bytes.is_empty());
    let dir = world.engine.workspace_dir(&user("me"), &place).await.unwrap();
    let mut download = world.engine.download_linked(&dir, "up/data.bin", 999_990).await.unwrap();
    let mut bytes = Vec::new();
    download.reader.read_to_end(&mut bytes).await.unwrap();
    assert_eq!((bytes.as_slice(), download.size), (&content[999_990..], 1_000_000));
    for dir in ["", "..", "../x", &"0".repeat(32)] {
        let failed = world.engine.download_linked(dir, "up/data.bin", 0).await;
        assert_eq!(failed.unwrap_err().code(), "not_found", "{dir}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_workspace_holds_only_so_much() {
    let world = world().await;
    let place = workspace("w");
    let endless = Box::pin(tokio::io::repeat(7));
    let failed = world.engine.upload(&user("me"), &place, "big", endless).await;
    assert!(matches!(failed, Err(Error::Exhausted { what: "workspace quota", .. })));
    let listing = world.engine.list_files(&user("me"), &place, ListFiles::default()).await.unwrap();
    assert!(listing.entries.is_empty());
    let dir = world.engine.workspace_dir(&user("me"), &place).await.unwrap();
    let path = world.data.path().join("workspaces").join(dir);
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "no half-written file is left");
    let three = "x".repeat(3 << 20);
    world.put("one", write(WriteMode::Create, &three, None)).await.unwrap();
    let failed = world.put("two", write(WriteMode::Create, &three, None)).await;
    assert_eq!(failed.unwrap_err().code(), "exhausted");
}

#[tokio::test(start_paused = true)]
async fn listings_have_depth_and_globs() {
    let world = world().await;
    for path in ["a.csv", "d/b.csv", "d/e/c.txt"] {
        world.put(path, write(WriteMode::Create, "x", None)).await.unwrap();
    }
    let list = async |path: Option<&str>, glob: Option<&str>, depth| {
        let text = |text: Option<&str>| text.map(ToOwned::to_owned);
        let request = ListFiles { path: text(path), glob: text(glob), depth };
        let listing = world.engine.list_files(&user("me"), &workspace("w"), request).await?;
        Ok::<_, Error>(listing.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>())
    };
    assert_eq!(list(None, None, None).await.unwrap(), ["a.csv", "d"]);
    assert_eq!(list(Some("d"), None, None).await.unwrap(), ["d/b.csv", "d/e"]);
    assert_eq!(list(None, None, Some(3)).await.unwrap().len(), 5);
    assert_eq!(list(None, Some("**/*.csv"), None).await.unwrap(), ["a.csv", "d/b.csv"]);
    assert_eq!(list(None, Some("*.csv"), None).await.unwrap(), ["a.csv"]);
    assert_eq!(list(None, Some("["), None).await.unwrap_err().code(), "invalid");
    assert_eq!(list(None, None, Some(0)).await.unwrap_err().code(), "invalid");
    assert_eq!(list(Some("nope"), None, None).await.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn paths_that_leave_or_are_ours_are_refused() {
    let world = world().await;
    for path in
        ["", "..", "../x", "/etc/passwd", "a/../../b", "a\0b", ".stockade-x", "a/.stockade-tmp-1/b"]
    {
        let failed = world.put(path, write(WriteMode::Overwrite, "x", None)).await;
        assert!(
            matches!(failed, Err(Error::Invalid { field: "path", .. })),
            "{path:?}: {failed:?}"
        );
    }
    for place in
        [FilePlace::default(), FilePlace { sandbox: Some("a".into()), workspace: Some("b".into()) }]
    {
        let failed = world.engine.read_file(&user("me"), &place, "x", (0, 1)).await;
        assert!(matches!(failed, Err(Error::Invalid { field: "workspace", .. })));
    }
    let missing = world.engine.read_file(&user("me"), &workspace("nope"), "x", (0, 1)).await;
    assert_eq!(missing.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn workspaces_are_made_found_and_removed_by_their_owner() {
    let world = world().await;
    let (me, you) = (user("me"), user("you"));
    let made = world.engine.create_workspace(&me, "w").await.unwrap();
    let twice = world.engine.create_workspace(&me, "w").await;
    assert_eq!(twice.unwrap_err().code(), "conflict");
    assert_eq!(world.engine.workspaces(&me).await.unwrap(), [made]);
    assert!(world.engine.workspaces(&you).await.unwrap().is_empty());
    let theirs = world.engine.remove_workspace(&you, "w").await;
    assert_eq!(theirs.unwrap_err().code(), "not_found");
    let request = CreateSandbox { workspace: Some("w".into()), ..CreateSandbox::default() };
    let sandbox = world.engine.create_sandbox(&me, request).await.unwrap().sandbox;
    let used = world.engine.remove_workspace(&me, "w").await;
    assert_eq!(used.unwrap_err().code(), "conflict");
    world.run_in(&sandbox, "write kept.txt hello").await;
    world.engine.stop_sandbox(&me, &sandbox).await.unwrap();
    assert_eq!(world.get("kept.txt").await.unwrap(), "hello");
    world.engine.remove_workspace(&me, "w").await.unwrap();
    settle().await;
    assert_eq!(world.workspace_dirs(), Vec::<String>::new());
    let gone = world.engine.remove_workspace(&me, "w").await;
    assert_eq!(gone.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn a_workspace_that_nobody_uses_goes_and_one_in_use_stays() {
    let world = world_with(|s| s.sandbox_idle = Duration::from_secs(7200)).await;
    for name in ["idle", "used"] {
        world.engine.create_workspace(&user("me"), name).await.unwrap();
    }
    for _ in 0..14 {
        let request = CreateSandbox {
            workspace: Some("used".into()),
            ttl_s: Some(7200),
            ..CreateSandbox::default()
        };
        let view = world.engine.create_sandbox(&user("me"), request).await.unwrap();
        tokio::time::sleep(Duration::from_secs(6500)).await;
        world.engine.stop_sandbox(&user("me"), &view.sandbox).await.unwrap();
    }
    settle().await;
    let left = world.engine.workspaces(&user("me")).await.unwrap();
    assert_eq!(left.iter().map(|view| view.name.as_str()).collect::<Vec<_>>(), ["used"]);
}

#[tokio::test(start_paused = true)]
async fn names_that_are_not_text_survive_the_round_trip() {
    use std::os::unix::ffi::OsStrExt;
    let world = world().await;
    let place = workspace("w");
    world.engine.create_workspace(&user("me"), "w").await.unwrap();
    let dir = world.engine.workspace_dir(&user("me"), &place).await.unwrap();
    let root = world.data.path().join("workspaces").join(dir);
    for name in [&b"caf\xe9"[..], b"100%25", b"new\nline", "größe".as_bytes()] {
        std::fs::write(root.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let listing = world.engine.list_files(&user("me"), &place, ListFiles::default()).await.unwrap();
    assert_eq!(listing.entries.len(), 4);
    for entry in listing.entries {
        let read = world.engine.read_file(&user("me"), &place, &entry.path, (0, 99)).await.unwrap();
        let back = crate::path::RelPath::from_text(&entry.path).unwrap();
        assert_eq!(back.as_path().as_os_str().as_bytes(), read.bytes);
        world.engine.remove_file(&user("me"), &place, &entry.path).await.unwrap();
    }
}
