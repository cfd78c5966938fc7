//! Builds a throw-away sandbox and says what stood behind each part of its wall.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::child::Role;
use super::failure::{Doing, refuse};
use super::house::House;
use super::protocol::{
    Bounds, Failure, Image, Inside, Network, Ownership, Plan, ProbeReport, decode,
};
use crate::sys;

/// The number of the probe's sandbox; the server counts from 1.
const ID: u64 = 0;
const LOOK_SECONDS: i64 = 5;

/// `state_dir` exists on the machine and must be out of sight inside.
pub(crate) fn probe(house: &mut House, state_dir: &Path) -> ProbeReport {
    let [memory, pids, cpu] = house.limiter.mechanisms();
    let mut report = ProbeReport {
        root: house.root,
        memory,
        pids,
        cpu,
        group_kill: house.limiter.kills_groups(),
        group_problem: house.limiter.problem(),
        ..ProbeReport::default()
    };
    match look(house, state_dir) {
        Ok((inside, ownership)) => {
            report.inside = Inside { landlock: sys::landlock_version(), ..inside };
            report.ownership = Some(ownership);
        }
        Err(failure) => report.failure = Some(failure),
    }
    report
}

fn look(house: &mut House, state_dir: &Path) -> Result<(Inside, Ownership), Failure> {
    let workspace = state_dir.join("probe");
    std::fs::create_dir_all(&workspace).doing("making the probe's workspace")?;
    let plan = Plan {
        image: Image::Host { mounts: Vec::new() },
        workspace: workspace.as_os_str().as_bytes().to_vec().into(),
        network: Network::None,
        bounds: Bounds { memory_bytes: 64 << 20, pids: 16, cpu_millis: 1000, tmp_bytes: 1 << 20 },
    };
    let (answer, answer_in) = pipe_with(PipeFlags::CLOEXEC).doing("making a pipe")?;
    let canary = state_dir.to_string_lossy().into_owned();
    let mut entry = house.build(ID, &plan, Role::Probe(answer_in, canary))?;
    let ownership = entry.wait_for_report();
    let seen = ownership.and_then(|ownership| Ok((read(answer.into())?, ownership)));
    entry.destroy();
    house.bury(&mut entry);
    seen
}

fn read(mut answer: File) -> Result<Inside, Failure> {
    let mut fds = [PollFd::new(&answer, PollFlags::IN)];
    let timeout = Timespec { tv_sec: LOOK_SECONDS, tv_nsec: 0 };
    if poll(&mut fds, Some(&timeout)).doing("waiting for the probe")? == 0 {
        return refuse("the probe did not answer");
    }
    let mut bytes = [0; 4096];
    let length = answer.read(&mut bytes).doing("reading the probe")?;
    decode(&bytes[..length]).or_else(|_| {
        refuse("a program behind all restrictions could not look around; run `stockade doctor`")
    })
}
