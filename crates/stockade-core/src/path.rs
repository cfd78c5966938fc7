//! A path that cannot leave its root.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

mod names;

/// Where a file sits in a workspace: relative, normal, never outside.
///
/// Names are bytes. Links are not resolved here; the file layer refuses to
/// follow them when it opens the path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(PathBuf);

/// Where a workspace appears inside a sandbox.
pub const WORKSPACE_DIR: &str = "/workspace";
/// Its second name, for programs written for older systems.
pub const WORKSPACE_ALIAS: &str = "/data";

impl RelPath {
    /// Takes a path that a caller sent. Absolute paths are accepted when they
    /// begin with `/workspace` or `/data`, since that is how programs inside see them.
    pub fn parse(raw: impl AsRef<OsStr>) -> Result<Self> {
        let path = Self::parse_dir(raw)?;
        if path.0.as_os_str().is_empty() {
            return Err(Error::invalid("path", "names the workspace itself; name a file in it"));
        }
        Ok(path)
    }

    /// Like `parse`, but the workspace itself is allowed (as an empty path).
    pub fn parse_dir(raw: impl AsRef<OsStr>) -> Result<Self> {
        let raw = raw.as_ref();
        if raw.as_bytes().contains(&0) {
            return Err(Error::invalid("path", "must not contain a NUL byte"));
        }
        if raw.len() > 4096 {
            return Err(Error::invalid("path", "must be at most 4096 bytes long"));
        }
        let mut path = Path::new(raw);
        for root in [WORKSPACE_DIR, WORKSPACE_ALIAS] {
            path = path.strip_prefix(root).unwrap_or(path);
        }
        let mut normal = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(name) if name.len() > 255 => {
                    return Err(Error::invalid("path", "has a name of more than 255 bytes"));
                }
                Component::Normal(name) => normal.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(Error::invalid(
                        "path",
                        "must stay inside the workspace: relative, or below /workspace, without `..`",
                    ));
                }
            }
        }
        Ok(Self(normal))
    }

    /// Takes the text form of a path, as `to_text` writes it.
    pub fn from_text(text: &str) -> Result<Self> {
        Self::parse(OsStr::from_bytes(&names::decode(text)))
    }

    /// Like `from_text`, but the workspace itself is allowed (as an empty path).
    pub fn dir_from_text(text: &str) -> Result<Self> {
        Self::parse_dir(OsStr::from_bytes(&names::decode(text)))
    }

    /// The path as text that `from_text` takes back, whatever bytes its names have.
    pub fn to_text(&self) -> String {
        names::encode(self.0.as_os_str().as_bytes())
    }

    /// The last name; `None` for the workspace itself.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// The directory that holds it.
    pub fn parent(&self) -> Self {
        Self(self.0.parent().map(Path::to_path_buf).unwrap_or_default())
    }

    /// The workspace itself.
    pub fn root() -> Self {
        Self(PathBuf::new())
    }

    /// The path, relative to the workspace.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// A name below this directory.
    pub fn join(&self, name: &OsStr) -> Result<Self> {
        Self::parse(self.0.join(name))
    }

    /// The text of the path; bytes that are not UTF-8 appear as U+FFFD.
    pub fn display(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: Option<&str>) {
        let parsed = RelPath::parse(raw).ok();
        assert_eq!(parsed.as_ref().and_then(|path| path.as_path().to_str()), expected, "{raw:?}");
    }

    #[test]
    fn rel_path_stays_inside() {
        check("a//b.txt", Some("a/b.txt"));
        check("./a/./b", Some("a/b"));
        check("/workspace/a", Some("a"));
        check("/data/a", Some("a"));
        check("/workspace", None);
        check("/workspacex/a", None);
        check("a/../b", None);
        check("..", None);
        check("/etc/passwd", None);
        check("", None);
        check("a\0b", None);
        check(&"x".repeat(255), Some(&"x".repeat(255)));
        check(&"x".repeat(256), None);
    }
}
