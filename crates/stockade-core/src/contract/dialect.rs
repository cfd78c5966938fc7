//! How the behaviours that the suite needs are written where a backend runs.

use std::fmt;

/// Program and arguments.
pub type Argv = Vec<String>;

/// Writes behaviours as commands. Paths are relative to the workspace, which is
/// the working directory unless a case says otherwise.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// One line on each stream.
    fn print(&self, stdout: &str, stderr: &str) -> Argv;
    /// Exits with this code.
    fn exit(&self, code: u8) -> Argv;
    /// Ends itself with this signal.
    fn die(&self, signal: u8) -> Argv;
    /// Copies standard input to standard output, to its end.
    fn copy_stdin(&self) -> Argv;
    /// Writes each of the 256 byte values once, in order, to standard output.
    fn all_bytes(&self) -> Argv;
    /// Writes that many bytes of `012345678` and a line feed, over and over.
    fn flood(&self, bytes: u64) -> Argv;
    /// Does nothing for a while, then exits with 0.
    fn sleep(&self, milliseconds: u64) -> Argv;
    /// Starts a detached process (forked twice, in a session of its own, no open
    /// stream) that makes the file `marker` after a while, and exits with 0 at once.
    fn leave_child(&self, milliseconds: u64, marker: &str) -> Argv;
    /// The same, but never exits.
    fn wait_with_child(&self, milliseconds: u64, marker: &str) -> Argv;
    /// Prints the environment, one `NAME=value` per line.
    fn environment(&self) -> Argv;
    /// Prints the working directory.
    fn working_directory(&self) -> Argv;
    /// Prints a file.
    fn show(&self, path: &str) -> Argv;
    /// Adds a line to a file and prints the line.
    fn append(&self, path: &str, text: &str) -> Argv;
    /// Uses the processor without end.
    fn burn_cpu(&self) -> Argv;
    /// Takes and touches that much memory.
    fn use_memory(&self, mebibytes: u64) -> Argv;
    /// Starts that many processes that stay; fails when one cannot be started.
    fn start_processes(&self, count: u32) -> Argv;
}

/// For images with a POSIX shell and the usual small tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct PosixDialect;

fn sh(script: &str, args: &[&str]) -> Argv {
    let fixed = ["sh", "-c", script, "sh"];
    fixed.iter().chain(args).map(|word| (*word).to_owned()).collect()
}

const CHILD: &str =
    r#"(setsid sh -c 'sleep "$1"; : >"$2"' sh "$1" "$2" </dev/null >/dev/null 2>&1 &)"#;

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

impl Dialect for PosixDialect {
    fn print(&self, stdout: &str, stderr: &str) -> Argv {
        sh(r#"printf '%s\n' "$1"; printf '%s\n' "$2" >&2"#, &[stdout, stderr])
    }

    fn exit(&self, code: u8) -> Argv {
        sh(r#"exit "$1""#, &[&code.to_string()])
    }

    fn die(&self, signal: u8) -> Argv {
        sh(r#"kill -"$1" $$; sleep 10"#, &[&signal.to_string()])
    }

    fn copy_stdin(&self) -> Argv {
        vec!["cat".to_owned()]
    }

    fn all_bytes(&self) -> Argv {
        let octal: String = (0..=255).map(|byte| format!("\\{byte:03o}")).collect();
        sh(&format!("printf '{octal}'"), &[])
    }

    fn flood(&self, bytes: u64) -> Argv {
        sh(r#"yes 012345678 | head -c "$1""#, &[&bytes.to_string()])
    }

    fn sleep(&self, milliseconds: u64) -> Argv {
        vec!["sleep".to_owned(), seconds(milliseconds)]
    }

    fn leave_child(&self, milliseconds: u64, marker: &str) -> Argv {
        sh(CHILD, &[&seconds(milliseconds), marker])
    }

    fn wait_with_child(&self, milliseconds: u64, marker: &str) -> Argv {
        sh(&format!("{CHILD}; sleep 1000"), &[&seconds(milliseconds), marker])
    }

    fn environment(&self) -> Argv {
        vec!["env".to_owned()]
    }

    fn working_directory(&self) -> Argv {
        vec!["/bin/pwd".to_owned()]
    }

    fn show(&self, path: &str) -> Argv {
        vec!["cat".to_owned(), path.to_owned()]
    }

    fn append(&self, path: &str, text: &str) -> Argv {
        sh(r#"printf '%s\n' "$2" >>"$1"; printf '%s\n' "$2""#, &[path, text])
    }

    fn burn_cpu(&self) -> Argv {
        sh("while :; do :; done", &[])
    }

    fn use_memory(&self, mebibytes: u64) -> Argv {
        // What `tail` is to print last it has to hold.
        let script = r#"head -c "${1}M" /dev/zero | tail -c "${1}M" >/dev/null"#;
        sh(script, &[&mebibytes.to_string()])
    }

    fn start_processes(&self, count: u32) -> Argv {
        let script = r#"i=0; while [ $i -lt "$1" ]; do sleep 20 & i=$((i+1)); done; wait"#;
        sh(script, &[&count.to_string()])
    }
}
