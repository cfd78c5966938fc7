//! What a failed system call on a file means for the caller.

use std::path::Path;

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::path::RelPath;

/// Turns an error of the kernel into one that names the next step.
pub(crate) fn fault(doing: &'static str, path: impl AsRef<Path>, errno: Errno) -> Error {
    let name = || shown(path.as_ref());
    match errno {
        Errno::NOENT => Error::not_found("file", name()),
        Errno::LOOP | Errno::XDEV => Error::invalid(
            "path",
            format!(
                "`{}` goes through a link; links are never followed, name the real file",
                name()
            ),
        ),
        Errno::NOTDIR => Error::invalid(
            "path",
            format!("`{}` has something that is not a directory where one is needed", name()),
        ),
        Errno::ISDIR => Error::invalid("path", "is a directory; name a file in it"),
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => {
            Error::invalid("path", "is not a regular file; pipes and devices are not read")
        }
        Errno::NAMETOOLONG => Error::invalid("path", "is longer than the file system allows"),
        Errno::EXIST => Error::conflict("file", "there already; choose another name or overwrite"),
        Errno::NOTEMPTY => Error::conflict("directory", "not empty; remove what is in it first"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Error::denied(format!(
            "{doing} `{}`: the permissions of the workspace forbid it; change them with chmod inside",
            name()
        )),
        Errno::NOSPC | Errno::DQUOT => Error::Exhausted { what: "disk space", retry_after_s: 60 },
        other => Error::backend("files", doing, std::io::Error::from(other)),
    }
}

/// The same for failures that the standard library reports.
pub(super) fn io_fault(doing: &'static str, path: &RelPath, error: std::io::Error) -> Error {
    match Errno::from_io_error(&error) {
        Some(errno) => fault(doing, path.as_path(), errno),
        None => Error::backend("files", doing, error),
    }
}

fn shown(path: &Path) -> String {
    RelPath::parse_dir(path).map_or_else(|_| path.display().to_string(), |path| path.to_text())
}

/// Names that begin with ours are not for callers to write.
pub(super) fn not_ours(path: &RelPath) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let ours = |name: &std::ffi::OsStr| name.as_bytes().starts_with(super::OURS.as_bytes());
    if path.as_path().iter().any(ours) {
        return Err(Error::invalid(
            "path",
            "begins a name with `.stockade-`, which is kept for the server; choose another name",
        ));
    }
    Ok(())
}
