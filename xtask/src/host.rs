//! What the tests need of the machine, and what they may count on.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{has, step};

/// A program, and the Debian package that brings it.
const PROGRAMS: [(&str, &str); 12] = [
    ("/usr/bin/python3", "python3"),
    ("/usr/bin/pip3", "python3-pip"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/bin/g++", "g++"),
    ("/usr/bin/go", "golang-go"),
    ("/usr/bin/perl", "perl"),
    ("/usr/bin/ruby", "ruby"),
    ("/usr/bin/php", "php-cli"),
    ("/usr/bin/Rscript", "r-base-core"),
    ("/usr/bin/java", "default-jdk-headless"),
    ("/usr/bin/bwrap", "bubblewrap"),
    ("/usr/bin/curl", "curl"),
];

/// Installs what is missing. Needs root only if something is.
pub(crate) fn install() -> Result<()> {
    let missing: Vec<_> =
        PROGRAMS.iter().filter(|(program, _)| !Path::new(program).exists()).collect();
    if !missing.is_empty() {
        let packages = missing.iter().map(|(_, package)| *package);
        if !rustix::process::geteuid().is_root() || !has("apt-get") {
            let names = packages.collect::<Vec<_>>().join(" ");
            bail!("install these first: {names} (on Debian: apt-get install {names})");
        }
        step("apt-get", &["update", "-q"], &[])?;
        let apt = ["install", "-y", "-q", "--no-install-recommends"];
        let args: Vec<_> = apt.into_iter().chain(packages).collect();
        step("apt-get", &args, &[("DEBIAN_FRONTEND", "noninteractive")])?;
    }
    if !has("npm") {
        bail!("install Node.js 20 or later with npm first");
    }
    if !has("cargo-deny") {
        step(env!("CARGO"), &["install", "--locked", "cargo-deny"], &[])?;
    }
    Ok(())
}

/// The features that this host must have when the tests run. What is named here
/// and not there makes tests fail; nothing is skipped because it was not noticed.
pub(crate) fn features() -> String {
    let mut features = vec!["userns", "landlock", "packages"];
    if rustix::process::geteuid().is_root() {
        features.extend(["root", "cgroup"]);
    }
    features.join(",")
}
