//! Go's build cache with the standard library in it, made once.
//!
//! A sandbox's own cache is empty at first, and compiling `net/http` takes
//! longer than most programs run. So a finished cache is mounted read-only, and
//! the build driver fills the private cache with links to it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::clients::{Call, find};
use crate::set_dir::SetDir;
use crate::standard_set::{hash, packages_dir};

/// What the cache depends on besides the Go version. The same as in the table.
const ENV: &[(&str, &str)] = &[
    ("CGO_ENABLED", "0"),
    ("GOENV", "off"),
    ("GOFLAGS", "-buildvcs=false"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("GOTELEMETRY", "off"),
];

/// Where the cache for this machine's Go lies. `None` without a Go.
pub(crate) fn dir(data_dir: &Path) -> Option<PathBuf> {
    let go = tool()?;
    let version = version_file(&go)?;
    let env = ENV.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    let key = hash([version.as_slice(), go.as_os_str().as_encoded_bytes()].into_iter().chain(env));
    Some(packages_dir(data_dir).join(format!("go-cache-{key}")))
}

/// Builds the cache into `target`.
pub(crate) fn build(target: &Path) -> anyhow::Result<()> {
    let go = tool().context("there is no go on this machine")?;
    let set = SetDir::begin(target)?;
    let scratch = tempfile::tempdir()?;
    let call = ENV.iter().fold(Call::new(go), |call, (name, value)| call.env(name, *value));
    call.env("GOCACHE", set.path())
        .env("GOPATH", scratch.path())
        .dir(scratch.path())
        .args(["build", "std"])
        .run()?;
    fs::remove_file(set.path().join("trim.txt")).or_else(missing_is_fine)?;
    set.finish(Vec::new())
}

fn missing_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn tool() -> Option<PathBuf> {
    let local = PathBuf::from("/usr/local/go/bin/go");
    find("go").or_else(|| local.exists().then_some(local))
}

/// `VERSION` lies in the root of every Go, two levels above the program.
fn version_file(go: &Path) -> Option<Vec<u8>> {
    let real = fs::read_link(go).map_or_else(|_| go.to_owned(), |link| go.with_file_name(link));
    fs::read(real.parent()?.parent()?.join("VERSION")).ok()
}
