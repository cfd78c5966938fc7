//! Program output as a reader sees it: no escape sequences, no control
//! characters, progress bars as their last state.
//!
//! Output is hostile. Nothing here backtracks, and an escape sequence that is
//! never closed ends with its line, so that it cannot hide what follows.
//! Positions are kept: each byte that is shown knows where it was written.

/// Cleaned text that knows where each byte came from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cleaned {
    text: String,
    spans: Vec<Span>,
    raw_len: usize,
}

/// Shown bytes from `clean` on came from raw bytes from `raw` on, up to the next span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    clean: usize,
    raw: usize,
}

impl Cleaned {
    /// Cleans a text.
    pub(crate) fn new(raw: &str) -> Self {
        let mut cleaned = Self { raw_len: raw.len(), ..Self::default() };
        let mut line_start = 0;
        let mut returned = false;
        let mut at = 0;
        while let Some(c) = raw[at..].chars().next() {
            let len = c.len_utf8();
            let rest = &raw[at + len..];
            match c {
                '\n' => {
                    cleaned.push(c, at);
                    line_start = cleaned.text.len();
                    returned = false;
                }
                '\r' => returned = true,
                '\u{8}' => cleaned.erase_one(line_start),
                '\u{1b}' => at += escape_len(rest),
                '\u{9b}' => at += control_sequence_len(rest),
                '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => at += string_len(rest),
                _ if c.is_control() && c != '\t' => {}
                _ => {
                    // What follows a carriage return overwrites the line; one before
                    // the line's end is a part of that end.
                    if returned {
                        cleaned.truncate(line_start);
                        returned = false;
                    }
                    cleaned.push(c, at);
                }
            }
            at += len;
        }
        cleaned
    }

    /// What is shown.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Where in the raw text the shown byte at `clean` was written. Its end for the end.
    pub(crate) fn raw_at(&self, clean: usize) -> usize {
        if clean >= self.text.len() {
            return self.raw_len;
        }
        match self.spans.partition_point(|span| span.clean <= clean).checked_sub(1) {
            Some(at) => self.spans[at].raw + (clean - self.spans[at].clean),
            None => 0,
        }
    }

    fn push(&mut self, c: char, raw: usize) {
        let clean = self.text.len();
        let goes_on = self.spans.last().is_some_and(|last| last.raw + (clean - last.clean) == raw);
        if !goes_on {
            self.spans.push(Span { clean, raw });
        }
        self.text.push(c);
    }

    fn erase_one(&mut self, line_start: usize) {
        if let Some(last) = self.text[line_start..].chars().next_back() {
            self.truncate(self.text.len() - last.len_utf8());
        }
    }

    fn truncate(&mut self, clean: usize) {
        self.text.truncate(clean);
        while self.spans.last().is_some_and(|last| last.clean >= clean) {
            self.spans.pop();
        }
    }
}

/// Length of what follows an ESC.
fn escape_len(rest: &str) -> usize {
    let mut chars = rest.chars();
    match chars.next() {
        Some('[') => 1 + control_sequence_len(&rest[1..]),
        Some('P' | ']' | 'X' | '^' | '_') => 1 + string_len(&rest[1..]),
        // Intermediate bytes and a final one, as in `ESC ( B`.
        Some(' '..='/') => {
            let more = rest.bytes().take_while(|byte| (b' '..=b'/').contains(byte)).count();
            more + rest[more..]
                .bytes()
                .next()
                .map_or(0, |byte| usize::from(matches!(byte, b'0'..=b'~')))
        }
        Some('0'..='~') => 1,
        _ => 0,
    }
}

/// Length of a control sequence after its introducer: parameters and one final byte.
fn control_sequence_len(rest: &str) -> usize {
    let parameters = rest.bytes().take_while(|byte| (b' '..=b'?').contains(byte)).count();
    match rest.as_bytes().get(parameters) {
        Some(b'@'..=b'~') => parameters + 1,
        _ => parameters,
    }
}

/// Length of a string (a window title, a link) after its introducer, with its end.
fn string_len(rest: &str) -> usize {
    for (at, c) in rest.char_indices() {
        match c {
            '\u{7}' | '\u{9c}' => return at + c.len_utf8(),
            '\u{1b}' if rest[at..].starts_with("\u{1b}\\") => return at + 2,
            '\u{1b}' | '\n' => return at,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &str) {
        let cleaned = Cleaned::new(raw);
        assert_eq!(cleaned.text(), expected, "{raw:?}");
        for (at, c) in cleaned.text().char_indices() {
            let raw_at = cleaned.raw_at(at);
            assert_eq!(raw[raw_at..].chars().next(), Some(c), "{raw:?} at {at}");
        }
    }

    #[test]
    fn plain_text_is_untouched() {
        check("", "");
        check("a\n\tü\n", "a\n\tü\n");
    }

    #[test]
    fn escape_sequences_vanish() {
        check("\u{1b}[31mred\u{1b}[0m!", "red!");
        check("\u{1b}[38;5;196mx\u{1b}[?25l", "x");
        check("\u{1b}]0;title\u{7}x", "x");
        check("\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{1b}P1$r\u{1b}\\x\u{1b}(Bz\u{1b}=w", "xzw");
        check("\u{9b}31mred\u{9d}0;t\u{9c}x", "redx");
    }

    #[test]
    fn unfinished_sequences_hide_nothing() {
        check("\u{1b}]0;open\nshown", "\nshown");
        check("\u{1b}]0;open\u{1b}[1mshown", "shown");
        check("\u{1b}[31\nshown", "\nshown");
        check("\u{1b}", "");
        check("\u{1b}[", "");
        check("a\u{1b}üb", "aüb");
    }

    #[test]
    fn progress_bars_keep_their_last_state() {
        check(" 10%\r 50%\r100%\ndone\n", "100%\ndone\n");
        check("a\r\nb\r\n", "a\nb\n");
        check("a\r\r\nb", "a\nb");
        check("50%\r", "50%");
        check("|\u{8}/\u{8}-", "-");
        check("\u{8}\u{8}x", "x");
        check("line\n\u{8}x", "line\nx");
    }

    #[test]
    fn control_characters_vanish() {
        check("a\0b\u{7}c\u{7f}d\u{85}e", "abcde");
    }

    #[test]
    fn the_end_knows_its_place() {
        let cleaned = Cleaned::new("\u{1b}[1mab\u{1b}[0m");
        assert_eq!(cleaned.raw_at(2), 10);
        assert_eq!(cleaned.raw_at(1), 5);
    }

    #[test]
    fn long_hostile_output_takes_linear_time() {
        let started = std::time::Instant::now();
        for piece in ["\u{1b}]", "\u{1b}[", "\r", "x\r", "\u{8}", "\u{1b}P\u{1b}"] {
            Cleaned::new(&piece.repeat((1 << 20) / piece.len()));
        }
        assert!(started.elapsed().as_secs() < 20);
    }
}
