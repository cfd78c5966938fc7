//! Drives the release binary as its users do: real clients, a real server.

use anyhow::Result;

use crate::{cargo, root, step};

/// Builds the release binary and runs the client scenarios against it.
pub(crate) fn run() -> Result<()> {
    cargo(&["build", "--release", "--locked", "-p", "stockade-server"], &[])?;
    let python = root().join("target/clients/bin/python");
    if !python.exists() {
        step("python3", &["-m", "venv", "target/clients"], &[])?;
    }
    step(&python, &["-m", "pip", "install", "--quiet", "mcp>=1.20,<3"], &[])?;
    step(&python, &["tests/surfaces.py"], &[])
}
