//! Surroundings: a program sees exactly what it was given.

use std::path::PathBuf;
use std::time::Duration;

use super::Held;
use super::bench::{Bench, command, holds, listen, same, text};
use crate::backend::{EndCause, ExitStatus};
use crate::spec::{Command, ProgramFile};

pub(super) async fn the_environment_is_exact(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let mut command = command(bench.dialect.environment());
    command.env.insert("STOCKADE_CASE".into(), "a value = with, signs".into());
    command.env.insert("EMPTY".into(), "".into());
    let mut expected: Vec<String> = command
        .env
        .iter()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect();
    let said = place.run(command).await?;
    let output = String::from_utf8(said.stdout()?).map_err(text)?;
    let mut seen: Vec<String> = output.lines().map(ToOwned::to_owned).collect();
    seen.sort();
    expected.sort();
    same("environment", &seen, &expected)
}

pub(super) async fn the_working_directory_is_the_wanted_one(bench: &Bench) -> Held {
    let place = bench.place().await?;
    for dir in ["/workspace", "/"] {
        let pwd =
            Command { workdir: PathBuf::from(dir), ..command(bench.dialect.working_directory()) };
        let said = place.run(pwd).await?;
        same("directory", &said.stdout()?, &format!("{dir}\n").into_bytes())?;
    }
    Ok(())
}

pub(super) async fn the_workspace_is_shared_and_has_two_names(bench: &Bench) -> Held {
    let place = bench.place().await?;
    place.run(command(bench.dialect.append("note.txt", "hello"))).await?;
    holds("the file is there outside", place.has("note.txt"))?;
    for path in ["note.txt", "/workspace/note.txt", "/data/note.txt"] {
        let said = place.run(command(bench.dialect.show(path))).await?;
        same(path, &said.stdout()?, &b"hello\n".to_vec())?;
    }
    Ok(())
}

pub(super) async fn program_files_are_there(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let path = "/tmp/run/contract/main.txt";
    let content = "line one\nline two\n".repeat(5_000).into_bytes();
    let file = ProgramFile { path: PathBuf::from(path), content: content.clone() };
    let show = Command { files: vec![file], ..command(bench.dialect.show(path)) };
    let said = place.run(show).await?;
    holds("the content is the same", said.stdout()? == content)?;
    said.ended(&ExitStatus::Code(0))
}

pub(super) async fn one_key_is_one_start(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let keyed = || Command {
        idempotency_key: Some("contract-key".to_owned()),
        ..command(bench.dialect.append("starts", "started"))
    };
    for _ in 0..3 {
        let said = place.run(keyed()).await?;
        same("stdout", &said.stdout()?, &b"started\n".to_vec())?;
        said.ended(&ExitStatus::Code(0))?;
    }
    let said = place.run(command(bench.dialect.show("starts"))).await?;
    same("starts", &said.stdout()?, &b"started\n".to_vec())
}

pub(super) async fn runs_in_one_sandbox_are_independent(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let doomed = place.start(command(bench.dialect.sleep(15_000))).await?;
    let other = place.start(command(bench.dialect.sleep(900))).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let kill = doomed.control.clone();
    kill.kill(EndCause::Cancelled).await.map_err(text)?;
    let (doomed, other) = futures::join!(listen(doomed), listen(other));
    doomed.caused(EndCause::Cancelled)?;
    other.ended(&ExitStatus::Code(0))
}
