//! Limits: what goes beyond is ended, and the reason is the right one.

use std::time::Duration;

use super::Held;
use super::bench::{Bench, command, holds, limits};
use crate::backend::EndCause;
use crate::limits::Limits;
use crate::spec::Command;

pub(super) async fn too_much_output_is_ended(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let most = 1 << 20;
    let limits = Limits { output_max_bytes: most, ..limits() };
    let said = place.run(Command { limits, ..command(bench.dialect.flood(64 << 20)) }).await?;
    said.caused(EndCause::Output)?;
    let written = said.exit()?.usage.stdout_bytes;
    holds(&format!("{written} bytes is beyond the limit, but not far"), written < 16 * most)
}

pub(super) async fn too_much_cpu_time_is_ended(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let limits = Limits { cpu_time: Duration::from_secs(1), ..limits() };
    let said = place.run(Command { limits, ..command(bench.dialect.burn_cpu()) }).await?;
    said.caused(EndCause::CpuTime)
}

pub(super) async fn too_much_memory_is_ended(bench: &Bench) -> Held {
    let limits = Limits { memory_bytes: 64 << 20, ..limits() };
    let place = bench.place_with(limits).await?;
    let said = place.run(Command { limits, ..command(bench.dialect.use_memory(256)) }).await?;
    said.caused(EndCause::Memory)
}

pub(super) async fn too_many_processes_are_noticed(bench: &Bench) -> Held {
    let limits = Limits { pids: 32, ..limits() };
    let place = bench.place_with(limits).await?;
    let said = place.run(Command { limits, ..command(bench.dialect.start_processes(200)) }).await?;
    said.caused(EndCause::Pids)
}
