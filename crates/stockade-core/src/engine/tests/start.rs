//! The start: what an earlier process left is gone, what belongs to someone stays.

use super::*;
use crate::id::{RunId, SandboxId, WorkspaceName};
use crate::spec::{Image, Network, SandboxSpec};
use crate::store::{RunRecord, Store, WorkspaceRecord};

fn record(dir: char, name: Option<&str>) -> WorkspaceRecord {
    WorkspaceRecord {
        dir: dir.to_string().repeat(32),
        owner: OwnerId::of_key("me"),
        name: name.map(|name| WorkspaceName::parse(name).unwrap()),
        created_at: 1,
        used_at: i64::MAX,
    }
}

#[tokio::test(start_paused = true)]
async fn the_start_sweeps_what_an_earlier_process_left() {
    let data = tempfile::tempdir().unwrap();
    let root = data.path().join("workspaces");
    let (backend, store) = (FakeBackend::new(), MemoryStore::new());
    let (named, anonymous) = (record('a', Some("kept")), record('b', None));
    for record in [&named, &anonymous] {
        store.add_workspace(record).unwrap();
    }
    let unknown = "c".repeat(32);
    for dir in [&named.dir, &anonymous.dir, &unknown, ".trash-1", "stray"] {
        std::fs::create_dir_all(root.join(dir).join("sub")).unwrap();
    }
    let kept = root.join(&named.dir);
    std::fs::write(kept.join("mine.txt"), "x").unwrap();
    for left in [".stockade-run-abc.ts", "sub/.stockade-tmp-00"] {
        let file = std::fs::File::create(kept.join(left)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    backend.leave_over(&SandboxSpec {
        image: Image::Root("/".into()),
        workspace: root.clone(),
        limits: Limits::DEFAULT,
        network: Network::None,
        required: Vec::new(),
    });
    let open = RunRecord {
        id: RunId::random(),
        owner: OwnerId::of_key("me"),
        sandbox: SandboxId::random(),
        runtime: "python".into(),
        created_at: 1,
        outcome: None,
    };
    store.put_run(&open).unwrap();

    let settings = settings(data.path().to_path_buf());
    let engine = Engine::start(settings, backend.clone(), store.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    settle().await;

    let left: Vec<_> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [named.dir.as_str()]);
    let mut inside: Vec<_> =
        std::fs::read_dir(&kept).unwrap().map(|e| e.unwrap().file_name()).collect();
    inside.sort();
    assert_eq!(inside, ["mine.txt", "sub"]);
    assert_eq!(std::fs::read_dir(kept.join("sub")).unwrap().count(), 0);
    assert_eq!(backend.left_over(), 0);
    let outcome = store.runs(None, 1).unwrap()[0].outcome.clone().unwrap();
    assert_eq!(outcome.verdict, Verdict::Lost);
    assert_eq!(store.workspaces(None).unwrap(), [named]);
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_process_on_the_same_directory_sweeps_nothing() {
    let world = world().await;
    let view = world.start("me", "write file x; hang").await;
    settle().await;
    let settings = settings(world.data.path().to_path_buf());
    let other = Engine::start(settings, FakeBackend::new(), world.store.clone()).await.unwrap();
    settle().await;
    assert_eq!(world.workspace_dirs().len(), 1);
    assert_eq!(world.look("me", &view.run).await.verdict(), None);
    other.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_dropped_stops_its_background_tasks() {
    let world = world().await;
    let weak = Arc::downgrade(&world.engine);
    drop(world.engine);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(weak.upgrade().is_none());
}
