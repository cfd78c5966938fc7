//! Life of a sandbox: it ends when it is told to, completely, and alone.

use std::time::Duration;

use tokio::time::timeout;

use super::Held;
use super::bench::{Bench, command, holds, listen, text};
use crate::backend::{ExitStatus, Sandbox};

const MARKER: &str = "survivor";

pub(super) async fn usage_of_a_sandbox_is_plausible(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let process = place.start(command(bench.dialect.sleep(1_000))).await?;
    let usage = place.sandbox.usage().await.map_err(text)?;
    if let Some(memory) = usage.memory_bytes {
        holds(&format!("memory {memory}"), memory < 1 << 30)?;
    }
    if let Some(pids) = usage.pids {
        holds(&format!("{pids} processes"), (1..100).contains(&pids))?;
    }
    listen(process).await.ended(&ExitStatus::Code(0))
}

async fn is_gone(sandbox: &dyn Sandbox) -> Held {
    let gone = timeout(Duration::from_secs(5), sandbox.gone()).await;
    gone.map_err(|late| format!("`gone` does not resolve after destroy: {late}"))
}

pub(super) async fn destroy_can_be_called_twice(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let (first, second) = futures::join!(place.sandbox.destroy(), place.sandbox.destroy());
    first.map_err(text)?;
    second.map_err(text)?;
    place.sandbox.destroy().await.map_err(text)?;
    is_gone(&*place.sandbox).await
}

pub(super) async fn destroy_ends_what_runs(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let process = place.start(command(bench.dialect.wait_with_child(1_500, MARKER))).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    place.sandbox.destroy().await.map_err(text)?;
    let silent = timeout(Duration::from_secs(5), listen(process)).await;
    silent.map_err(|late| format!("the channel stays open after destroy: {late}"))?;
    is_gone(&*place.sandbox).await?;
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    holds("nothing of it is left", !place.has(MARKER))
}

pub(super) async fn nothing_starts_after_destroy(bench: &Bench) -> Held {
    let place = bench.place().await?;
    place.sandbox.destroy().await.map_err(text)?;
    match place.sandbox.spawn(command(bench.dialect.exit(0))).await {
        Err(_) => Ok(()),
        Ok(process) => match listen(process).await.exit {
            None => Ok(()),
            Some(exit) => Err(format!("it ran: {exit:?}")),
        },
    }
}

pub(super) async fn sandboxes_are_separate(bench: &Bench) -> Held {
    let (one, other) = (bench.place().await?, bench.place().await?);
    one.run(command(bench.dialect.append("mine", "secret"))).await?;
    let said = other.run(command(bench.dialect.show("mine"))).await?;
    holds("a file of one is not in the other", said.stdout()?.is_empty())?;
    one.sandbox.destroy().await.map_err(text)?;
    other.run(command(bench.dialect.exit(0))).await?.ended(&ExitStatus::Code(0))
}
