//! What happens by itself: expiry, sweeping, and a first look at the tools.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Engine;
use super::sandboxes::blocking;
use crate::error::Result;

/// How often sandboxes and runs are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often workspaces are looked at, in ticks.
const WORKSPACES_EVERY: u64 = 60;
/// How long after the start the tools are looked at: a server that lives for one
/// command never gets there.
const TOOLS_AFTER: Duration = Duration::from_secs(2);

/// Starts the background tasks. They end with the engine.
pub(crate) fn begin(engine: &Arc<Engine>) {
    let stop = CancellationToken::new();
    tokio::spawn(until(stop.clone(), expire(Arc::downgrade(engine))));
    tokio::spawn(until(stop.clone(), look_at_tools(Arc::downgrade(engine))));
    tokio::spawn(until(stop.clone(), sweep_files(Arc::downgrade(engine), engine.clock.now())));
    // Set once, here.
    let _ = engine.background.set(stop.drop_guard());
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn expire(engine: Weak<Engine>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for count in 0_u64.. {
        ticks.tick().await;
        let Some(engine) = engine.upgrade() else { return };
        for entry in engine.sandboxes.registry.take_expired() {
            tracing::info!(sandbox = %entry.id, "expired");
            engine.sandboxes.begin_end(&entry);
        }
        engine.runs.expire();
        if count % WORKSPACES_EVERY == WORKSPACES_EVERY - 1 {
            report("looking after workspaces", expire_workspaces(&engine).await);
        }
    }
}

async fn expire_workspaces(engine: &Engine) -> Result<()> {
    let (workspaces, idle) = (engine.workspaces.clone(), engine.settings.workspace_idle);
    blocking(move || {
        workspaces.touch_used()?;
        idle.map_or(Ok(()), |idle| workspaces.expire(idle))
    })
    .await
}

async fn look_at_tools(engine: Weak<Engine>) {
    tokio::time::sleep(TOOLS_AFTER).await;
    if let Some(engine) = engine.upgrade() {
        report("looking for the tools of the runtimes", engine.find_tools().await);
    }
}

async fn sweep_files(engine: Weak<Engine>, started: i64) {
    tokio::time::sleep(TICK).await;
    let Some(workspaces) = engine.upgrade().map(|engine| engine.workspaces.clone()) else { return };
    let swept = blocking(move || workspaces.sweep_files(started)).await;
    report("sweeping the workspaces", swept);
}

fn report(doing: &'static str, result: Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%error, source = ?error, doing, "background work failed; it is tried again");
    }
}
