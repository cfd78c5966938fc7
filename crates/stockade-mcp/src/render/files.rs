//! The files that a run made or changed, one line each, and their links.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rmcp::model::{ContentBlock, Resource};
use stockade_core::request::{Change, ChangedFile};

use super::text::{one_line, size};

/// Most files that are named; the rest is counted.
const MOST_LINES: usize = 50;
/// Most links as blocks of their own; the lines have them all.
const MOST_LINKS: usize = 20;

/// A changed file and where it can be fetched.
#[derive(Debug, Clone)]
pub(crate) struct LinkedFile {
    /// The file.
    pub(crate) file: ChangedFile,
    /// Its address, if it has one.
    pub(crate) link: Option<String>,
}

/// One line per file.
pub(crate) fn lines(files: &[LinkedFile], more: bool) -> Vec<String> {
    let mut lines: Vec<String> = files.iter().take(MOST_LINES).map(line).collect();
    match files.len().checked_sub(MOST_LINES) {
        Some(rest) if rest > 0 => {
            let more = if more { " at least" } else { "" };
            lines.push(format!("… and{more} {rest} more; see list_files"));
        }
        _ if more => lines.push("… and more; see list_files".to_owned()),
        _ => {}
    }
    lines
}

fn line(LinkedFile { file, link }: &LinkedFile) -> String {
    let path = one_line(&file.path);
    let link = link.as_ref().map(|link| format!(" · {link}")).unwrap_or_default();
    match file.change {
        Change::Created => format!("{path} · created · {}{link}", size(file.size)),
        Change::Modified => format!("{path} · modified · {}{link}", size(file.size)),
        Change::Deleted => format!("{path} · deleted"),
    }
}

/// A link block per file that is still there and has an address.
pub(crate) fn links(files: &[LinkedFile]) -> Vec<ContentBlock> {
    let there = files.iter().filter(|linked| linked.file.change != Change::Deleted);
    there.filter_map(link).take(MOST_LINKS).collect()
}

fn link(LinkedFile { file, link }: &LinkedFile) -> Option<ContentBlock> {
    let path = one_line(&file.path);
    let resource = Resource::new(link.clone()?, path)
        .with_mime_type(file.media_type.clone())
        .with_size(file.size);
    Some(ContentBlock::resource_link(resource))
}

/// The address of a file on this machine.
pub(crate) fn file_url(absolute: &Path) -> String {
    let mut url = "file://".to_owned();
    for &byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn changed(path: &str, change: Change, size: u64) -> LinkedFile {
        let link = Some(format!("http://127.0.0.1:8080/d/x/{path}"));
        let media_type = "text/csv".to_owned();
        LinkedFile { file: ChangedFile { path: path.to_owned(), change, size, media_type }, link }
    }

    #[test]
    fn each_file_has_a_line() {
        let mut files = vec![
            changed("a.csv", Change::Created, 1234),
            changed("b.csv", Change::Modified, 1),
            changed("gone.csv", Change::Deleted, 0),
        ];
        files[1].link = None;
        assert_eq!(
            lines(&files, true),
            [
                "a.csv · created · 1,234 bytes · http://127.0.0.1:8080/d/x/a.csv",
                "b.csv · modified · 1 byte",
                "gone.csv · deleted",
                "… and more; see list_files",
            ]
        );
        assert_eq!(links(&files).len(), 1);
    }

    #[test]
    fn many_files_are_counted() {
        let files: Vec<_> = (0..60).map(|n| changed(&format!("{n}"), Change::Created, 0)).collect();
        assert_eq!(lines(&files, false).last().unwrap(), "… and 10 more; see list_files");
        assert_eq!(lines(&files, true).last().unwrap(), "… and at least 10 more; see list_files");
        assert_eq!(links(&files).len(), MOST_LINKS);
    }

    #[test]
    fn names_cannot_break_the_line() {
        let files = [changed("a\nstdout:\u{1b}[2J", Change::Deleted, 0)];
        assert_eq!(lines(&files, false), ["a\\nstdout:\\u{1b}[2J · deleted"]);
    }

    #[test]
    fn file_urls_are_encoded() {
        assert_eq!(file_url(Path::new("/w/a b#ü.png")), "file:///w/a%20b%23%C3%BC.png");
    }
}
