//! Limits: what was asked, and what will be enforced.
//!
//! `LimitsRequest` is what a caller may send; `Limits` is complete. `resolve`
//! is the only way from one to the other: it fills in defaults and refuses
//! what is above the ceiling. It never clamps.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Limits as a caller asks for them: whatever is absent takes the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsRequest {
    /// Wall time in seconds.
    pub timeout_s: Option<f64>,
    /// Processor time of the whole tree in seconds.
    pub cpu_time_s: Option<f64>,
    /// Memory of the whole sandbox in MiB.
    pub memory_mb: Option<u64>,
    /// Processor share in cores.
    pub cpus: Option<f64>,
    /// Processes and threads at once.
    pub pids: Option<u64>,
}

/// Limits as they will be enforced. Complete: no field means "default".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Wall time of one run.
    pub wall_time: Duration,
    /// Processor time of one run, all of its processes together.
    pub cpu_time: Duration,
    /// Memory of the whole sandbox, swap included.
    pub memory_bytes: u64,
    /// Processor share, in thousandths of a core.
    pub cpu_millis: u32,
    /// Processes and threads of the whole sandbox at once.
    pub pids: u32,
    /// Bytes of each output stream that are kept (head and tail together).
    pub output_kept_bytes: u32,
    /// Bytes of output of both streams after which a run is ended.
    pub output_max_bytes: u64,
    /// Largest file that a run may write.
    pub file_bytes: u64,
    /// Size of the private /tmp (and of /dev/shm) in bytes.
    pub tmp_bytes: u64,
    /// Open files of one process.
    pub open_files: u32,
}

impl Limits {
    /// Secure defaults, as promised in SPECIFICATION.md.
    pub const DEFAULT: Self = Self {
        wall_time: Duration::from_secs(30),
        cpu_time: Duration::from_secs(60),
        memory_bytes: 512 << 20,
        cpu_millis: 1000,
        pids: 128,
        output_kept_bytes: 1 << 20,
        output_max_bytes: 1 << 30,
        file_bytes: 1 << 30,
        tmp_bytes: 256 << 20,
        open_files: 1024,
    };

    /// Ceilings that hold unless the operator sets others.
    pub const CEILING: Self = Self {
        wall_time: Duration::from_secs(600),
        cpu_time: Duration::from_secs(1200),
        memory_bytes: 4096 << 20,
        cpu_millis: 4000,
        pids: 1024,
        output_kept_bytes: 16 << 20,
        output_max_bytes: 16 << 30,
        file_bytes: 16 << 30,
        tmp_bytes: 2048 << 20,
        open_files: 65_536,
    };

    /// Fills in defaults and refuses what lies outside 0 < asked <= ceiling.
    pub fn resolve(asked: &LimitsRequest, defaults: &Self, ceiling: &Self) -> Result<Self> {
        let mut limits = *defaults;
        if let Some(seconds) = asked.timeout_s {
            limits.wall_time = duration("timeout_s", seconds, ceiling.wall_time)?;
            // A caller who waits longer means the program to work longer.
            limits.cpu_time = limits.cpu_time.max(limits.wall_time * 2).min(ceiling.cpu_time);
        }
        if let Some(seconds) = asked.cpu_time_s {
            limits.cpu_time = duration("cpu_time_s", seconds, ceiling.cpu_time)?;
        }
        if let Some(mib) = asked.memory_mb {
            limits.memory_bytes = mebibytes("memory_mb", mib, ceiling.memory_bytes)?;
        }
        if let Some(cpus) = asked.cpus {
            limits.cpu_millis = cores("cpus", cpus, ceiling.cpu_millis)?;
        }
        if let Some(pids) = asked.pids {
            limits.pids = count("pids", pids, ceiling.pids)?;
        }
        Ok(limits)
    }
}

fn duration(field: &'static str, seconds: f64, ceiling: Duration) -> Result<Duration> {
    let most = ceiling.as_secs_f64();
    match Duration::try_from_secs_f64(seconds) {
        Ok(asked) if asked >= Duration::from_millis(1) && asked <= ceiling => Ok(asked),
        _ => Err(Error::invalid(
            field,
            format!(
                "{seconds} is outside 0.001 to {most} s; ask for less, or let the operator raise the ceiling"
            ),
        )),
    }
}

fn mebibytes(field: &'static str, mib: u64, ceiling: u64) -> Result<u64> {
    match mib.checked_mul(1 << 20) {
        Some(bytes) if bytes > 0 && bytes <= ceiling => Ok(bytes),
        _ => Err(Error::invalid(
            field,
            format!(
                "{mib} is outside 1 to {} MiB; ask for less, or let the operator raise the ceiling",
                ceiling >> 20
            ),
        )),
    }
}

fn cores(field: &'static str, cpus: f64, ceiling: u32) -> Result<u32> {
    let most = f64::from(ceiling) / 1000.0;
    if cpus.is_finite() && cpus >= 0.01 && cpus <= most {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounded by the ceiling above"
        )]
        return Ok((cpus * 1000.0).round() as u32);
    }
    Err(Error::invalid(field, format!("{cpus} is outside 0.01 to {most} cores")))
}

fn count(field: &'static str, asked: u64, ceiling: u32) -> Result<u32> {
    match u32::try_from(asked) {
        Ok(asked) if asked > 0 && asked <= ceiling => Ok(asked),
        _ => Err(Error::invalid(field, format!("{asked} is outside 1 to {ceiling}"))),
    }
}
