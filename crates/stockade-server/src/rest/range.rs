//! Which part of a file is wanted: one range of bytes (RFC 9110, section 14).
//!
//! Several ranges at once are legal to ask for and legal to ignore.

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything.
    Whole,
    /// From the first to the last byte, both included.
    Bytes {
        /// Position of the first.
        first: u64,
        /// Position of the last.
        last: u64,
    },
    /// Nothing: there are no such bytes.
    None,
}

/// What a `Range` header asks for in a file of that size.
pub(super) fn wanted(range: &str, size: u64) -> Part {
    let Some((unit, range)) = range.split_once('=') else { return Part::Whole };
    let Some((first, last)) = range.trim().split_once('-') else { return Part::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Part::Whole;
    }
    match (number(first), number(last)) {
        (Asked::At(first), Asked::At(last)) if last < first => Part::Whole,
        (Asked::At(first), Asked::At(last)) => between(first, last, size),
        (Asked::At(first), Asked::Open) => between(first, u64::MAX, size),
        (Asked::Open, Asked::At(0)) => Part::None,
        (Asked::Open, Asked::At(count)) => between(size.saturating_sub(count), u64::MAX, size),
        _ => Part::Whole,
    }
}

fn between(first: u64, last: u64, size: u64) -> Part {
    if first >= size {
        return Part::None;
    }
    Part::Bytes { first, last: last.min(size - 1) }
}

enum Asked {
    At(u64),
    Open,
    Unreadable,
}

fn number(text: &str) -> Asked {
    if text.is_empty() {
        return Asked::Open;
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Asked::Unreadable;
    }
    // Digits that do not fit are a place beyond every file.
    Asked::At(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, size: u64, expected: Part) {
        assert_eq!(wanted(range, size), expected, "{range:?} of {size}");
    }

    #[test]
    fn one_range_is_understood() {
        check("bytes=0-0", 10, Part::Bytes { first: 0, last: 0 });
        check("bytes=2-5", 10, Part::Bytes { first: 2, last: 5 });
        check("Bytes=2-", 10, Part::Bytes { first: 2, last: 9 });
        check("bytes=-3", 10, Part::Bytes { first: 7, last: 9 });
        check("bytes=-30", 10, Part::Bytes { first: 0, last: 9 });
        check("bytes=9-99999999999999999999999", 10, Part::Bytes { first: 9, last: 9 });
    }

    #[test]
    fn what_is_not_there_is_refused() {
        check("bytes=10-", 10, Part::None);
        check("bytes=10-20", 10, Part::None);
        check("bytes=-0", 10, Part::None);
        check("bytes=0-", 0, Part::None);
        check("bytes=-5", 0, Part::None);
        check("bytes=99999999999999999999999-", 10, Part::None);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes= 1 - 2",
        ] {
            check(range, 10, Part::Whole);
        }
    }
}
