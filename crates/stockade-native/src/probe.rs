//! From what the launcher found to a report layer by layer.

use std::collections::BTreeMap;

use stockade_agent::launcher::protocol::{Ownership, ProbeReport};
use stockade_core::isolation::{Assurance, Enforcement, Isolation, Layer};

use crate::convert;

const NAMESPACES_REMEDY: &str = "allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1 \
     user.max_user_namespaces=10000`, on Ubuntu `sysctl -w \
     kernel.apparmor_restrict_unprivileged_userns=0`, in a container run it with these allowed; \
     or start the server as root";
const GROUP_REMEDY: &str = "start the server as root, or under `systemd-run --user --scope \
     -p Delegate=yes -p MemoryAccounting=yes stockade serve`";
const LANDLOCK_REMEDY: &str = "use a kernel of 6.12 or later with landlock in its `lsm=` list";
const REPORT_REMEDY: &str = "do not use this host for untrusted code; report this as a bug with \
     the output of `stockade doctor --json`";
/// Landlock version that also keeps signals and abstract sockets inside.
const WHOLE_LANDLOCK: u32 = 6;
/// Layers that make a wall; the others bound what it holds.
const WALL: [Layer; 5] =
    [Layer::Filesystem, Layer::Processes, Layer::Network, Layer::Syscalls, Layer::Privileges];

/// The report of a host on which a launcher works.
pub(crate) fn isolation(report: &ProbeReport) -> Isolation {
    if let Some(failure) = &report.failure {
        return without_launcher(&convert::explain(failure));
    }
    let layers = [
        (Layer::Filesystem, filesystem(report)),
        (Layer::Processes, processes(report)),
        (Layer::Network, network(report)),
        (Layer::Syscalls, syscalls(report)),
        (Layer::Privileges, privileges(report)),
        (Layer::Memory, group(report, report.memory.as_ref(), "RLIMIT_DATA of each process")),
        (Layer::Pids, group(report, report.pids.as_ref(), "RLIMIT_NPROC of the user namespace")),
        (Layer::Cpu, group(report, report.cpu.as_ref(), "")),
    ];
    levelled(layers.into())
}

/// The report of a host on which no sandbox can be made.
pub(crate) fn without_launcher(why: &str) -> Isolation {
    let absent = |layer| (layer, absent(why, NAMESPACES_REMEDY));
    Isolation { level: Assurance::L0, layers: Layer::ALL.map(absent).into() }
}

/// The sandbox shares the machine's network, as its policy allows.
pub(crate) fn open_network(isolation: &mut Isolation) {
    let by = "none: the policy of this sandbox opens the machine's network".to_owned();
    isolation.layers.insert(Layer::Network, Enforcement::Full { by });
}

/// Says so where files of a workspace could not be kept with the server's user.
pub(crate) fn ownership(isolation: &mut Isolation, ownership: Ownership) {
    let Some(Enforcement::Full { by }) = isolation.layers.get_mut(&Layer::Filesystem) else {
        return;
    };
    if ownership == Ownership::Sandbox {
        by.push_str(
            " (the workspace's file system cannot map owners: its files belong to the sandbox's id)",
        );
    }
}

/// All of the wall and bounds for the whole group make L2; without the group it is
/// no more than a process that restricts itself, however well walled.
fn levelled(layers: BTreeMap<Layer, Enforcement>) -> Isolation {
    let full = |layer: &Layer| matches!(layers.get(layer), Some(Enforcement::Full { .. }));
    let level = match WALL.iter().all(full) {
        true if full(&Layer::Memory) && full(&Layer::Pids) => Assurance::L2,
        true => Assurance::L1,
        false if full(&Layer::Syscalls) && full(&Layer::Privileges) => Assurance::L1,
        false => Assurance::L0,
    };
    Isolation { level, layers }
}

fn filesystem(report: &ProbeReport) -> Enforcement {
    let inside = &report.inside;
    if !inside.host_hidden || !inside.root_read_only {
        return absent("files of the machine can be reached from inside", REPORT_REMEDY);
    }
    let by = "user and mount namespace, read-only root of its own".to_owned();
    match inside.landlock {
        0 => Enforcement::Partial {
            by,
            gap: "no second wall: this kernel has no Landlock".into(),
            remedy: LANDLOCK_REMEDY.into(),
        },
        version => Enforcement::Full { by: format!("{by}, Landlock ABI {version}") },
    }
}

fn processes(report: &ProbeReport) -> Enforcement {
    if report.inside.foreign_processes > 0 {
        return absent("other processes can be seen from inside", REPORT_REMEDY);
    }
    let mut by = "pid and ipc namespace".to_owned();
    if report.inside.landlock >= WHOLE_LANDLOCK {
        by.push_str(", Landlock scopes");
    }
    if report.group_kill {
        by.push_str(", cgroup.kill");
    }
    Enforcement::Full { by }
}

fn network(report: &ProbeReport) -> Enforcement {
    if report.inside.foreign_interfaces > 0 {
        return absent("interfaces of the machine can be seen from inside", REPORT_REMEDY);
    }
    Enforcement::Full { by: "network namespace with nothing but loopback, socket filter".into() }
}

fn syscalls(report: &ProbeReport) -> Enforcement {
    if !report.inside.filter_works {
        return absent("the system-call filter does not hold", REPORT_REMEDY);
    }
    Enforcement::Full { by: "seccomp allow list".into() }
}

fn privileges(report: &ProbeReport) -> Enforcement {
    if !report.inside.no_privileges {
        return absent("a program inside could gain privileges", REPORT_REMEDY);
    }
    let whose = match report.root {
        true => "user ids of its own",
        false => "the server's own user id, mapped",
    };
    Enforcement::Full { by: format!("no capabilities, no_new_privs, {whose}") }
}

/// A bound of the whole sandbox, or what is left without one.
fn group(report: &ProbeReport, by: Option<&String>, instead: &str) -> Enforcement {
    if let Some(by) = by {
        return Enforcement::Full { by: by.clone() };
    }
    let why = report.group_problem.as_deref().unwrap_or("this host offers no such resource group");
    match instead {
        "" => absent(why, GROUP_REMEDY),
        by => Enforcement::Partial {
            by: by.to_owned(),
            gap: format!("not the whole sandbox: {why}"),
            remedy: GROUP_REMEDY.to_owned(),
        },
    }
}

fn absent(reason: &str, remedy: &str) -> Enforcement {
    Enforcement::Absent { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_agent::launcher::protocol::Inside;

    fn whole() -> ProbeReport {
        ProbeReport {
            inside: Inside {
                root_read_only: true,
                host_hidden: true,
                filter_works: true,
                landlock: 7,
                no_privileges: true,
                ..Inside::default()
            },
            memory: Some("cgroup v2 memory".into()),
            pids: Some("cgroup v2 pids".into()),
            cpu: Some("cgroup v2 cpu".into()),
            ..ProbeReport::default()
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut ProbeReport), level: Assurance) {
        let mut report = whole();
        change(&mut report);
        assert_eq!(isolation(&report).level, level);
    }

    #[test]
    fn a_level_needs_all_of_its_layers() {
        check(|_| {}, Assurance::L2);
        check(|report| report.cpu = None, Assurance::L2);
        check(|report| report.memory = None, Assurance::L1);
        check(|report| report.pids = None, Assurance::L1);
        check(|report| report.inside.landlock = 0, Assurance::L1);
        check(|report| report.inside.foreign_processes = 1, Assurance::L1);
        check(|report| report.inside.filter_works = false, Assurance::L0);
        check(|report| report.inside.no_privileges = false, Assurance::L0);
    }
}
