//! Nothing is left: not by many sandboxes, not by sudden deaths.
//!
//! Deaths and counts are of whole processes, so the backend under test lives in
//! another one: this test program again, playing a role.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Place, command, host_has, run, shell};

const SOON: Duration = Duration::from_secs(10);
const ROLE: &str = "STOCKADE_TEST_ROLE";

/// A process with a backend in it.
struct Actor {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Actor {
    fn start(role: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the test program again, in a role")]
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command
            .args(["--exact", "--ignored", "--nocapture", &format!("leaks::role_{role}")])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// What the role says under this name.
    fn says(&mut self, name: &str) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some(said) = line.trim_end().split_once(&format!("{name}=")) {
                return said.1.to_owned();
            }
            line.clear();
        }
        panic!("the role ended without saying {name}");
    }

    fn launcher(&self) -> i32 {
        let children = children(self.child.id().try_into().unwrap());
        assert_eq!(children.len(), 1, "a server has one child, its launcher");
        children[0]
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // A test that failed must not leave it behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let text: Vec<_> = lists.map(Result::unwrap_or_default).collect();
    text.join(" ").split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Processes of the machine with this word in their command line.
fn with_word(word: &str) -> usize {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|pid| fs::read(pid.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|&b| b == 0).any(|arg| arg == word.as_bytes())).count()
}

/// Groups of a launcher in every hierarchy.
fn groups(launcher: i32) -> Vec<PathBuf> {
    fn find(dir: &Path, name: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if !path.is_dir() {
                continue;
            }
            if entry.file_name() == name {
                found.push(path);
            } else if depth > 0 {
                find(&path, name, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    find(Path::new("/sys/fs/cgroup"), &format!("stockade-{launcher}"), 5, &mut found);
    found
}

#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills process 1 of every sandbox of the launcher over this directory.
pub(crate) fn kill_agents(dir: &Path) -> usize {
    let journals = fs::read_dir(dir.join("state/launchers")).unwrap().flatten();
    let named: String =
        journals.map(|file| fs::read_to_string(file.path()).unwrap_or_default()).collect();
    let launcher = named.lines().find_map(|line| line.rsplit_once("stockade-")).unwrap().1;
    let agents = children(launcher.parse().unwrap());
    agents.iter().for_each(|&pid| kill(pid));
    agents.len()
}

#[test]
fn five_hundred_sandboxes_leave_nothing() {
    if !host_has(&["userns"]) {
        return;
    }
    let mut actor = Actor::start("churn");
    let before = actor.says("before");
    let launcher = actor.launcher();
    let groups_before = groups(launcher).iter().map(|dir| listing(dir)).collect::<Vec<_>>();
    let ours = launcher_state(launcher);
    actor.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(actor.says("after"), before, "descriptors and threads of the server");
    assert_eq!(launcher_state(launcher), ours, "descriptors, mounts, children of the launcher");
    let groups_after = groups(launcher).iter().map(|dir| listing(dir)).collect::<Vec<_>>();
    assert_eq!(groups_after, groups_before);
    actor.child.stdin.take();
    assert!(actor.child.wait().unwrap().success());
    eventually("the launcher goes with its server", || {
        !Path::new(&format!("/proc/{launcher}")).exists()
    });
    assert_eq!(groups(launcher), Vec::<PathBuf>::new());
}

fn listing(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn launcher_state(pid: i32) -> (usize, usize, usize) {
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap().lines().count();
    (count("fd"), mounts, children(pid).len())
}

#[test]
#[ignore = "a role of another test"]
fn role_churn() {
    if std::env::var(ROLE).as_deref() != Ok("churn") {
        return;
    }
    in_runtime(async {
        let place = Place::new();
        // What is made once is made before counting.
        for _ in 0..5 {
            once(&place).await;
        }
        let state = || {
            let fds = fs::read_dir("/proc/self/fd").unwrap().count();
            format!("{fds},{}", listing(&place.dir.path().join("state")).join("+"))
        };
        // Tasks that speak to a sandbox's agent end a moment after it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        println!("before={}", state());
        std::io::stdin().read_exact(&mut [0; 3]).unwrap();
        for _ in 0..500 {
            once(&place).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        println!("after={}", state());
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    });
}

async fn once(place: &Place) {
    let sandbox = place.sandbox().await;
    let ran = run(&sandbox, command(&["true"])).await;
    assert_eq!(ran.exit.status, stockade_core::backend::ExitStatus::Code(0), "{ran:?}");
    sandbox.destroy().await.unwrap();
}

#[test]
fn a_server_killed_in_the_middle_of_ten_leaves_nothing() {
    if !host_has(&["userns"]) {
        return;
    }
    let mut actor = Actor::start("hold");
    let word = actor.says("word");
    let launcher = actor.launcher();
    eventually("the runs are under way", || with_word(&word) >= 10);
    kill(actor.child.id().try_into().unwrap());
    actor.child.wait().unwrap();
    eventually("programs end with their server", || with_word(&word) == 0);
    eventually("so does the launcher", || !Path::new(&format!("/proc/{launcher}")).exists());
    assert_eq!(groups(launcher), Vec::<PathBuf>::new());
}

#[test]
fn a_server_and_its_launcher_killed_at_once_are_swept_by_the_next() {
    if !host_has(&["userns"]) {
        return;
    }
    let mut actor = Actor::start("hold");
    let (dir, word) = (actor.says("dir"), actor.says("word"));
    let launcher = actor.launcher();
    kill(launcher);
    kill(actor.child.id().try_into().unwrap());
    actor.child.wait().unwrap();
    eventually("programs end with their launcher", || with_word(&word) == 0);
    let options =
        stockade_native::NativeOptions { state_dir: Path::new(&dir).join("state"), uid_base: None };
    let next = stockade_native::Native::start(options).unwrap();
    assert_eq!(groups(launcher), Vec::<PathBuf>::new());
    drop(next);
    eventually("the place can be removed", || fs::remove_dir_all(&dir).is_ok());
}

#[test]
fn a_launcher_killed_in_the_middle_of_ten_is_replaced() {
    if !host_has(&["userns"]) {
        return;
    }
    let mut actor = Actor::start("hold");
    let word = actor.says("word");
    let launcher = actor.launcher();
    kill(launcher);
    assert_eq!(actor.says("lost"), "10", "each sandbox says that it is gone");
    assert_eq!(actor.says("again"), "ok", "the next sandbox finds a new launcher");
    assert_eq!(with_word(&word), 0);
    assert_eq!(groups(launcher), Vec::<PathBuf>::new());
    actor.child.stdin.take();
    assert!(actor.child.wait().unwrap().success());
}

#[test]
#[ignore = "a role of another test"]
fn role_hold() {
    if std::env::var(ROLE).as_deref() != Ok("hold") {
        return;
    }
    in_runtime(async {
        let place = Place::new();
        println!("dir={}", place.dir.path().display());
        let word = format!("{}.5", 100_000 + std::process::id());
        let mut held = Vec::new();
        for _ in 0..10 {
            let sandbox = place.sandbox().await;
            let run = sandbox.spawn(shell(&format!("sleep {word} & echo up; wait"))).await;
            let mut run = run.unwrap();
            run.events.recv().await.unwrap();
            held.push((sandbox, run));
        }
        println!("word={word}");
        let mut lost = 0;
        for (sandbox, _) in &held {
            sandbox.gone().await;
            lost += 1;
        }
        println!("lost={lost}");
        once(&place).await;
        println!("again=ok");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    });
}

fn in_runtime(role: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(role);
}
