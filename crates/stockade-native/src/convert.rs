//! Between the words of the engine and the words of the launcher.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_bytes::ByteBuf;
use stockade_agent::launcher::protocol::{self, Bounds, Failure, Figures, Plan};
use stockade_core::Error;
use stockade_core::backend::SandboxUsage;
use stockade_core::spec::{Image, Network, SandboxSpec};

use crate::NAME;

fn bytes(path: &Path) -> ByteBuf {
    ByteBuf::from(path.as_os_str().as_bytes())
}

pub(crate) fn plan(spec: &SandboxSpec) -> Plan {
    let image = match &spec.image {
        Image::Host { mounts } => protocol::Image::Host {
            mounts: mounts.iter().map(|(from, to)| (bytes(from), bytes(to))).collect(),
        },
        Image::Root(dir) => protocol::Image::Root(bytes(dir)),
    };
    let network = match spec.network {
        Network::None => protocol::Network::None,
        Network::Open => protocol::Network::Open,
    };
    let bounds = Bounds {
        memory_bytes: spec.limits.memory_bytes,
        pids: spec.limits.pids,
        cpu_millis: spec.limits.cpu_millis,
        tmp_bytes: spec.limits.tmp_bytes,
    };
    Plan { image, workspace: bytes(&spec.workspace), network, bounds }
}

pub(crate) fn usage(figures: &Figures) -> SandboxUsage {
    SandboxUsage {
        memory_bytes: figures.memory,
        peak_memory_bytes: figures.peak,
        cpu_us: figures.cpu_us,
        pids: figures.pids,
    }
}

/// What failed, and what the kernel said, in one sentence.
pub(crate) fn explain(failure: &Failure) -> String {
    match failure.errno {
        0 => failure.step.clone(),
        errno => format!("{}: {}", failure.step, io::Error::from_raw_os_error(errno)),
    }
}

pub(crate) fn failure(doing: &'static str, failure: &Failure) -> Error {
    Error::backend(NAME, doing, explain(failure))
}
