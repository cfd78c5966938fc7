//! The engine on the fake backend, with a clock that tests move.

#![expect(clippy::disallowed_methods, reason = "tests look at the real directories")]

mod files;
mod idempotency;
mod invalid;
mod life;
mod queue;
mod runs;
mod start;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::{Caller, Role};
use crate::engine::{Engine, Settings};
use crate::fake::{FakeBackend, MemoryStore};
use crate::id::OwnerId;
use crate::limits::Limits;
use crate::outcome::Verdict;
use crate::request::{CommandLine, NetworkRequest, RunCode, RunCommand, RunOptions, RunView, Wait};
use crate::runtime::{Place, Runtime};

/// An engine with what stands around it.
struct World {
    engine: Arc<Engine>,
    backend: Arc<FakeBackend>,
    store: Arc<MemoryStore>,
    data: tempfile::TempDir,
}

fn runtime(id: &str, place: Place, tools: &[&str]) -> Runtime {
    Runtime {
        id: id.to_owned(),
        aliases: vec![format!("{id}-alias")],
        extension: "fake".to_owned(),
        run: ["{tool}", "{program}", "{args}"].map(ToOwned::to_owned).to_vec(),
        build: Vec::new(),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        version_args: vec!["--version".to_owned()],
        env: BTreeMap::from([("FROM".to_owned(), "runtime".to_owned())]),
        place,
        min_memory_mb: 0,
        notes: String::new(),
    }
}

fn settings(data_dir: PathBuf) -> Settings {
    let mut hungry = runtime("hungry", Place::Private, &["fake-lang"]);
    hungry.min_memory_mb = 2048;
    Settings {
        data_dir,
        default_limits: Limits::DEFAULT,
        ceiling: Limits::CEILING,
        required_layers: Vec::new(),
        networks: vec![NetworkRequest::Open],
        host_mounts: BTreeMap::new(),
        image_roots: vec![PathBuf::from("/images/one")],
        runtimes: vec![
            runtime("python", Place::Private, &["no-such-tool", "fake-lang"]),
            runtime("typescript", Place::Workspace, &["fake-lang"]),
            runtime("absent", Place::Private, &["gone-a", "gone-b"]),
            hungry,
        ],
        packages: BTreeMap::from([("python".to_owned(), vec!["numpy 2.1".to_owned()])]),
        base_env: BTreeMap::from([
            ("FROM".to_owned(), "base".to_owned()),
            ("BASE".to_owned(), "1".to_owned()),
        ]),
        fixed_env: BTreeMap::from([("FIXED".to_owned(), "1".to_owned())]),
        max_concurrent: 4,
        max_queued: 8,
        answer_within: Duration::from_secs(25),
        sandbox_idle: Duration::from_secs(600),
        sandbox_life: Duration::from_secs(7200),
        max_sandboxes_per_owner: 6,
        workspace_idle: Some(Duration::from_secs(86_400)),
        run_retention: Duration::from_secs(900),
        workspace_bytes: 4 << 20,
    }
}

async fn world() -> World {
    world_with(|_| {}).await
}

async fn world_with(change: impl FnOnce(&mut Settings)) -> World {
    let data = tempfile::tempdir().unwrap();
    let mut settings = settings(data.path().to_path_buf());
    change(&mut settings);
    let (backend, store) = (FakeBackend::new(), MemoryStore::new());
    let engine = Engine::start(settings, backend.clone(), store.clone()).await.unwrap();
    World { engine, backend, store, data }
}

fn user(name: &str) -> Caller {
    Caller { owner: OwnerId::of_key(name), role: Role::User }
}

fn options() -> RunOptions {
    RunOptions { wait: Wait::Forever, ..RunOptions::default() }
}

fn shell(text: &str, options: RunOptions) -> RunCommand {
    RunCommand { command: CommandLine::Shell(text.to_owned()), options }
}

fn code(language: &str, code: &str, options: RunOptions) -> RunCode {
    RunCode { code: code.to_owned(), language: language.to_owned(), options, ..RunCode::default() }
}

impl World {
    /// Runs a command to its end.
    async fn run(&self, text: &str) -> RunView {
        self.engine.run_command(&user("me"), shell(text, options())).await.unwrap()
    }

    /// Runs a command to its end in a sandbox.
    async fn run_in(&self, sandbox: &str, text: &str) -> RunView {
        let options = RunOptions { sandbox: Some(sandbox.to_owned()), ..options() };
        self.engine.run_command(&user("me"), shell(text, options)).await.unwrap()
    }

    /// Starts a command and does not wait.
    async fn start(&self, owner: &str, text: &str) -> RunView {
        let options = RunOptions { wait: Wait::Background, ..options() };
        self.engine.run_command(&user(owner), shell(text, options)).await.unwrap()
    }

    /// The run as it stands.
    async fn look(&self, owner: &str, run: &str) -> RunView {
        self.engine.run(&user(owner), run).await.unwrap()
    }

    /// Names in the directory of all workspaces.
    fn workspace_dirs(&self) -> Vec<String> {
        let dir = std::fs::read_dir(self.data.path().join("workspaces")).unwrap();
        dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[track_caller]
fn check(view: &RunView, verdict: Verdict, stdout: &str) {
    assert_eq!((view.verdict(), view.stdout.text.as_str()), (Some(verdict), stdout), "{view:?}");
}

/// Lets other tasks and blocking work come to rest.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
