//! Runtimes: how one language runs. Data, not code.
//!
//! A runtime is one table entry: built in, or from the config file. Nothing
//! here starts a process; the engine turns an entry into a `Command`.

use serde::Deserialize;

/// How one language runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// The canonical name: `python`.
    pub id: String,
    /// Other names that callers use: `py`, `python3`.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Extension of the program file, without the dot.
    pub extension: String,
    /// The command. `{program}` stands for the program file, `{dir}` for its
    /// directory, `{args}` (alone) for the caller's arguments.
    pub run: Vec<String>,
    /// A command that runs before, in the same run; its failure is the run's failure.
    #[serde(default)]
    pub build: Vec<String>,
    /// Programs of which the first that exists inside the image is used for
    /// `{tool}`. Absolute, or looked up in the sandbox's `PATH`.
    pub tools: Vec<String>,
    /// Arguments that make the tool print its version.
    #[serde(default = "version_flag")]
    pub version_args: Vec<String>,
    /// Environment of this runtime; overrides the sandbox's, is overridden by the caller's.
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, String>,
    /// Where the program file goes.
    #[serde(default)]
    pub place: Place,
    /// Smallest memory limit in MiB with which the runtime starts at all.
    #[serde(default)]
    pub min_memory_mb: u64,
    /// One line for people and models: what is special about it here.
    #[serde(default)]
    pub notes: String,
}

/// Where the program file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A private directory outside the workspace.
    #[default]
    Private,
    /// The working directory, under a hidden unique name, removed afterwards:
    /// for languages whose relative imports start at the program file.
    Workspace,
}

fn version_flag() -> Vec<String> {
    vec!["--version".to_owned()]
}
