//! Hostile trees on the real file system: nothing outside is read, changed or removed.

#![expect(clippy::disallowed_methods, reason = "tests build hostile trees")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::request::{Change, EntryKind};

/// A workspace, and beside it something that nobody may touch.
struct Tree {
    temp: tempfile::TempDir,
    files: HostDir,
}

const SECRET: &str = "secret";

fn tree() -> Tree {
    tree_in(tempfile::tempdir().unwrap())
}

/// A tree in memory where there is such a place: for tests with very many files.
fn big_tree() -> Tree {
    let memory = tempfile::tempdir_in("/dev/shm");
    tree_in(memory.or_else(|_| tempfile::tempdir()).unwrap())
}

fn tree_in(temp: tempfile::TempDir) -> Tree {
    fs::create_dir(temp.path().join("ws")).unwrap();
    fs::create_dir(temp.path().join("outside")).unwrap();
    fs::write(temp.path().join("outside/file"), SECRET).unwrap();
    let files = HostDir::open_trusted(&temp.path().join("ws")).unwrap();
    Tree { temp, files }
}

impl Tree {
    fn ws(&self, path: &str) -> PathBuf {
        self.temp.path().join("ws").join(path)
    }

    fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }

    #[track_caller]
    fn assert_outside_untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(self.outside()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
        assert_eq!(fs::read_to_string(self.outside().join("file")).unwrap(), SECRET);
    }
}

fn path(raw: &str) -> RelPath {
    RelPath::parse(raw).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, what: &str) {
    let error = result.expect_err(what);
    assert!(matches!(error, Error::Invalid { field: "path", .. }), "{what}: {error:?}");
}

#[test]
fn links_are_never_followed() {
    let tree = tree();
    symlink(tree.outside().join("file"), tree.ws("leaf")).unwrap();
    symlink(tree.outside(), tree.ws("middle")).unwrap();
    symlink("../outside/file", tree.ws("relative")).unwrap();
    symlink("nowhere", tree.ws("dangling")).unwrap();
    symlink("loop", tree.ws("loop")).unwrap();
    symlink("/proc/self/root", tree.ws("magic")).unwrap();
    symlink("/proc/self/cwd", tree.ws("magic-cwd")).unwrap();
    fs::write(tree.ws("inner"), "inside").unwrap();
    symlink("inner", tree.ws("harmless")).unwrap();
    for name in [
        "leaf",
        "middle/file",
        "relative",
        "dangling",
        "loop",
        "magic/etc/passwd",
        "magic-cwd/x",
        "harmless",
    ] {
        let path = path(name);
        refused(tree.files.read(&path, 0, 10), name);
        refused(tree.files.write(&path, b"x", Replacing::Allowed), name);
        refused(tree.files.append(&path, b"x"), name);
        refused(tree.files.replace(&path, b"secret", b"x"), name);
    }
    refused(tree.files.write(&path("middle/new"), b"x", Replacing::Allowed), "new below a link");
    refused(tree.files.remove(&path("middle/file")), "remove below a link");
    refused(tree.files.list(&path("middle"), None, 3), "list a link");
    refused(tree.files.make_dirs(&path("middle/a/b")).map(|_| ()), "directories below a link");
    tree.assert_outside_untouched();
    assert_eq!(fs::read_to_string(tree.ws("inner")).unwrap(), "inside");
}

#[test]
fn links_are_listed_as_links_and_removed_as_links() {
    let tree = tree();
    symlink(tree.outside(), tree.ws("link")).unwrap();
    let listing = tree.files.list(&RelPath::root(), None, 9).unwrap();
    assert_eq!(listing.entries.len(), 1);
    assert_eq!(listing.entries[0].kind, EntryKind::Link);
    tree.files.remove(&path("link")).unwrap();
    assert!(fs::symlink_metadata(tree.ws("link")).is_err());
    tree.assert_outside_untouched();
}

#[test]
fn pipes_sockets_and_directories_are_refused_without_waiting() {
    let tree = tree();
    let fifo = tree.ws("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = UnixListener::bind(tree.ws("socket")).unwrap();
    fs::create_dir(tree.ws("dir")).unwrap();
    for name in ["fifo", "socket", "dir"] {
        let path = path(name);
        refused(tree.files.read(&path, 0, 10), name);
        refused(tree.files.open_file(&path, 0), name);
        refused(tree.files.write(&path, b"x", Replacing::Allowed), name);
        refused(tree.files.append(&path, b"x"), name);
    }
    refused(tree.files.read(&path("fifo/below"), 0, 1), "below a pipe");
    let kinds: Vec<_> = tree.files.list(&RelPath::root(), None, 1).unwrap().entries;
    let kinds: Vec<_> = kinds.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Directory, EntryKind::Other, EntryKind::Other]);
}

#[test]
fn devices_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: making a device needs root");
        return;
    }
    let tree = tree();
    let device = rustix::fs::makedev(1, 5);
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.ws("zero"),
        FileType::CharacterDevice,
        Mode::RUSR,
        device,
    );
    if made.is_err() {
        eprintln!("NOT TESTED: devices cannot be made here");
        return;
    }
    refused(tree.files.read(&path("zero"), 0, 10), "device");
    refused(tree.files.write(&path("zero"), b"x", Replacing::Allowed), "device");
}

/// Stops the other thread, also when a check fails, so that a failure never hangs.
struct Stop<'flag>(&'flag AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps a directory and a link to the outside as fast as possible while `work` goes on.
/// `work` says whether it wants more rounds than were asked for.
fn under_swapping(tree: &Tree, rounds: u32, work: impl Fn(u32) -> bool) {
    fs::create_dir(tree.ws("real")).unwrap();
    fs::write(tree.ws("real/file"), "inside").unwrap();
    symlink(tree.outside(), tree.ws("link")).unwrap();
    let stop = AtomicBool::new(false);
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    let (real, link) = (tree.ws("real"), tree.ws("link"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, &real, cwd, &link, flags).unwrap();
            }
        });
        let _stop = Stop(&stop);
        let begin = std::time::Instant::now();
        let mut round = 0;
        while (work(round) || round < rounds) && begin.elapsed().as_secs() < 10 {
            round += 1;
        }
    });
}

#[test]
fn reading_wins_every_race_against_swapped_links() {
    let tree = tree();
    let mut seen = [0_u32; 2];
    let counts = std::sync::Mutex::new(&mut seen);
    under_swapping(&tree, 2_000, |_| {
        let read = tree.files.read(&path("real/file"), 0, 100);
        let hit = match read {
            Ok((bytes, _)) => {
                assert_eq!(bytes, b"inside");
                0
            }
            Err(_) => 1,
        };
        let mut seen = counts.lock().unwrap();
        seen[hit] += 1;
        seen[0] == 0 || seen[1] == 0
    });
    // Both sides of the race came up, or nothing was tested.
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    tree.assert_outside_untouched();
}

#[test]
fn writing_and_removing_win_every_race_against_swapped_links() {
    let tree = tree();
    under_swapping(&tree, 2_000, |round| {
        let name = path(&format!("real/d{}/new", round % 5));
        // Most of these fail, as they should; none may reach the outside.
        let _ = tree.files.make_dirs(&path("real/made/deep"));
        let _ = tree.files.remove(&path("real/file"));
        if round % 20 == 0 {
            let _ = tree.files.write(&name, b"x", Replacing::Allowed);
            let _ = tree.files.append(&path("real/file"), b"more");
            let _ = tree.files.delete_tree("real/made");
            tree.files.snapshot();
        }
        false
    });
    tree.assert_outside_untouched();
}

#[test]
fn deleting_wins_every_race_against_swapped_links() {
    let tree = tree();
    let stop = AtomicBool::new(false);
    let outside = tree.outside();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let dir = tree.ws("victim/sub");
                // Whatever is there becomes a link to the outside, and back.
                let _ = fs::rename(&dir, tree.ws("aside"));
                let _ = symlink(&outside, &dir);
                let _ = fs::remove_file(&dir);
                let _ = fs::rename(tree.ws("aside"), &dir);
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..300 {
            let _ = fs::create_dir_all(tree.ws("stage/sub/deep/er"));
            let _ = fs::write(tree.ws("stage/sub/file"), "x");
            let _ = fs::rename(tree.ws("stage"), tree.ws("victim"));
            let _ = tree.files.delete_tree("victim");
        }
    });
    tree.assert_outside_untouched();
}

#[test]
fn five_thousand_levels_are_deleted() {
    let tree = big_tree();
    let mut here =
        rustix::fs::open(tree.ws(""), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for level in 0..5_000 {
        let name = if level == 0 { "deep" } else { "d" };
        rustix::fs::mkdirat(&here, name, Mode::RWXU).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        here = rustix::fs::openat(&here, name, flags, Mode::empty()).unwrap();
        rustix::fs::openat(&here, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }
    drop(here);
    tree.files.snapshot();
    tree.files.list(&RelPath::root(), Some("**"), 64).unwrap();
    tree.files.bytes_held().unwrap();
    tree.files.delete_tree("deep").unwrap();
    assert_eq!(fs::read_dir(tree.ws("")).unwrap().count(), 0);
}

#[test]
fn wide_and_closed_trees_are_deleted() {
    let tree = big_tree();
    let top = tree.ws("top");
    for number in 0..20 {
        let dir = top.join(format!("dir-{number}/closed/inner"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        for closed in [dir.as_path(), dir.parent().unwrap()] {
            fs::set_permissions(closed, fs::Permissions::from_mode(0o000)).unwrap();
        }
    }
    for number in 0..5_000 {
        fs::write(top.join(format!("file-{number}")), "").unwrap();
    }
    symlink(tree.outside(), top.join("link")).unwrap();
    fs::set_permissions(&top, fs::Permissions::from_mode(0o500)).unwrap();
    tree.files.delete_tree("top").unwrap();
    tree.files.delete_tree("top").unwrap();
    assert_eq!(fs::read_dir(tree.ws("")).unwrap().count(), 0);
    tree.assert_outside_untouched();
}

#[test]
fn a_tree_that_is_a_link_is_removed_as_a_link() {
    let tree = tree();
    symlink(tree.outside(), tree.ws("top")).unwrap();
    tree.files.delete_tree("top").unwrap();
    tree.assert_outside_untouched();
}

#[test]
fn a_reader_sees_the_old_content_or_the_new() {
    let tree = tree();
    let (old, new) = (vec![b'a'; 300_000], vec![b'b'; 200_000]);
    tree.files.write(&path("file"), &old, Replacing::Allowed).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = Stop(&stop);
            for round in 0..60 {
                let content = if round % 2 == 0 { &new } else { &old };
                tree.files.write(&path("file"), content, Replacing::Allowed).unwrap();
            }
        });
        while !stop.load(Ordering::Relaxed) {
            let (bytes, _) = tree.files.read(&path("file"), 0, u64::MAX).unwrap();
            assert!(bytes == old || bytes == new, "{} bytes of a mixture", bytes.len());
        }
    });
    assert_eq!(fs::read_dir(tree.ws("")).unwrap().count(), 1);
}

#[test]
fn two_creators_of_one_name_have_one_winner() {
    let tree = tree();
    let wins: u32 = std::thread::scope(|scope| {
        let create = |number: u8| {
            let files = &tree.files;
            scope.spawn(move || {
                u32::from(files.write(&path("x/y"), &[number], Replacing::Forbidden).is_ok())
            })
        };
        let all: Vec<_> = (0..8).map(create).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(wins, 1);
    assert_eq!(fs::read_dir(tree.ws("x")).unwrap().count(), 1);
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    let tree = tree();
    fs::write(tree.ws("tool"), "x").unwrap();
    fs::set_permissions(tree.ws("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    tree.files.write(&path("tool"), b"y", Replacing::Allowed).unwrap();
    assert_eq!(fs::metadata(tree.ws("tool")).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn new_files_belong_to_the_owner_of_their_directory() {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: giving files away needs root");
        return;
    }
    let tree = tree();
    std::os::unix::fs::chown(tree.ws(""), Some(4711), Some(4712)).unwrap();
    tree.files.write(&path("a/b/file"), b"x", Replacing::Allowed).unwrap();
    for name in ["a", "a/b", "a/b/file"] {
        let now = fs::metadata(tree.ws(name)).unwrap();
        assert_eq!((now.uid(), now.gid()), (4711, 4712), "{name}");
    }
}

#[test]
fn odd_names_are_read_written_and_listed() {
    let tree = tree();
    let names: [&[u8]; 7] =
        [b" ", b"-rf", b"a\nb", b"caf\xe9", b"\xff\xfe", b"%41", "\u{202e}txt.exe".as_bytes()];
    for name in names {
        let odd = RelPath::parse(OsStr::from_bytes(name)).unwrap();
        tree.files.write(&odd, name, Replacing::Forbidden).unwrap();
    }
    let listing = tree.files.list(&RelPath::root(), None, 1).unwrap();
    assert_eq!(listing.entries.len(), names.len());
    for entry in listing.entries {
        let back = RelPath::from_text(&entry.path).unwrap();
        let (bytes, _) = tree.files.read(&back, 0, 100).unwrap();
        assert_eq!(back.as_path().as_os_str().as_bytes(), bytes);
    }
}

#[test]
fn a_listing_is_capped_and_says_so() {
    let tree = big_tree();
    for number in 0..1_200 {
        fs::write(tree.ws(&format!("f{number:05}")), "").unwrap();
    }
    let listing = tree.files.list(&RelPath::root(), None, 1).unwrap();
    assert_eq!((listing.entries.len(), listing.more), (1_000, true));
    assert_eq!(listing.entries[999].path, "f00999");
}

#[test]
fn a_sparse_giant_is_read_in_parts_only() {
    let tree = tree();
    fs::File::create(tree.ws("giant")).unwrap().set_len(1 << 40).unwrap();
    let (bytes, size) = tree.files.read(&path("giant"), (1 << 40) - 5, 100).unwrap();
    assert_eq!((bytes.len(), size), (5, 1 << 40));
    let replaced = tree.files.replace(&path("giant"), b"a", b"b");
    refused(replaced, "replace in a giant");
}

#[test]
fn changes_are_seen_and_noise_is_not() {
    let tree = tree();
    fs::write(tree.ws("same"), "x").unwrap();
    fs::write(tree.ws("changed"), "x").unwrap();
    fs::write(tree.ws("gone"), "x").unwrap();
    let before = tree.files.snapshot();
    fs::write(tree.ws("changed"), "xy").unwrap();
    fs::remove_file(tree.ws("gone")).unwrap();
    for dir in ["sub", "node_modules", ".git", "__pycache__"] {
        fs::create_dir(tree.ws(dir)).unwrap();
        fs::write(tree.ws(dir).join("new"), "x").unwrap();
    }
    fs::write(tree.ws(".stockade-run-x.py"), "x").unwrap();
    symlink(tree.outside(), tree.ws("link")).unwrap();
    let (changes, more) = tree.files.snapshot().changes_since(&before, 10);
    let seen: Vec<_> = changes.iter().map(|c| (c.path.as_str(), c.change)).collect();
    let expected =
        [("changed", Change::Modified), ("gone", Change::Deleted), ("sub/new", Change::Created)];
    assert_eq!((seen.as_slice(), more), (&expected[..], false));
    let (changes, more) = tree.files.snapshot().changes_since(&before, 2);
    assert_eq!((changes.len(), more), (2, true));
}

#[test]
fn a_file_of_the_same_size_written_anew_is_a_change() {
    let tree = tree();
    tree.files.write(&path("f"), b"one", Replacing::Allowed).unwrap();
    let before = tree.files.snapshot();
    tree.files.write(&path("f"), b"two", Replacing::Allowed).unwrap();
    let (changes, _) = tree.files.snapshot().changes_since(&before, 10);
    assert_eq!(changes.len(), 1);
}

#[test]
fn a_huge_tree_is_looked_at_in_part_and_deletions_are_not_invented() {
    let tree = big_tree();
    for number in 0..20_050 {
        fs::File::create(tree.ws(&format!("f{number}"))).unwrap();
    }
    let before = tree.files.snapshot();
    let (changes, more) = tree.files.snapshot().changes_since(&before, 100);
    assert!(changes.iter().all(|change| change.change != Change::Deleted));
    assert!(more);
}

#[test]
fn only_an_empty_directory_is_removed_as_a_file() {
    let tree = tree();
    fs::create_dir_all(tree.ws("full/empty")).unwrap();
    let full = tree.files.remove(&path("full")).unwrap_err();
    assert_eq!(full.code(), "conflict");
    tree.files.remove(&path("full/empty")).unwrap();
    tree.files.remove(&path("full")).unwrap();
    let gone = tree.files.remove(&path("full")).unwrap_err();
    assert_eq!(gone.code(), "not_found");
}

#[test]
fn no_module_of_this_crate_touches_files_by_path() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut stack = vec![source];
    let mut looked_at = 0;
    while let Some(dir) = stack.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let shown = path.display().to_string();
            if path.is_dir() {
                stack.push(path);
                continue;
            }
            let tests = ["/fake", "/contract", "/tests"].iter().any(|part| shown.contains(part));
            if tests || path.extension() != Some(OsStr::new("rs")) {
                continue;
            }
            looked_at += 1;
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let allowed = usize::from(shown.ends_with("engine/workspaces.rs")) * 3;
            let uses = code.matches("std::fs::").count()
                - code.matches("use std::fs::File;").count()
                + code.matches("tokio::fs::").count()
                - code.matches("tokio::fs::File::from_std").count();
            assert!(uses <= allowed, "{shown} uses std::fs: open files through HostDir");
        }
    }
    assert!(looked_at > 30, "{looked_at} files");
}
