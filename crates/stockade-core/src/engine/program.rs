//! From a table entry and a caller's code to one command.
//!
//! Placeholders are replaced once, in the words of the table only: what a caller
//! sends is never looked at for placeholders and never becomes shell text.

use std::path::PathBuf;

use crate::host_dir::OURS;
use crate::id::RunId;
use crate::path::{RelPath, WORKSPACE_DIR};
use crate::request::CommandLine;
use crate::runtime::{Place, Runtime};
use crate::spec::ProgramFile;

/// What a run does.
#[derive(Debug, Clone, Hash)]
pub(crate) enum Work {
    /// Code in a language.
    Code(Code),
    /// A command.
    Command(CommandLine),
}

/// Code in a language.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Code {
    /// Index into the table of runtimes.
    pub(crate) runtime: usize,
    pub(crate) code: String,
    pub(crate) args: Vec<String>,
    pub(crate) echo: bool,
}

/// A program that is ready to be started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) argv: Vec<String>,
    /// For the agent to write, outside the workspace.
    pub(crate) file: Option<ProgramFile>,
    /// The hidden name to write the code to, in the working directory.
    pub(crate) hidden: Option<String>,
}

/// Bash where there is one, otherwise sh.
const SHELL: &str =
    r#"if command -v bash >/dev/null; then exec bash -c "$1"; else exec sh -c "$1"; fi"#;

/// The command line as the agent starts it.
pub(crate) fn of_command(command: &CommandLine) -> Prepared {
    let argv = match command {
        CommandLine::Argv(argv) => argv.clone(),
        CommandLine::Shell(text) => {
            ["/bin/sh", "-c", SHELL, "sh", text].map(ToOwned::to_owned).to_vec()
        }
    };
    Prepared { argv, file: None, hidden: None }
}

/// The code as the agent starts it, with this tool, for this run.
pub(crate) fn of_code(
    code: &Code,
    runtime: &Runtime,
    tool: &str,
    run: &RunId,
    workdir: &RelPath,
) -> Prepared {
    let (dir, name) = match runtime.place {
        Place::Private => (format!("/tmp/run/{run}"), format!("main.{}", runtime.extension)),
        Place::Workspace => {
            (inside(workdir).display().to_string(), format!("{OURS}{run}.{}", runtime.extension))
        }
    };
    let program = format!("{dir}/{name}");
    let fill = |words: &[String]| -> Vec<String> {
        let mut argv = Vec::new();
        for word in words {
            match word.as_str() {
                "{args}" => argv.extend(code.args.iter().cloned()),
                _ => argv.push(fill_word(word, &program, &dir, tool)),
            }
        }
        argv
    };
    let argv = match runtime.build.as_slice() {
        [] => fill(&runtime.run),
        build => build_then_run(fill(build), fill(&runtime.run)),
    };
    let file =
        ProgramFile { path: PathBuf::from(&program), content: code.code.clone().into_bytes() };
    match runtime.place {
        Place::Private => Prepared { argv, file: Some(file), hidden: None },
        Place::Workspace => Prepared { argv, file: None, hidden: Some(name) },
    }
}

/// How a directory of the workspace is called inside.
pub(crate) fn inside(workdir: &RelPath) -> PathBuf {
    // Part by part: joining an empty path would leave a slash at the end.
    let mut path = PathBuf::from(WORKSPACE_DIR);
    path.extend(workdir.as_path());
    path
}

fn fill_word(word: &str, program: &str, dir: &str, tool: &str) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [("{program}", program), ("{dir}", dir), ("{tool}", tool)];
        match known.iter().find(|(mark, _)| rest.starts_with(mark)) {
            Some((mark, value)) => {
                filled.push_str(value);
                rest = &rest[mark.len()..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled + rest
}

/// One command that builds and then becomes the program. The script holds only
/// numbers; all words are positional arguments. What the build prints goes to
/// standard error, and it reads nothing.
fn build_then_run(build: Vec<String>, run: Vec<String>) -> Vec<String> {
    let count = build.len();
    let words: Vec<String> = (1..=count).map(|at| format!("\"${{{at}}}\"")).collect();
    let script =
        format!(r#"{} </dev/null >&2 || exit $?; shift {count}; exec "$@""#, words.join(" "));
    let shell = ["/bin/sh", "-c", &script, "sh"].map(ToOwned::to_owned);
    shell.into_iter().chain(build).chain(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(place: Place, run: &[&str], build: &[&str]) -> Runtime {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Runtime {
            id: "x".into(),
            aliases: Vec::new(),
            extension: "x".into(),
            run: words(run),
            build: words(build),
            tools: Vec::new(),
            version_args: Vec::new(),
            env: Default::default(),
            place,
            min_memory_mb: 0,
            notes: String::new(),
        }
    }

    fn prepare(runtime: &Runtime, args: &[&str]) -> (Prepared, RunId) {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let code = Code { runtime: 0, code: "code".into(), args, echo: false };
        let id = RunId::random();
        let workdir = RelPath::parse("sub").unwrap();
        (of_code(&code, runtime, "/bin/tool", &id, &workdir), id)
    }

    #[test]
    fn private_programs_are_files_for_the_agent() {
        let (prepared, id) = prepare(
            &runtime(Place::Private, &["{tool}", "-o{dir}/a", "{program}", "{args}"], &[]),
            &["{program}", "b c"],
        );
        let dir = format!("/tmp/run/{id}");
        let out = format!("-o{dir}/a");
        let program = format!("{dir}/main.x");
        assert_eq!(prepared.argv, ["/bin/tool", &out, &program, "{program}", "b c"]);
        assert_eq!(prepared.file.unwrap().path, PathBuf::from(program));
        assert_eq!(prepared.hidden, None);
    }

    #[test]
    fn workspace_programs_are_hidden_files_in_the_working_directory() {
        let (prepared, id) =
            prepare(&runtime(Place::Workspace, &["{tool}", "{program}"], &[]), &[]);
        let name = format!(".stockade-{id}.x");
        assert_eq!(prepared.argv, ["/bin/tool".to_owned(), format!("/workspace/sub/{name}")]);
        assert_eq!((prepared.file, prepared.hidden), (None, Some(name)));
    }

    #[test]
    fn a_build_is_part_of_the_run_and_never_shell_text() {
        let table = runtime(Place::Private, &["{dir}/a", "{args}"], &["{tool}", "{program}"]);
        let (prepared, id) = prepare(&table, &["$(reboot)"]);
        let script = r#""${1}" "${2}" </dev/null >&2 || exit $?; shift 2; exec "$@""#;
        let (program, built) = (format!("/tmp/run/{id}/main.x"), format!("/tmp/run/{id}/a"));
        let expected = ["/bin/sh", "-c", script, "sh", "/bin/tool", &program, &built, "$(reboot)"];
        assert_eq!(prepared.argv, expected);
    }

    #[test]
    fn braces_that_are_no_placeholder_stay() {
        assert_eq!(fill_word("a{b}{tool}{", "p", "d", "t"), "a{b}t{");
    }
}
