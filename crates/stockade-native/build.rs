//! Builds the agent as a small static program, to be embedded.
//!
//! A nested cargo with a target directory of its own (the outer one is locked
//! while this runs) and flags of its own: static, small, no unwinding. It uses
//! the lock file and the crates that the outer build has already fetched.

use std::env;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const STATIC: &str = "-Ctarget-feature=+crt-static";

fn main() -> Result<(), Box<dyn Error>> {
    let crate_dir = PathBuf::from(var("CARGO_MANIFEST_DIR")?);
    let root = crate_dir.ancestors().nth(2).ok_or("the crate lies in crates/ of the workspace")?;
    for watched in ["crates/stockade-agent", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let target = var("TARGET")?;
    let target_dir = target_dir(Path::new(&var("OUT_DIR")?), root)?;
    let status = nested_cargo(root, &target, &target_dir)?.status()?;
    if !status.success() {
        return Err("the agent could not be built; a static C library is needed \
                    (Debian: libc6-dev, Fedora: glibc-static)"
            .into());
    }
    let program = target_dir.join(&target).join("agent/stockade-agent");
    println!("cargo::rustc-env=STOCKADE_AGENT={}", program.display());
    Ok(())
}

fn nested_cargo(root: &Path, target: &str, target_dir: &Path) -> Result<Command, Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "a build script builds; it runs no user code")]
    let mut cargo = Command::new(var("CARGO")?);
    cargo
        .current_dir(root)
        .args(["build", "--frozen", "--quiet", "--profile", "agent"])
        .args(["--package", "stockade-agent", "--bin", "stockade-agent"])
        .args(["--target", target])
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", STATIC)
        // Set by clippy and coverage tools for the outer build only.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET");
    Ok(cargo)
}

/// The same below `target/agent` whatever profile the outer build has; another for
/// each checkout, since several may share one target directory.
fn target_dir(out_dir: &Path, root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let build = out_dir.ancestors().find(|dir| dir.ends_with("build"));
    let target = build.and_then(|build| build.ancestors().nth(2));
    let mut checkout = DefaultHasher::new();
    root.hash(&mut checkout);
    let name = format!("agent/{:016x}", checkout.finish());
    Ok(target.ok_or("OUT_DIR lies in a build directory")?.join(name))
}

fn var(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}
