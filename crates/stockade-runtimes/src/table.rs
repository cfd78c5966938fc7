//! The table of runtimes: the built-in entries, then those of the config file.
//!
//! A language is one entry. Nothing here looks at the machine: whether a tool
//! exists is known only inside the sandbox.

use std::collections::BTreeMap;

use serde::Deserialize;
use stockade_core::runtime::Runtime;

const BUILTIN: &str = include_str!("builtin.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    runtimes: Vec<Runtime>,
}

/// The built-in runtimes with `extra` merged in: an entry with a known id
/// replaces that one, a new one is added at the end. Fails with every problem
/// at once.
pub fn table(extra: Vec<Runtime>) -> Result<Vec<Runtime>, Vec<String>> {
    let mut problems = doubled(&extra);
    let mut runtimes = builtin().map_err(|problem| vec![problem])?;
    for entry in extra {
        match runtimes.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => *known = entry,
            None => runtimes.push(entry),
        }
    }
    problems.extend(runtimes.iter().flat_map(faults));
    problems.extend(clashes(&runtimes));
    if problems.is_empty() { Ok(runtimes) } else { Err(problems) }
}

fn builtin() -> Result<Vec<Runtime>, String> {
    toml::from_str::<File>(BUILTIN)
        .map(|file| file.runtimes)
        .map_err(|error| format!("the built-in table of runtimes is broken: {error}"))
}

fn doubled(extra: &[Runtime]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    for entry in extra {
        *seen.entry(entry.id.as_str()).or_insert(0) += 1;
    }
    seen.retain(|_, times| *times > 1);
    seen.keys().map(|id| format!("runtimes: `{id}` is there twice; keep one entry")).collect()
}

/// A name that two runtimes answer to would make the choice a matter of luck.
fn clashes(runtimes: &[Runtime]) -> Vec<String> {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for runtime in runtimes {
        let id = runtime.id.as_str();
        for name in std::iter::once(id).chain(runtime.aliases.iter().map(String::as_str)) {
            match owners.insert(name, id) {
                Some(other) if other != id => problems.push(format!(
                    "runtimes: `{name}` names both `{other}` and `{id}`; take it out of one of them"
                )),
                _ => {}
            }
        }
    }
    problems
}

fn faults(runtime: &Runtime) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |field: &str, reason: &str| {
        faults.push(format!("runtimes.{}.{field}: {reason}", runtime.id));
    };
    let names = std::iter::once(&runtime.id).chain(&runtime.aliases);
    if names.into_iter().any(|name| name.is_empty() || name.contains(char::is_whitespace)) {
        fault("id", "ids and aliases must be words without spaces");
    }
    if !is_plain(&runtime.extension) {
        fault("extension", "must be letters and digits, without the dot");
    }
    if runtime.tools.is_empty() || runtime.tools.iter().any(String::is_empty) {
        fault("tools", "must name at least one program");
    }
    if runtime.run.is_empty() {
        fault("run", "must be a command, for example [\"{tool}\", \"{program}\", \"{args}\"]");
    }
    for (field, command) in [("run", &runtime.run), ("build", &runtime.build)] {
        for part in command {
            if let Some(reason) = placeholder_fault(part) {
                fault(field, &reason);
            }
        }
    }
    if !runtime.run.iter().chain(&runtime.build).any(|part| names_program(part)) {
        fault("run", "never mentions {program}; add it where the program file goes");
    }
    faults
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn names_program(part: &str) -> bool {
    part.contains("{program}")
}

fn placeholder_fault(part: &str) -> Option<String> {
    if part.contains("{args}") && part != "{args}" {
        return Some(format!(
            "`{part}`: {{args}} must stand alone, it becomes any number of words"
        ));
    }
    let mut rest = part;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        if is_word && !["tool", "program", "dir", "args"].contains(&name) {
            return Some(format!(
                "`{{{name}}}` is unknown; use {{tool}}, {{program}}, {{dir}} or {{args}}"
            ));
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<Runtime> {
        toml::from_str::<File>(text).expect("the test's own table parses").runtimes
    }

    #[track_caller]
    fn check(extra: &str, expected: &[&str]) {
        let problems = table(entries(extra)).err().unwrap_or_default();
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{problem:?} should contain {part:?}");
        }
    }

    fn entry(id: &str, rest: &str) -> String {
        format!(
            "[[runtimes]]\nid = \"{id}\"\nextension = \"x\"\ntools = [\"x\"]\nrun = [\"{{tool}}\", \"{{program}}\"]\n{rest}\n"
        )
    }

    #[test]
    fn the_built_in_table_holds_best_known_first() {
        let ids: Vec<_> = table(Vec::new()).unwrap().into_iter().map(|entry| entry.id).collect();
        let expected = "python typescript javascript shell go c cpp rust java ruby perl php r";
        assert_eq!(ids.join(" "), expected);
    }

    #[test]
    fn every_alias_finds_its_runtime() {
        let runtimes = table(Vec::new()).unwrap();
        for (alias, id) in [
            ("py", "python"),
            ("python3", "python"),
            ("ts", "typescript"),
            ("tsx", "typescript"),
            ("js", "javascript"),
            ("node", "javascript"),
            ("nodejs", "javascript"),
            ("mjs", "javascript"),
            ("jsx", "javascript"),
            ("bash", "shell"),
            ("sh", "shell"),
            ("golang", "go"),
            ("c++", "cpp"),
            ("rs", "rust"),
            ("rb", "ruby"),
            ("pl", "perl"),
            ("Rscript", "r"),
        ] {
            let found =
                runtimes.iter().find(|entry| entry.aliases.iter().any(|name| name == alias));
            assert_eq!(found.map(|entry| entry.id.as_str()), Some(id), "{alias}");
        }
    }

    #[test]
    fn an_entry_with_a_known_id_takes_its_place() {
        let runtimes = table(entries(&entry("shell", "aliases = [\"zsh\"]"))).unwrap();
        assert_eq!(runtimes.len(), 13);
        assert_eq!(runtimes[3].id, "shell");
        assert_eq!(runtimes[3].aliases, ["zsh"]);
    }

    #[test]
    fn a_new_entry_comes_last() {
        let runtimes = table(entries(&entry("lua", ""))).unwrap();
        assert_eq!(runtimes.last().map(|entry| entry.id.as_str()), Some("lua"));
    }

    #[test]
    fn problems_are_named_all_at_once() {
        check(&entry("deno", "aliases = [\"ts\"]"), &["`ts` names both `typescript` and `deno`"]);
        check(&entry("py", ""), &["`py` names both `python` and `py`"]);
        check(&(entry("lua", "") + &entry("lua", "")), &["`lua` is there twice"]);
        check(&entry("a b", ""), &["without spaces"]);
        check(
            "[[runtimes]]\nid = \"lua\"\nextension = \".lua\"\ntools = []\nrun = [\"{tol}\", \"x{args}\"]",
            &[
                "lua.extension",
                "lua.tools",
                "`{tol}` is unknown",
                "must stand alone",
                "never mentions",
            ],
        );
        check(
            "[[runtimes]]\nid = \"lua\"\nextension = \"l\"\ntools = [\"x\"]\nrun = []",
            &["lua.run: must be a command", "never mentions"],
        );
        check(&entry("awk", "build = [\"sh\", \"-c\", \"awk '{ print $1 }' {}\"]"), &[]);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = toml::from_str::<File>(&entry("lua", "extention = \"x\"")).err().unwrap();
        assert!(error.to_string().contains("extention"), "{error}");
    }
}
