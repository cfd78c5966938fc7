//! Packages of the system that the package set needs: an interpreter and the
//! clients. With apt-get, as root, when the operator allows it; otherwise the
//! command is told.

use std::path::Path;

use anyhow::bail;

use super::{Step, SystemPackages};
use crate::clients::{Call, find};
use crate::standard_set::{PYTHON, Wanted, marker};

pub(crate) const NAME: &str = "system packages";

/// Names of packages without which a set that is not there cannot be installed.
pub(crate) fn missing(wanted: &Wanted, data_dir: &Path) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let python_set = wanted.python_dir(data_dir);
    if !Path::new(PYTHON).exists() {
        missing.push("python3");
    }
    let has_python_set = python_set.is_some_and(|dir| marker(&dir).is_some());
    if !has_python_set && super::python::installer().is_none() {
        missing.push("python3-pip");
    }
    if marker(&wanted.javascript_dir(data_dir)).is_none() {
        missing.extend(
            ["node", "npm"]
                .into_iter()
                .filter(|name| find(name).is_none())
                .map(|name| if name == "node" { "nodejs" } else { name }),
        );
    }
    missing
}

/// What a person would type to install them.
pub(crate) fn command(missing: &[&str]) -> String {
    format!("apt-get install -y --no-install-recommends {}", missing.join(" "))
}

/// Installs them, or says why not.
pub(crate) fn install(
    missing: &[&str],
    allowed: SystemPackages,
    step: &Step<'_>,
) -> anyhow::Result<()> {
    let names = missing.join(", ");
    if allowed == SystemPackages::Leave {
        bail!("{names} missing, and installing system packages is not allowed");
    }
    if !rustix::process::geteuid().is_root() {
        bail!("{names} missing, and only root can install system packages");
    }
    let Some(apt_get) = find("apt-get") else {
        bail!("{names} missing, and there is no apt-get here; use this system's own installer");
    };
    let call = |args: &[&str]| {
        let on_line = |line: &str| step.say(line);
        let call = Call::new(&apt_get).env("DEBIAN_FRONTEND", "noninteractive").args(args);
        call.on_line(&on_line).run()
    };
    let mut args = vec!["install", "-y", "--no-install-recommends"];
    args.extend(missing);
    step.say(format!("installing {names}"));
    // A fresh machine has no package lists yet.
    call(&args).or_else(|_| call(&["update"]).and_then(|_| call(&args)))?;
    Ok(())
}
