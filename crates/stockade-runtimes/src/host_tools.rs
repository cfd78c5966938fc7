//! Toolchains that live outside `/usr`.
//!
//! Only directories that look like a toolchain are ever mounted: a manager that
//! points at a home directory gets nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::clients::{Call, find};

/// A tool that people install below their home directory.
struct Tool {
    program: &'static str,
    /// Makes the tool, or the manager's stand-in for it, print its own directory
    /// or its own file in `<root>/bin`. Empty where the file itself is enough.
    ask: &'static [&'static str],
    inside: &'static str,
    /// What a root of this toolchain always holds.
    holds: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "rustc",
        ask: &["--print", "sysroot"],
        inside: "/opt/stockade/rust",
        holds: &["bin/rustc", "lib/rustlib"],
    },
    Tool {
        program: "go",
        ask: &["env", "GOROOT"],
        inside: "/opt/stockade/go",
        holds: &["bin/go", "src/fmt", "pkg/tool"],
    },
    Tool {
        program: "node",
        ask: &["-p", "process.execPath"],
        inside: "/opt/stockade/node",
        holds: &["bin/node", "lib/node_modules"],
    },
    Tool {
        program: "java",
        ask: &[],
        inside: "/opt/stockade/java",
        holds: &["bin/java", "lib/modules"],
    },
    Tool {
        program: "ruby",
        ask: &["-rrbconfig", "-e", "print RbConfig.ruby"],
        inside: "/opt/stockade/ruby",
        holds: &["bin/ruby", "lib/ruby"],
    },
];

/// Links that are followed until a program is found.
const MOST_LINKS: usize = 16;

/// Toolchain directories -> where they appear inside.
pub(crate) fn toolchains() -> BTreeMap<PathBuf, PathBuf> {
    TOOLS.iter().filter_map(|tool| Some((root_of(tool)?, PathBuf::from(tool.inside)))).collect()
}

fn root_of(tool: &Tool) -> Option<PathBuf> {
    let file = find(tool.program)?;
    let real = resolve(file.clone());
    if real.starts_with("/usr") {
        return None;
    }
    let named = match tool.ask {
        [] => real,
        // By the name it was found under: a manager tells its tools apart by it.
        ask => PathBuf::from(Call::new(file).args(ask).run().ok()?.trim()),
    };
    let root = toolchain_root(&named)?;
    let is_outside = !root.starts_with("/usr");
    (is_outside && tool.holds.iter().all(|part| root.join(part).exists())).then_some(root)
}

fn resolve(mut file: PathBuf) -> PathBuf {
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&file) {
            Ok(link) => file = file.parent().map(|dir| dir.join(&link)).unwrap_or(link),
            Err(_) => break,
        }
    }
    file
}

/// The directory itself, or the one above `bin` when a program was named.
fn toolchain_root(printed: &Path) -> Option<PathBuf> {
    if !printed.is_absolute() {
        return None;
    }
    if printed.is_dir() {
        return Some(printed.to_owned());
    }
    let bin = printed.parent()?;
    (bin.file_name() == Some(OsStr::new("bin"))).then(|| bin.parent().map(Path::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_never_relative_and_never_a_bare_file() {
        assert_eq!(toolchain_root(Path::new("go")), None);
        assert_eq!(toolchain_root(Path::new("")), None);
        assert_eq!(toolchain_root(Path::new("/opt/x/node")), None);
        assert_eq!(toolchain_root(Path::new("/opt/x/bin/node")), Some(PathBuf::from("/opt/x")));
        assert_eq!(toolchain_root(Path::new("/usr/bin")), Some(PathBuf::from("/usr/bin")));
    }
}
