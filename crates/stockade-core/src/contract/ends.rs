//! Ends: every run ends once, with the truth, and with everything it started.

use std::time::Duration;

use super::Held;
use super::bench::{Bench, Place, command, holds, limits, listen, same, text};
use crate::backend::{EndCause, ExitStatus};
use crate::limits::Limits;
use crate::spec::Command;

/// When a child that was left behind would make its file.
const LATER_MS: u64 = 1_500;
const MARKER: &str = "survivor";

pub(super) async fn every_exit_code_is_reported(bench: &Bench) -> Held {
    let place = bench.place().await?;
    for code in 0..=255 {
        let said = place.run(command(bench.dialect.exit(code))).await?;
        said.ended(&ExitStatus::Code(code))?;
    }
    Ok(())
}

pub(super) async fn signals_are_reported(bench: &Bench) -> Held {
    let place = bench.place().await?;
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 14, 15] {
        let said = place.run(command(bench.dialect.die(signal))).await?;
        said.ended(&ExitStatus::Signal(signal))?;
    }
    Ok(())
}

pub(super) async fn a_signal_from_outside_reaches_the_program(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let process = place.start(command(bench.dialect.sleep(15_000))).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    process.control.signal(15).await.map_err(text)?;
    listen(process).await.ended(&ExitStatus::Signal(15))
}

pub(super) async fn a_missing_program_is_refused(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let said = place.run(command(vec!["no-such-program-anywhere".to_owned()])).await?;
    match &said.exit()?.status {
        ExitStatus::Refused(why) => holds("the refusal says why", !why.trim().is_empty())?,
        other => return Err(format!("saw {other:?}")),
    }
    // The sandbox is none the worse for it.
    place.run(command(bench.dialect.exit(0))).await?.ended(&ExitStatus::Code(0))
}

async fn no_survivor(place: &Place) -> Held {
    tokio::time::sleep(Duration::from_millis(LATER_MS + 700)).await;
    holds("nothing that the run started is left", !place.has(MARKER))
}

pub(super) async fn the_wall_limit_ends_the_whole_tree(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let limits = Limits { wall_time: Duration::from_millis(600), ..limits() };
    let tree = bench.dialect.wait_with_child(LATER_MS, MARKER);
    let said = place.run(Command { limits, ..command(tree) }).await?;
    said.caused(EndCause::WallTime)?;
    let wall = said.exit()?.usage.wall();
    let right = (Duration::from_millis(550)..Duration::from_millis(2_500)).contains(&wall);
    holds(&format!("wall time {wall:?} is near the limit"), right)?;
    no_survivor(&place).await
}

pub(super) async fn a_cancelled_run_ends_with_its_whole_tree(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let tree = bench.dialect.wait_with_child(LATER_MS, MARKER);
    let process = place.start(command(tree)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    process.control.kill(EndCause::Cancelled).await.map_err(text)?;
    listen(process).await.caused(EndCause::Cancelled)?;
    no_survivor(&place).await
}

pub(super) async fn no_child_survives_its_run(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let said = place.run(command(bench.dialect.leave_child(LATER_MS, MARKER))).await?;
    said.ended(&ExitStatus::Code(0))?;
    no_survivor(&place).await
}

pub(super) async fn killing_twice_is_harmless(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let process = place.start(command(bench.dialect.sleep(15_000))).await?;
    let control = process.control.clone();
    control.kill(EndCause::Cancelled).await.map_err(text)?;
    // The second one may find nothing to kill; it must not hang or end anything else.
    let _ = control.kill(EndCause::WallTime).await;
    let said = listen(process).await;
    let _ = control.kill(EndCause::Cancelled).await;
    holds("it was ended", said.exit()?.cause.is_some())?;
    place.run(command(bench.dialect.exit(3))).await?.ended(&ExitStatus::Code(3))
}

pub(super) async fn usage_is_plausible(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let said = place.run(command(bench.dialect.sleep(300))).await?;
    let usage = said.exit()?.usage;
    let wall = usage.wall();
    let right = (Duration::from_millis(290)..Duration::from_secs(5)).contains(&wall);
    holds(&format!("wall time {wall:?} of a sleep of 300 ms"), right)?;
    let cpu = Duration::from_micros(usage.user_us + usage.system_us);
    holds(&format!("processor time {cpu:?} of a sleep"), cpu < Duration::from_secs(1))?;
    same("output", &(usage.stdout_bytes, usage.stderr_bytes), &(0, 0))?;
    match usage.peak_memory_bytes {
        Some(peak) => holds(&format!("peak memory {peak}"), (1..1 << 30).contains(&peak)),
        None => Ok(()),
    }
}
