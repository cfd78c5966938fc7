//! How strong the wall really is: probed layer by layer, never assumed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One part of the wall.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// No file outside the image and the workspace can be read or written.
    Filesystem,
    /// No other process can be seen, signalled or traced; nothing survives the sandbox.
    Processes,
    /// No packet leaves unless the policy says so.
    Network,
    /// The kernel surface is cut down to an allow list.
    Syscalls,
    /// No capability, no setuid, an own user identity.
    Privileges,
    /// Memory of the whole sandbox is bounded.
    Memory,
    /// The number of processes and threads is bounded.
    Pids,
    /// The share of the processors is bounded.
    Cpu,
}

impl Layer {
    /// Every layer, in the order in which they are reported.
    pub const ALL: [Self; 8] = [
        Self::Filesystem,
        Self::Processes,
        Self::Network,
        Self::Syscalls,
        Self::Privileges,
        Self::Memory,
        Self::Pids,
        Self::Cpu,
    ];

    /// The name used in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Processes => "processes",
            Self::Network => "network",
            Self::Syscalls => "syscalls",
            Self::Privileges => "privileges",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// What stands behind one layer on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "enforcement", rename_all = "snake_case")]
pub enum Enforcement {
    /// The layer holds as promised.
    Full {
        /// The mechanisms, for example `mount namespace + Landlock ABI 7`.
        by: String,
    },
    /// The layer holds with a known gap.
    Partial {
        /// The mechanisms.
        by: String,
        /// What it does not cover.
        gap: String,
        /// The command or setting that closes the gap.
        remedy: String,
    },
    /// The layer is not there.
    Absent {
        /// Why not.
        reason: String,
        /// The command or setting that would bring it.
        remedy: String,
    },
}

/// The assurance level of `SECURITY.md`: what kind of wall it is as a whole.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Assurance {
    /// No isolation worth the name.
    L0,
    /// One process restricting itself: Landlock, seccomp and rlimits, no namespaces.
    L1,
    /// Namespaces, seccomp, Landlock and a resource group: the native default.
    L2,
    /// A hardened container of a separate engine.
    L3,
    /// A kernel of its own: gVisor, Kata or a virtual machine.
    L4,
}

/// What one host, or one sandbox, enforces in fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// The level as a whole.
    pub level: Assurance,
    /// Layer by layer.
    pub layers: BTreeMap<Layer, Enforcement>,
}

impl Isolation {
    /// Fails on the first required layer that is not fully enforced.
    pub fn satisfies(&self, required: &[Layer]) -> Result<()> {
        for &layer in required {
            let reason = match self.layers.get(&layer) {
                Some(Enforcement::Full { .. }) => continue,
                Some(Enforcement::Partial { gap, remedy, .. }) => format!("{gap}; {remedy}"),
                Some(Enforcement::Absent { reason, remedy }) => format!("{reason}; {remedy}"),
                None => "it was not probed".to_owned(),
            };
            return Err(Error::Unenforceable { layer, reason });
        }
        Ok(())
    }
}
