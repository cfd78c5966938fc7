//! Calls the ordinary clients: pip, npm, apt-get, and tools that name their home.
//!
//! The only place of this crate that starts a process. It never starts code of
//! a user: what runs here is fixed, and serves to install the package set.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, bail};

/// What a failed client's own words are cut to: the end says why.
const SHOWN_BYTES: usize = 4000;

/// One call of a client.
pub(crate) struct Call<'a> {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    dir: PathBuf,
    on_line: &'a dyn Fn(&str),
}

impl<'a> Call<'a> {
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        let (program, args, env) = (program.into(), Vec::new(), Vec::new());
        Self { program, args, env, dir: PathBuf::from("/"), on_line: &|_| {} }
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// Called with each line of output while the client works.
    pub(crate) fn on_line(mut self, on_line: &'a dyn Fn(&str)) -> Self {
        self.on_line = on_line;
        self
    }

    /// Runs it to its end. Gives its standard output; fails with its own words.
    pub(crate) fn run(&self) -> anyhow::Result<String> {
        let name = self.program.to_string_lossy();
        let (status, stdout, stderr) = self.spawn().with_context(|| format!("starting {name}"))?;
        if status.success() {
            return Ok(stdout);
        }
        let args = self.args.join(OsStr::new(" "));
        let words = format!("{stdout}\n{stderr}");
        bail!("`{name} {}` failed ({status}):\n{}", args.display(), end_of(words.trim()))
    }

    fn spawn(&self) -> anyhow::Result<(ExitStatus, String, String)> {
        #[expect(clippy::disallowed_methods, reason = "fixed clients only, never code of a user")]
        let mut child = std::process::Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(kept_env())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = std::thread::scope(|scope| {
            let stderr = scope.spawn(|| stderr.map(read_all).unwrap_or_default());
            let stdout = stdout.map(|pipe| self.read_lines(pipe)).unwrap_or_default();
            (stdout, stderr.join().unwrap_or_default())
        });
        Ok((child.wait()?, stdout, stderr))
    }

    fn read_lines(&self, pipe: impl Read) -> String {
        let mut text = String::new();
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            (self.on_line)(&line);
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

fn read_all(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // An unreadable pipe only shortens what a failure can quote.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_of(words: &str) -> &str {
    let mut start = words.len().saturating_sub(SHOWN_BYTES);
    while !words.is_char_boundary(start) {
        start += 1;
    }
    &words[start..]
}

/// What clients need to reach their registries, and nothing else: the
/// environment of the server may hold keys.
fn kept_env() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept))
}

fn is_kept(name: &str) -> bool {
    const EXACT: &[&str] =
        &["PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    let lower = name.to_ascii_lowercase();
    EXACT.contains(&name)
        || lower.ends_with("_proxy")
        || ["pip_", "npm_config_", "uv_"].iter().any(|prefix| lower.starts_with(prefix))
}

/// The file that a program name stands for on this machine.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(
        |file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_need_is_passed_on() {
        for name in ["PATH", "HTTPS_PROXY", "no_proxy", "PIP_INDEX_URL", "npm_config_registry"] {
            assert!(is_kept(name), "{name}");
        }
        for name in ["STOCKADE_ADMIN_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LD_PRELOAD"] {
            assert!(!is_kept(name), "{name}");
        }
    }

    #[test]
    fn a_failure_quotes_the_client() {
        let call = Call::new("/bin/sh").args(["-c", "echo out; echo why >&2; exit 3"]);
        let error = format!("{:#}", call.run().unwrap_err());
        assert!(error.contains("exit status: 3") && error.contains("why"), "{error}");
        let missing = format!("{:#}", Call::new("/nonexistent/pip").run().unwrap_err());
        assert!(missing.contains("starting /nonexistent/pip"), "{missing}");
    }

    #[test]
    fn lines_arrive_while_it_works() {
        let lines = std::cell::RefCell::new(Vec::new());
        let on_line = |line: &str| lines.borrow_mut().push(line.to_owned());
        let call = Call::new("/bin/sh").args(["-c", "echo a; echo b"]).on_line(&on_line);
        assert_eq!(call.run().unwrap(), "a\nb\n");
        assert_eq!(lines.into_inner(), ["a", "b"]);
    }
}
