//! How the contract's behaviours are written in the language of the fake.

use crate::contract::{Argv, Dialect};

/// The language of the fake.
#[derive(Debug, Clone, Copy, Default)]
pub struct FakeDialect;

fn argv<const N: usize>(words: [&str; N]) -> Argv {
    words.map(ToOwned::to_owned).to_vec()
}

fn script(text: &str) -> Argv {
    argv(["sh", text])
}

impl Dialect for FakeDialect {
    fn print(&self, stdout: &str, stderr: &str) -> Argv {
        script(&format!("echo {stdout}; err {stderr}"))
    }

    fn exit(&self, code: u8) -> Argv {
        argv(["exit", &code.to_string()])
    }

    fn die(&self, signal: u8) -> Argv {
        argv(["die-signal", &signal.to_string()])
    }

    fn copy_stdin(&self) -> Argv {
        argv(["cat"])
    }

    fn all_bytes(&self) -> Argv {
        argv(["bytes"])
    }

    fn flood(&self, bytes: u64) -> Argv {
        argv(["yes", &bytes.to_string()])
    }

    fn sleep(&self, milliseconds: u64) -> Argv {
        argv(["sleep", &milliseconds.to_string()])
    }

    fn leave_child(&self, milliseconds: u64, marker: &str) -> Argv {
        script(&format!("child {milliseconds} {marker}"))
    }

    fn wait_with_child(&self, milliseconds: u64, marker: &str) -> Argv {
        script(&format!("child {milliseconds} {marker}; hang"))
    }

    fn environment(&self) -> Argv {
        argv(["env"])
    }

    fn working_directory(&self) -> Argv {
        argv(["pwd"])
    }

    fn show(&self, path: &str) -> Argv {
        argv(["show", path])
    }

    fn append(&self, path: &str, text: &str) -> Argv {
        script(&format!("append {path} {text}; echo {text}"))
    }

    fn burn_cpu(&self) -> Argv {
        argv(["busy"])
    }

    fn use_memory(&self, mebibytes: u64) -> Argv {
        argv(["balloon", &mebibytes.to_string()])
    }

    fn start_processes(&self, count: u32) -> Argv {
        argv(["fork", &count.to_string()])
    }
}
