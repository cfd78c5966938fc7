//! The part of an output stream that a model gets to read: head and tail, cut
//! at line ends, with the offset from which the rest can be read.

use stockade_core::request::OutputView;

use super::clean::Cleaned;
use super::text::thousands;

/// Shown of a stream's beginning, and as much of its end.
const HALF: usize = 8 << 10;

/// Which part of a stream is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Head and tail of the whole.
    Ends,
    /// The next piece from the view's offset on: the caller reads it through.
    Next,
}

/// How the rest of a stream is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest<'a> {
    /// The run's handle.
    pub(crate) run: &'a str,
    /// `stdout_offset` or `stderr_offset`.
    pub(crate) argument: &'a str,
}

/// The text to show for one stream. Empty when nothing was written.
pub(crate) fn excerpt(view: &OutputView, part: Part, rest: Rest<'_>) -> String {
    let (before, after) = segments(view);
    match (part, after) {
        (Part::Ends, None) => ends(&before, &before, 0, rest),
        (Part::Ends, Some(after)) => ends(&before, &after, view.cut_bytes, rest),
        (Part::Next, None) => next(&before, String::new(), view.next_offset, rest),
        (Part::Next, Some(after)) if before.raw.is_empty() => {
            let gap = format!("[… {} bytes were not kept]\n", thousands(view.cut_bytes));
            next(&after, gap, view.next_offset, rest)
        }
        (Part::Next, Some(_)) => next(&before, String::new(), view.next_offset, rest),
    }
}

fn ends(first: &Segment<'_>, last: &Segment<'_>, lost: u64, rest: Rest<'_>) -> String {
    let (head, tail) = (first.clean.text(), last.clean.text());
    if lost == 0 && head.len() <= 2 * HALF {
        return head.to_owned();
    }
    let (head_end, tail_start) = (head_end(head, HALF), tail_start(tail, HALF));
    let from = first.offset(head_end);
    let hidden = last.offset(tail_start).saturating_sub(from).max(lost);
    let mut text = head[..head_end].to_owned();
    end_line(&mut text);
    text.push_str(&mark(hidden, lost, from, rest));
    text.push_str(&tail[tail_start..]);
    text
}

fn next(segment: &Segment<'_>, mut text: String, end: u64, rest: Rest<'_>) -> String {
    let shown = segment.clean.text();
    let head_end = head_end(shown, 2 * HALF);
    text.push_str(&shown[..head_end]);
    let from = segment.offset(head_end);
    if from < end {
        end_line(&mut text);
        text.push_str(&mark(end - from, 0, from, rest));
    }
    text
}

fn mark(hidden: u64, lost: u64, from: u64, rest: Rest<'_>) -> String {
    let Rest { run, argument } = rest;
    let count = thousands(hidden);
    let go_on = format!("read on with continue_run run={run} {argument}={from}");
    match lost {
        0 => format!("[… {count} bytes cut; {go_on}]\n"),
        lost if lost < hidden => {
            let lost = thousands(lost);
            format!("[… {count} bytes cut, {lost} of them were not kept; {go_on}]\n")
        }
        _ => format!("[… {count} bytes were not kept]\n"),
    }
}

/// The kept text before and, if bytes in its middle were not kept, after the gap.
fn segments(view: &OutputView) -> (Segment<'_>, Option<Segment<'_>>) {
    let segment = |raw, anchor| Segment { raw, clean: Cleaned::new(raw), anchor };
    let start = Anchor::Start { offset: view.offset, lossy: view.lossy };
    if view.cut_bytes == 0 {
        return (segment(&view.text, start), None);
    }
    let mut cut = usize::try_from(view.cut_at).unwrap_or(usize::MAX).min(view.text.len());
    while !view.text.is_char_boundary(cut) {
        cut -= 1;
    }
    let (before, after) = view.text.split_at(cut);
    (segment(before, start), Some(segment(after, Anchor::End { offset: view.next_offset })))
}

/// A piece of a stream without gaps.
struct Segment<'a> {
    raw: &'a str,
    clean: Cleaned,
    anchor: Anchor,
}

/// Where in the stream a segment is. Bytes that are not UTF-8 are shown as U+FFFD, which
/// hides how many they were; positions are then too small rather than too
/// large: reading on may repeat a little and never skips.
enum Anchor {
    Start { offset: u64, lossy: bool },
    End { offset: u64 },
}

impl Segment<'_> {
    /// Position in the stream of a byte that is shown.
    fn offset(&self, clean: usize) -> u64 {
        let (before, after) = self.raw.split_at(self.clean.raw_at(clean));
        match self.anchor {
            Anchor::Start { offset, lossy } => {
                let replaced = if lossy { before.matches('\u{fffd}').count() } else { 0 };
                offset + (before.len() - 2 * replaced) as u64
            }
            Anchor::End { offset } => offset.saturating_sub(after.len() as u64),
        }
    }
}

/// Where to cut so that at most `most` bytes are shown: at a line end if one is near.
fn head_end(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match text[..end].rfind('\n') {
        Some(line) if line + 1 >= most / 2 => line + 1,
        _ => end,
    }
}

/// Where to begin so that at most `most` bytes are shown: at a line start if one is near.
fn tail_start(text: &str, most: usize) -> usize {
    let Some(mut start) = text.len().checked_sub(most).filter(|start| *start > 0) else { return 0 };
    while !text.is_char_boundary(start) {
        start += 1;
    }
    match text[start..].find('\n') {
        _ if text[..start].ends_with('\n') => start,
        Some(line) if line < most / 2 => start + line + 1,
        _ => start,
    }
}

/// Ends the last line if it is not.
pub(crate) fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Rest<'_> = Rest { run: "run-1", argument: "stdout_offset" };

    fn view(text: &str) -> OutputView {
        let total = text.len() as u64;
        OutputView {
            text: text.to_owned(),
            total_bytes: total,
            next_offset: total,
            ..OutputView::default()
        }
    }

    fn offset_in(text: &str) -> u64 {
        let (_, rest) = text.split_once("stdout_offset=").unwrap();
        rest.split_once(']').unwrap().0.parse().unwrap()
    }

    #[test]
    fn short_output_is_whole() {
        assert_eq!(excerpt(&view(""), Part::Ends, REST), "");
        assert_eq!(excerpt(&view("a\nb"), Part::Ends, REST), "a\nb");
        assert_eq!(excerpt(&view("a\nb"), Part::Next, REST), "a\nb");
        let most = "x".repeat(2 * HALF);
        assert_eq!(excerpt(&view(&most), Part::Ends, REST), most);
    }

    #[test]
    fn long_output_keeps_head_and_tail_at_line_ends() {
        let lines: Vec<String> = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let all = lines.concat();
        let text = excerpt(&view(&all), Part::Ends, REST);
        assert!(text.len() < 2 * HALF + 200);
        let (head, rest) = text.split_once("[… ").unwrap();
        let (mark, tail) = rest.split_once("]\n").unwrap();
        assert!(all.starts_with(head) && head.ends_with('\n'));
        assert!(all.ends_with(tail) && tail.starts_with("line "));
        let hidden = all.len() - head.len() - tail.len();
        let expected = format!("{} bytes cut; read on", thousands(hidden as u64));
        assert!(mark.starts_with(&expected), "{mark}");
        assert_eq!(offset_in(&text), head.len() as u64);
    }

    #[test]
    fn reading_on_gives_every_byte_once() {
        let all: String = (0..5_000).map(|n| format!("Zeile {n} äöü\n")).collect();
        let (mut offset, mut read) = (0, String::new());
        loop {
            let mut rest = view(&all[offset..]);
            rest.offset = offset as u64;
            rest.next_offset = all.len() as u64;
            let text = excerpt(&rest, Part::Next, REST);
            match text.split_once("[… ") {
                Some((piece, mark)) => {
                    read.push_str(piece);
                    offset = usize::try_from(offset_in(mark)).unwrap();
                }
                None => {
                    read.push_str(&text);
                    break;
                }
            }
        }
        assert!(read == all);
    }

    #[test]
    fn one_huge_line_is_cut_between_characters() {
        let all = "ü".repeat(100_000);
        let text = excerpt(&view(&all), Part::Ends, REST);
        assert!(text.len() < 2 * HALF + 200 && text.starts_with("üü") && text.ends_with("üü"));
        assert_eq!(offset_in(&text), 8192);
    }

    #[test]
    fn bytes_that_were_not_kept_are_named() {
        let mut gap = view("head\ntail\n");
        gap.cut_bytes = 1_000_000;
        gap.cut_at = 5;
        gap.next_offset = 1_000_010;
        assert_eq!(
            excerpt(&gap, Part::Ends, REST),
            "head\n[… 1,000,000 bytes were not kept]\ntail\n"
        );
        gap.cut_at = 0;
        assert_eq!(
            excerpt(&gap, Part::Next, REST),
            "[… 1,000,000 bytes were not kept]\nhead\ntail\n"
        );
        let half = "0123456\n".repeat(4096);
        let mut both = view(&format!("{half}{half}"));
        both.cut_at = half.len() as u64;
        both.cut_bytes = 500;
        both.next_offset += 500;
        let text = excerpt(&both, Part::Ends, REST);
        assert!(text.contains("[… 49,652 bytes cut, 500 of them were not kept; read on"));
        assert_eq!(offset_in(&text), 8192);
    }

    #[test]
    fn positions_count_written_bytes_not_shown_ones() {
        let all = "\u{1b}[32mgreen\u{1b}[0m\n".repeat(5000);
        let text = excerpt(&view(&all), Part::Ends, REST);
        assert!(!text.contains('\u{1b}'));
        let offset = usize::try_from(offset_in(&text)).unwrap();
        assert!(all[offset..].starts_with("green\u{1b}[0m\n"), "{:?}", &all[offset..offset + 20]);
    }

    #[test]
    fn positions_never_skip_when_bytes_were_replaced() {
        let mut lossy = view(&"\u{fffd}".repeat(20_000));
        lossy.lossy = true;
        lossy.total_bytes = 20_000;
        lossy.next_offset = 20_000;
        let text = excerpt(&lossy, Part::Next, REST);
        let shown = text.matches('\u{fffd}').count() as u64;
        assert!(offset_in(&text) <= shown);
    }

    #[test]
    fn a_cut_inside_a_character_does_not_break() {
        let mut odd = view("äöü");
        odd.cut_bytes = 9;
        odd.cut_at = 3;
        assert!(excerpt(&odd, Part::Ends, REST).starts_with("ä\n[… 9 bytes were not kept]\n"));
        odd.cut_at = u64::MAX;
        assert!(excerpt(&odd, Part::Ends, REST).starts_with("äöü\n[… "));
    }
}
