//! A root like a sandbox's, made with `unshare`: the paths are those a program
//! sees, but it is no wall.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use stockade_core::runtime::{Place, Runtime};
use stockade_runtimes::{Prepared, base_env, installed, table};
use tempfile::TempDir;

/// What the machine promises, in `STOCKADE_TEST_HOST=packages,…`.
pub(crate) fn declares(what: &str) -> bool {
    std::env::var("STOCKADE_TEST_HOST").is_ok_and(|all| all.split(',').any(|one| one == what))
}

/// Where the package set of tests is kept between runs.
pub(crate) fn package_data() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("package-data")
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, stdout: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), stdout), "{}", self.stderr);
    }
}

/// A place with a workspace and a `/tmp` that several runs share.
pub(crate) struct Inside {
    prepared: Prepared,
    workspace: TempDir,
    tmp: TempDir,
    root: TempDir,
    _data: TempDir,
    runtimes: Vec<Runtime>,
    runs: std::cell::Cell<u32>,
}

impl Inside {
    /// With the drivers and nothing else.
    pub(crate) fn bare() -> Self {
        let data = tempfile::tempdir().unwrap();
        let prepared = installed(data.path());
        Self::with(prepared, data)
    }

    /// With these mounts.
    pub(crate) fn with(prepared: Prepared, data: TempDir) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        fs::create_dir_all(tmp.path().join("home")).unwrap();
        Self {
            prepared,
            workspace: tempfile::tempdir().unwrap(),
            tmp,
            root: tempfile::tempdir().unwrap(),
            _data: data,
            runtimes: table(Vec::new()).unwrap(),
            runs: std::cell::Cell::new(0),
        }
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Names in the workspace, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.workspace()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The tool of a language that exists inside.
    pub(crate) fn tool(&self, language: &str) -> Option<String> {
        let path = self.env(&BTreeMap::new()).remove("PATH").unwrap();
        let runtime = self.runtime(language);
        runtime.tools.iter().find_map(|tool| match tool.starts_with('/') {
            true => self.exists(tool).then(|| tool.clone()),
            false => {
                path.split(':').map(|dir| format!("{dir}/{tool}")).find(|file| self.exists(file))
            }
        })
    }

    /// Runs code with the first tool of its language.
    pub(crate) fn run(&self, language: &str, code: &str) -> Ended {
        self.run_with(language, code, &[], &[])
    }

    pub(crate) fn run_with(
        &self,
        language: &str,
        code: &str,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Ended {
        let tool = self.tool(language).unwrap_or_else(|| panic!("no tool for {language}"));
        self.run_by(&tool, language, code, (args, env))
    }

    /// Runs code with this tool, as the engine does: build, then run.
    pub(crate) fn run_by(
        &self,
        tool: &str,
        language: &str,
        code: &str,
        (args, env): (&[&str], &[(&str, &str)]),
    ) -> Ended {
        let runtime = self.runtime(language);
        self.runs.set(self.runs.get() + 1);
        let run = self.runs.get();
        let dir = format!("/tmp/run/r{run}");
        fs::create_dir_all(self.tmp.path().join(&dir[5..])).unwrap();
        let (program, on_host) = match runtime.place {
            Place::Private => {
                let name = format!("main.{}", runtime.extension);
                (format!("{dir}/{name}"), self.tmp.path().join(format!("run/r{run}/{name}")))
            }
            Place::Workspace => {
                let name = format!(".main-r{run}.{}", runtime.extension);
                (format!("/workspace/{name}"), self.workspace().join(name))
            }
        };
        fs::write(&on_host, code).unwrap();
        let fill = |command: &[String]| -> Vec<String> {
            let words = command.iter().flat_map(|part| match part.as_str() {
                "{args}" => args.iter().map(|arg| (*arg).to_owned()).collect(),
                part => vec![
                    part.replace("{tool}", tool)
                        .replace("{program}", &program)
                        .replace("{dir}", &dir),
                ],
            });
            words.collect()
        };
        let mut all = runtime.env.clone();
        all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let started = Instant::now();
        let mut ended = None;
        if !runtime.build.is_empty() {
            let built = self.command(&fill(&runtime.build), &all);
            if built.code != Some(0) {
                ended = Some(built);
            }
        }
        let mut ended = ended.unwrap_or_else(|| self.command(&fill(&runtime.run), &all));
        ended.took = started.elapsed();
        if runtime.place == Place::Workspace {
            fs::remove_file(on_host).unwrap();
        }
        ended
    }

    /// Runs a command.
    pub(crate) fn command(&self, argv: &[String], env: &BTreeMap<String, String>) -> Ended {
        let mounts = self.root.path().with_extension("mounts");
        let lines = self
            .prepared
            .mounts
            .iter()
            .map(|(from, to)| format!("{}\t{}\n", from.display(), to.display()));
        fs::write(&mounts, lines.collect::<String>()).unwrap();
        let started = Instant::now();
        #[expect(clippy::disallowed_methods, reason = "tests run programs of their own")]
        let output = std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "--net", "--ipc", "--pid", "--fork"])
            .args(["--kill-child", "/bin/sh"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/inside.sh"))
            .args([self.root.path(), &mounts, self.workspace(), self.tmp.path()])
            .args(self.env(env).iter().map(|(name, value)| format!("{name}={value}")))
            .args(argv)
            .stdin(Stdio::null())
            .output()
            .expect("unshare is part of util-linux");
        fs::remove_file(&mounts).unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took: started.elapsed(),
        }
    }

    fn env(&self, more: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut env = base_env();
        env.extend(self.prepared.env.clone());
        env.extend(more.clone());
        env
    }

    fn runtime(&self, language: &str) -> &Runtime {
        self.runtimes.iter().find(|runtime| runtime.id == language).unwrap()
    }

    /// Whether a path exists inside, seen from outside.
    fn exists(&self, path: &str) -> bool {
        let path = Path::new(path);
        let mounted = self
            .prepared
            .mounts
            .iter()
            .find_map(|(from, to)| path.strip_prefix(to).ok().map(|rest| from.join(rest)));
        mounted
            .or_else(|| (!path.starts_with("/opt")).then(|| path.to_owned()))
            .is_some_and(|file| file.exists())
    }
}
