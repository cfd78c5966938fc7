//! Reads a range of lines out of a stream without ever holding more than an answer.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes of text in one answer.
const MOST: usize = 48 << 10;

/// A range of lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// The text; bytes that are not UTF-8 appear as U+FFFD.
    pub(super) text: String,
    /// Lines in `text`.
    pub(super) count: u64,
    /// Lines that were seen, with those before the range.
    pub(super) passed: u64,
    /// Whether nothing follows.
    pub(super) at_end: bool,
    /// Whether `text` ends within a line, since that line alone fills the answer.
    pub(super) cut_line: bool,
}

/// Reads `count` lines from line `first` on (1 is the first), fewer if they are long.
pub(super) async fn read_lines(
    mut reader: impl AsyncRead + Unpin,
    first: u64,
    count: u64,
) -> io::Result<Lines> {
    let mut range =
        Range { first, count, line: 1, kept: Vec::new(), line_start: 0, open: false, full: false };
    let mut buffer = vec![0; 64 << 10];
    let at_end = loop {
        let read = reader.read(&mut buffer).await?;
        if read == 0 {
            break true;
        }
        if !range.take(&buffer[..read]) {
            break false;
        }
    };
    Ok(range.finish(at_end))
}

struct Range {
    first: u64,
    count: u64,
    /// Number of the line that the next byte belongs to.
    line: u64,
    kept: Vec<u8>,
    /// Where in `kept` the present line begins.
    line_start: usize,
    /// Whether the line of the last byte has not ended.
    open: bool,
    /// Whether the answer is full.
    full: bool,
}

impl Range {
    /// Takes bytes; false when the range is complete and more follows.
    fn take(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if self.line >= self.first {
                if self.line - self.first == self.count || self.kept.len() == MOST {
                    self.full = true;
                    return false;
                }
                self.kept.push(byte);
            }
            self.open = byte != b'\n';
            if !self.open {
                self.line += 1;
                self.line_start = self.kept.len();
            }
        }
        true
    }

    fn finish(mut self, at_end: bool) -> Lines {
        let within_line = self.kept.len() > self.line_start;
        // A line that did not fit is left to the next answer, unless it is the only one.
        let cut_line = self.full && within_line && self.line_start == 0;
        if self.full && within_line && !cut_line {
            self.kept.truncate(self.line_start);
        }
        let ended = self.kept.iter().filter(|byte| **byte == b'\n').count() as u64;
        let unended = u64::from(!self.kept.is_empty() && !self.kept.ends_with(b"\n"));
        Lines {
            count: ended + unended,
            passed: self.line - 1 + u64::from(self.open),
            at_end,
            cut_line,
            text: String::from_utf8_lossy(&self.kept).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str, first: u64, count: u64) -> Lines {
        read_lines(text.as_bytes(), first, count).await.unwrap()
    }

    #[tokio::test]
    async fn ranges_are_exact() {
        for (text, first, count, expected, lines, at_end) in [
            ("a\nb\nc\n", 1, 9, "a\nb\nc\n", 3, true),
            ("a\nb\nc", 1, 9, "a\nb\nc", 3, true),
            ("a\nb\nc\n", 2, 1, "b\n", 1, false),
            ("a\nb\nc\n", 3, 1, "c\n", 1, true),
            ("a\nb\nc\n", 4, 1, "", 0, true),
            ("", 1, 1, "", 0, true),
            ("\n\n", 1, 1, "\n", 1, false),
        ] {
            let read = read(text, first, count).await;
            assert_eq!(
                (read.text.as_str(), read.count, read.at_end),
                (expected, lines, at_end),
                "{text:?}"
            );
            assert!(!read.cut_line);
        }
    }

    #[tokio::test]
    async fn lines_beyond_the_end_are_counted() {
        assert_eq!(read("a\nb\n", 9, 1).await.passed, 2);
        assert_eq!(read("a\nb", 9, 1).await.passed, 2);
        assert_eq!(read("", 9, 1).await.passed, 0);
    }

    #[tokio::test]
    async fn long_files_stop_at_a_line_end() {
        let text = "0123456789\n".repeat(10_000);
        let mut first = 1;
        let mut all = String::new();
        loop {
            let part = read(&text, first, 1_000_000).await;
            assert!(part.text.len() <= MOST && part.text.ends_with('\n'));
            all.push_str(&part.text);
            first += part.count;
            if part.at_end {
                break;
            }
        }
        assert!(all == text);
    }

    #[tokio::test]
    async fn a_line_longer_than_an_answer_is_cut() {
        let part = read(&"x".repeat(MOST * 3), 1, 10).await;
        assert_eq!((part.text.len(), part.count, part.cut_line), (MOST, 1, true));
        let part = read(&format!("a\n{}", "x".repeat(MOST * 3)), 1, 10).await;
        assert_eq!((part.text.as_str(), part.count, part.cut_line), ("a\n", 1, false));
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(read_lines(&b"a\xff\n"[..], 1, 1).await.unwrap().text, "a\u{fffd}\n");
    }
}
