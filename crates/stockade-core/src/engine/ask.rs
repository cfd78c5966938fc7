//! Takes a caller's request apart, once: inside, everything is known to be right.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::program::{Code, Work};
use super::runs::{Key, Runs};
use super::types::Settings;
use crate::error::{Error, Result};
use crate::path::RelPath;
use crate::request::{CommandLine, NetworkRequest, RunCode, RunOptions, StdinRequest, Wait};
use crate::runtime::Runtime;

/// Largest program and largest text for standard input.
const TEXT_LIMIT: usize = 16 << 20;
/// Arguments and environment together, as the kernel limits them.
const WORDS_LIMIT: usize = 1 << 20;
/// One argument or environment entry, as the kernel limits it.
const WORD_LIMIT: usize = 128 << 10;
/// Longest a caller may wait in one call.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Environment that makes a runtime echo the last value.
const ECHO: &str = "STOCKADE_ECHO";

/// What was asked, known to be well formed.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) work: Work,
    pub(crate) workdir: RelPath,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) wait: Option<Duration>,
    pub(crate) key: Option<Key>,
    pub(crate) options: RunOptions,
}

/// Checks a request for code.
pub(crate) fn code(settings: &Settings, runs: &Runs, request: RunCode) -> Result<Ask> {
    let RunCode { code, language, options, packages, args, echo } = request;
    if code.trim().is_empty() {
        return Err(Error::invalid("code", "is empty; send a program"));
    }
    text("code", &code)?;
    let index = runtime(settings, &language)?;
    let runtime = &settings.runtimes[index];
    packages_ready(settings, runtime, &packages)?;
    words("args", &args)?;
    let mut env = settings.base_env.clone();
    env.extend(runtime.env.clone());
    if echo {
        env.insert(ECHO.to_owned(), "1".to_owned());
    }
    let work = Work::Code(Code { runtime: index, code, args, echo });
    finish(settings, runs, work, env, options)
}

/// Checks a request for a command.
pub(crate) fn command(
    settings: &Settings,
    runs: &Runs,
    command: CommandLine,
    options: RunOptions,
) -> Result<Ask> {
    match &command {
        CommandLine::Shell(line) if line.trim().is_empty() => {
            return Err(Error::invalid("command", "is empty; send a command"));
        }
        CommandLine::Shell(line) => words("command", std::slice::from_ref(line))?,
        CommandLine::Argv(argv) if argv.first().is_none_or(String::is_empty) => {
            return Err(Error::invalid("argv", "names no program; send at least its name"));
        }
        CommandLine::Argv(argv) => words("argv", argv)?,
    }
    finish(settings, runs, Work::Command(command), settings.base_env.clone(), options)
}

fn finish(
    settings: &Settings,
    runs: &Runs,
    work: Work,
    mut env: BTreeMap<String, String>,
    options: RunOptions,
) -> Result<Ask> {
    environment(settings, &options.env)?;
    env.extend(options.env.clone());
    env.extend(settings.fixed_env.clone());
    let workdir = match options.workdir.as_deref() {
        None => RelPath::root(),
        Some(raw) => RelPath::dir_from_text(raw).map_err(|error| in_field(error, "workdir"))?,
    };
    if let Some(StdinRequest::Text(input)) = &options.stdin
        && input.len() > TEXT_LIMIT
    {
        return Err(Error::invalid("stdin", "is longer than 16 MiB; upload a file instead"));
    }
    let wait = wait(settings, options.wait)?;
    let key = key(runs, &work, &options)?;
    Ok(Ask { work, workdir, env, wait, key, options })
}

/// How long a call waits; `None` is to the end.
pub(crate) fn wait(settings: &Settings, wait: Wait) -> Result<Option<Duration>> {
    match wait {
        Wait::Default => Ok(Some(settings.answer_within)),
        Wait::Background => Ok(Some(Duration::ZERO)),
        Wait::Forever => Ok(None),
        Wait::Seconds(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(wait) if wait <= LONGEST_WAIT => Ok(Some(wait)),
            _ => Err(Error::invalid("wait_s", format!("{seconds} is outside 0 to 3600 s"))),
        },
    }
}

fn key(runs: &Runs, work: &Work, options: &RunOptions) -> Result<Option<Key>> {
    let Some(key) = options.idempotency_key.clone() else { return Ok(None) };
    if !(1..=256).contains(&key.len()) || key.contains('\0') {
        return Err(Error::invalid("idempotency_key", "must be 1 to 256 bytes without NUL"));
    }
    // How long the caller waits is not part of what it asks for.
    let same = RunOptions { wait: Wait::Default, idempotency_key: None, ..options.clone() };
    let fingerprint = runs.fingerprint(&(work, format!("{same:?}")));
    Ok(Some(Key { key, fingerprint }))
}

/// The table entry that a caller means.
pub(crate) fn runtime(settings: &Settings, language: &str) -> Result<usize> {
    let wanted = language.trim().to_lowercase();
    let is = |runtime: &Runtime| runtime.id == wanted || runtime.aliases.contains(&wanted);
    if let Some(index) = settings.runtimes.iter().position(is) {
        return Ok(index);
    }
    let known: Vec<&str> = settings.runtimes.iter().map(|runtime| runtime.id.as_str()).collect();
    let names = settings.runtimes.iter().flat_map(|runtime| {
        runtime.aliases.iter().chain([&runtime.id]).map(move |name| (name, runtime))
    });
    let near = names
        .map(|(name, runtime)| (strsim::jaro_winkler(&wanted, name), runtime))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, runtime)| format!("did you mean `{}`? ", runtime.id));
    let shown: String = wanted.chars().take(40).collect();
    Err(Error::invalid(
        "language",
        format!(
            "`{shown}` is not known; {}known are {}",
            near.unwrap_or_default(),
            known.join(", ")
        ),
    ))
}

fn packages_ready(settings: &Settings, runtime: &Runtime, packages: &[String]) -> Result<()> {
    let ready = settings.packages.get(&runtime.id).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = ready.iter().map(|line| package_name(line)).collect();
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let missing: Vec<&str> = packages
        .iter()
        .filter(|package| !known.contains(package_name(package).as_str()))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unsupported {
        feature: "installing packages during a run",
        hint: format!(
            "not ready for {}: {}; ready are: {}. Do without, or ask the operator to add it to the package set",
            runtime.id,
            missing.join(", "),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ),
    })
}

/// The bare name in one spelling: `Foo_Bar[extra]>=1.2` is `foo-bar`.
fn package_name(spec: &str) -> String {
    let spec = spec.trim();
    let scope = usize::from(spec.starts_with('@'));
    let end = spec[scope..].find(|c: char| " \t[<>=!~;@^,(".contains(c));
    let name = end.map_or(spec, |end| &spec[..scope + end]);
    name.to_lowercase().replace(['_', '.'], "-")
}

fn environment(settings: &Settings, env: &BTreeMap<String, String>) -> Result<()> {
    for name in env.keys() {
        let mut letters = name.chars();
        let good = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !good {
            let shown: String = name.escape_debug().take(40).collect();
            return Err(Error::invalid(
                "env",
                format!("`{shown}` is no name; use letters, digits and _, not a digit first"),
            ));
        }
        if settings.fixed_env.contains_key(name) {
            return Err(Error::invalid(
                "env",
                format!("`{name}` is set by the operator; leave it out"),
            ));
        }
    }
    let values: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words("env", &values)
}

fn words(field: &'static str, words: &[String]) -> Result<()> {
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Error::invalid(field, "must not contain a NUL character"));
    }
    if words.iter().any(|word| word.len() >= WORD_LIMIT) {
        return Err(Error::invalid(
            field,
            "has an entry of 128 KiB or more; write it to a file instead",
        ));
    }
    if words.iter().map(String::len).sum::<usize>() > WORDS_LIMIT {
        return Err(Error::invalid(
            field,
            "is longer than 1 MiB in all; write it to a file instead",
        ));
    }
    Ok(())
}

fn text(field: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(field, "must not contain a NUL character"));
    }
    if text.len() > TEXT_LIMIT {
        return Err(Error::invalid(field, "is longer than 16 MiB; upload data as files instead"));
    }
    Ok(())
}

/// The network, if the operator lets callers have it.
pub(crate) fn network(settings: &Settings, asked: NetworkRequest) -> Result<NetworkRequest> {
    if asked == NetworkRequest::None || settings.networks.contains(&asked) {
        super::sandboxes::network_of(asked)?;
        return Ok(asked);
    }
    let name = format!("{asked:?}").to_lowercase();
    Err(Error::denied(format!(
        "network `{name}`; leave `network` out, or let the operator add \"{name}\" to `[policy] networks`"
    )))
}

/// The same complaint under the name the caller used.
pub(crate) fn in_field(error: Error, field: &'static str) -> Error {
    match error {
        Error::Invalid { reason, .. } => Error::Invalid { field, reason },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_one_name() {
        for (spec, name) in [
            ("Foo_Bar[extra]>=1.2", "foo-bar"),
            ("numpy 2.1.0", "numpy"),
            ("ruamel.yaml==1", "ruamel-yaml"),
            ("left-pad@1.2.3", "left-pad"),
            ("@types/node@22", "@types/node"),
            ("  pandas  ", "pandas"),
        ] {
            assert_eq!(package_name(spec), name, "{spec}");
        }
    }
}
