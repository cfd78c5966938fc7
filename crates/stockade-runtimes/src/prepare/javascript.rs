//! The JavaScript set: a `node_modules` with the real programs in place.
//!
//! No install script of a package is run. Bun and esbuild would use theirs to
//! put the program for this machine where their stand-in lies; here we do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;

use super::Step;
use crate::clients::{Call, find};
use crate::set_dir::SetDir;
use crate::standard_set::Wanted;

#[derive(Deserialize)]
struct Manifest {
    version: String,
}

pub(crate) fn install(wanted: &Wanted, target: &Path, step: &Step<'_>) -> anyhow::Result<()> {
    let Some(npm) = find("npm") else {
        bail!("there is no npm; install it with: apt-get install nodejs npm");
    };
    let set = SetDir::begin(target)?;
    let mut dependencies: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, range) in wanted.javascript.iter().chain(&wanted.javascript_tools) {
        dependencies.insert(name, range);
    }
    if let (Some(package), Some(range)) = (bun_package(), wanted.javascript_tools.get("bun")) {
        dependencies.insert(package, range);
    }
    let manifest = json!({ "name": "stockade", "private": true, "dependencies": dependencies });
    fs::write(set.path().join("package.json"), serde_json::to_vec_pretty(&manifest)?)?;
    step.say(format!(
        "fetching {}",
        wanted.javascript.keys().cloned().collect::<Vec<_>>().join(", ")
    ));
    Call::new(npm)
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"])
        .dir(set.path())
        .run()?;
    let modules = set.path().join("node_modules");
    for (stand_in, program) in programs() {
        put_in_place(&modules.join(stand_in), &modules, &program)?;
    }
    let packages = wanted
        .javascript
        .keys()
        .map(|name| Ok(format!("{name} {}", version(&modules.join(name))?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    step.say("writing to the disk");
    set.finish(packages)?;
    step.say("ready");
    Ok(())
}

/// Bun's package with the program for this processor, where one is published.
fn bun_package() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    return Some(if std::arch::is_x86_feature_detected!("avx2") {
        "@oven/bun-linux-x64"
    } else {
        "@oven/bun-linux-x64-baseline"
    });
    #[cfg(target_arch = "aarch64")]
    return Some("@oven/bun-linux-aarch64");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return None;
}

/// Stand-in -> the real program, relative to `node_modules`.
fn programs() -> Vec<(&'static str, PathBuf)> {
    let cpu = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    let mut programs =
        vec![("esbuild/bin/esbuild", PathBuf::from(format!("@esbuild/linux-{cpu}/bin/esbuild")))];
    if let Some(package) = bun_package() {
        programs.push(("bun/bin/bun.exe", Path::new(package).join("bin/bun")));
        programs.push(("bun/bin/bunx.exe", Path::new(package).join("bin/bun")));
    }
    programs
}

/// A relative link, so that it holds wherever the set is mounted.
fn put_in_place(stand_in: &Path, modules: &Path, program: &Path) -> anyhow::Result<()> {
    let real = modules.join(program);
    if !real.is_file() {
        bail!("{} did not come with its package", program.display());
    }
    match fs::remove_file(stand_in) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", stand_in.display()));
        }
        _ => {}
    }
    // Stand-ins lie two directories deep: <package>/bin/<program>.
    std::os::unix::fs::symlink(Path::new("../..").join(program), stand_in)
        .with_context(|| format!("linking {}", stand_in.display()))
}

fn version(package: &Path) -> anyhow::Result<String> {
    let path = package.join("package.json");
    let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(serde_json::from_slice::<Manifest>(&text)?.version)
}
