//! Colours where a person reads, none where a program does.

use std::fmt::Display;
use std::io::IsTerminal;

/// How text for people is written to one stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    colours: bool,
}

impl Style {
    /// For a stream; no colours when it is no terminal or `NO_COLOR` is set.
    pub(super) fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: stream.is_terminal() && !refused }
    }

    /// Whether a person looks at it live.
    pub(super) fn is_live(self) -> bool {
        self.colours
    }

    fn paint(self, code: u8, text: impl Display) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub(super) fn good(self, text: impl Display) -> String {
        self.paint(32, text)
    }

    pub(super) fn warning(self, text: impl Display) -> String {
        self.paint(33, text)
    }

    pub(super) fn bad(self, text: impl Display) -> String {
        self.paint(31, text)
    }

    pub(super) fn strong(self, text: impl Display) -> String {
        self.paint(1, text)
    }
}
