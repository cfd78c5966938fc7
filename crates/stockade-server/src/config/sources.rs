//! Where values come from: the table's defaults, the file, the environment, flags.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use toml::Value;

use super::Problem;
use super::table::{KEYS, Kind, key};

/// What the process was started with.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The file's path and text, when there is one.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables that begin with `STOCKADE_`.
    pub environment: BTreeMap<String, String>,
    /// Keys set by flags: name of the key, value, name of the flag.
    pub flags: Vec<(&'static str, String, &'static str)>,
    /// Processors of the machine.
    pub cores: u32,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The table.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone)]
pub(super) struct Sourced {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Values by the name of their key; the tables are under `image.mounts` and `runtime`.
pub(super) type Values = BTreeMap<String, Sourced>;

/// Short names for the variables that people set by hand most.
const SHORT: [(&str, &str); 4] = [
    ("STOCKADE_LISTEN", "server.listen"),
    ("STOCKADE_PUBLIC_BASE_URL", "server.public_base_url"),
    ("STOCKADE_LOG_FORMAT", "log.format"),
    ("STOCKADE_LOG_LEVEL", "log.level"),
];
/// Variables that are ours but are no keys.
const OTHER: [&str; 6] = [
    "STOCKADE_CONFIG",
    "STOCKADE_DATA_DIR",
    "STOCKADE_ADMIN_KEY",
    "STOCKADE_KEY",
    "STOCKADE_URL",
    "STOCKADE_TEST_HOST",
];
const TABLES: [&str; 2] = ["image.mounts", "runtime"];

pub(super) fn collect(inputs: &Inputs) -> (Values, Vec<Problem>) {
    let mut values = defaults();
    let mut problems = Vec::new();
    if let Some((path, text)) = &inputs.file {
        from_file(path, text, &mut values, &mut problems);
    }
    for (name, text) in &inputs.environment {
        from_variable(name, text, &mut values, &mut problems);
    }
    for (name, text, flag) in &inputs.flags {
        let origin = Origin::Flag(flag);
        put_text(name, text, origin, &mut values, &mut problems);
    }
    (values, problems)
}

fn defaults() -> Values {
    let value =
        |text: &str| toml::from_str::<toml::Table>(&format!("v = {text}")).ok()?.remove("v");
    KEYS.iter()
        .filter_map(|key| {
            let value = value(key.default)?;
            Some((key.name.to_owned(), Sourced { value, origin: Origin::Default }))
        })
        .collect()
}

fn from_file(path: &std::path::Path, text: &str, values: &mut Values, problems: &mut Vec<Problem>) {
    let origin = Origin::File(path.to_owned());
    let table: toml::Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => {
            let text = format!("is no TOML: {error}");
            problems.push(Problem { origin: origin.to_string(), text });
            return;
        }
    };
    for (name, value) in flatten("", Value::Table(table)) {
        if key(&name).is_none() && !TABLES.contains(&name.as_str()) {
            let origin = origin.to_string();
            problems.push(Problem { origin, text: unknown(&name, "key") });
            continue;
        }
        values.insert(name, Sourced { value, origin: origin.clone() });
    }
}

/// Leaves of a table, with their whole names. Known tables stay whole.
fn flatten(prefix: &str, value: Value) -> Vec<(String, Value)> {
    match value {
        Value::Table(table) if !TABLES.contains(&prefix) => table
            .into_iter()
            .flat_map(|(name, value)| {
                let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(&name, value)
            })
            .collect(),
        value => vec![(prefix.to_owned(), value)],
    }
}

fn from_variable(name: &str, text: &str, values: &mut Values, problems: &mut Vec<Problem>) {
    let short = SHORT.iter().find(|(variable, _)| *variable == name).map(|(_, key)| *key);
    let long = || KEYS.iter().find(|key| key.variable() == name).map(|key| key.name);
    let origin = Origin::Variable(name.to_owned());
    match short.or_else(long) {
        Some(key) => put_text(key, text, origin, values, problems),
        None if OTHER.contains(&name) => {}
        None => {
            problems.push(Problem { origin: origin.to_string(), text: unknown(name, "variable") });
        }
    }
}

/// Takes a value that is text because of where it came from.
fn put_text(
    name: &str,
    text: &str,
    origin: Origin,
    values: &mut Values,
    problems: &mut Vec<Problem>,
) {
    let Some(key) = key(name) else { return };
    let value = match key.kind {
        Kind::Text => Some(Value::String(text.to_owned())),
        Kind::List => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
        }
        Kind::Whole(..) => text.trim().parse().ok().map(Value::Integer),
        Kind::Decimal(..) => text.trim().parse().ok().map(Value::Float),
    };
    match value {
        Some(value) => {
            values.insert(name.to_owned(), Sourced { value, origin });
        }
        None => {
            let text = format!("{name} must be a number, not {text:?}");
            problems.push(Problem { origin: origin.to_string(), text });
        }
    }
}

fn unknown(name: &str, what: &str) -> String {
    let candidates: Vec<String> = match what {
        "variable" => {
            let long = KEYS.iter().map(super::Key::variable);
            long.chain(SHORT.iter().map(|(name, _)| (*name).to_owned())).collect()
        }
        _ => KEYS.iter().map(|key| key.name).chain(TABLES).map(str::to_owned).collect(),
    };
    let nearest = candidates
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, nearest)) => format!("unknown {what} `{name}`; the nearest is `{nearest}`"),
        None => format!("unknown {what} `{name}`"),
    }
}
