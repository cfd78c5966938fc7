//! One output stream under a cap: its head and its tail, by offset.
//!
//! ```text
//! whole stream   |<-- head -->|  cut  |<-- tail -->|
//!                0       head.len()  tail_start   total
//! ```
//!
//! The head is what came first without a gap, up to half of the cap; the tail is
//! what came last. A jump in the offsets (bytes that were dropped on the way)
//! joins the cut.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::request::OutputView;

/// What is kept of one stream.
#[derive(Debug)]
pub(crate) struct Captured {
    cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    tail_start: u64,
    total: u64,
}

impl Captured {
    /// Keeps at most `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, head: Vec::new(), tail: VecDeque::new(), tail_start: 0, total: 0 }
    }

    /// Bytes that the program wrote, kept or not.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Bytes that can be added without dropping what was added last.
    pub(crate) fn piece(&self) -> usize {
        (self.cap - self.cap / 2).max(1)
    }

    /// Takes what stands at `offset` of the stream. What was there before is ignored.
    pub(crate) fn push(&mut self, offset: u64, bytes: &[u8]) {
        let seen = usize::try_from(self.total.saturating_sub(offset)).unwrap_or(usize::MAX);
        let Some(mut fresh) = bytes.get(seen..) else { return };
        if fresh.is_empty() {
            return;
        }
        if offset > self.total {
            self.tail.clear();
            self.tail_start = offset;
            self.total = offset;
        }
        let head_room = (self.cap / 2).saturating_sub(self.head.len());
        if self.total == length(self.head.len()) && head_room > 0 {
            let (head, rest) = fresh.split_at(head_room.min(fresh.len()));
            self.head.extend_from_slice(head);
            self.total += length(head.len());
            self.tail_start = self.total;
            fresh = rest;
        }
        self.push_tail(fresh);
    }

    fn push_tail(&mut self, bytes: &[u8]) {
        let cap = self.cap - self.head.len();
        let lost = bytes.len().saturating_sub(cap);
        let kept = &bytes[lost..];
        let overflow = (self.tail.len() + kept.len()).saturating_sub(cap);
        self.tail.drain(..overflow);
        if self.tail.capacity() < kept.len() + self.tail.len() {
            let wanted = (2 * (kept.len() + self.tail.len())).min(cap);
            self.tail.reserve_exact(wanted - self.tail.len());
        }
        self.tail.extend(kept);
        self.total = self.total.saturating_add(length(bytes.len()));
        self.tail_start = self.total - length(self.tail.len());
    }

    /// The kept bytes at `from` or the next ones after it, with their offset.
    /// `None` when there are none yet.
    pub(crate) fn next(&self, from: u64, most: usize) -> Option<(u64, Bytes)> {
        let (head, at, (left, right)) = self.parts(from);
        let (offset, part) = if !head.is_empty() {
            (from, head)
        } else if !left.is_empty() {
            (at, left)
        } else {
            (at, right)
        };
        let part = &part[..part.len().min(most)];
        (!part.is_empty()).then(|| (offset, Bytes::copy_from_slice(part)))
    }

    /// The kept bytes from `from` on: of the head, then where in the stream
    /// those of the tail begin, and them.
    fn parts(&self, from: u64) -> (&[u8], u64, (&[u8], &[u8])) {
        let head = self.head.get(index(from)..).unwrap_or_default();
        let skipped = index(from.saturating_sub(self.tail_start)).min(self.tail.len());
        let (left, right) = self.tail.as_slices();
        let tail = match left.get(skipped..) {
            Some(left) => (left, right),
            None => (&right[skipped - left.len()..], &[][..]),
        };
        (head, self.tail_start + length(skipped), tail)
    }

    /// The text from `from` on. While more may come, a character that is not
    /// complete at the end is held back for the next view.
    pub(crate) fn view(&self, from: u64, ended: bool) -> OutputView {
        let from = from.min(self.total);
        let (head, at, (left, right)) = self.parts(from);
        let mut before = head.to_vec();
        let mut after = [left, right].concat();
        let mut cut_bytes = at.saturating_sub(from + length(head.len()));
        if cut_bytes == 0 {
            before.append(&mut after);
        } else {
            let whole = before.len() - incomplete_end(&before);
            let partial = partial_start(&after);
            cut_bytes += length(before.len() - whole + partial);
            before.truncate(whole);
            after.drain(..partial);
        }
        let last = if cut_bytes == 0 { &mut before } else { &mut after };
        let held_back = if ended { 0 } else { incomplete_end(last) };
        last.truncate(last.len() - held_back);
        let (before, after) = (text_of(&before), text_of(&after));
        OutputView {
            cut_at: if cut_bytes == 0 { 0 } else { length(before.0.len()) },
            text: before.0 + &after.0,
            offset: from,
            total_bytes: self.total,
            cut_bytes,
            next_offset: self.total - length(held_back),
            lossy: before.1 || after.1,
        }
    }
}

fn text_of(bytes: &[u8]) -> (String, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), true),
    }
}

/// Bytes at the end that begin a character and do not complete it.
fn incomplete_end(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let start = bytes[last..].iter().rposition(|byte| byte & 0xC0 != 0x80);
    let Some(end) = start.map(|start| &bytes[last + start..]) else { return 0 };
    match std::str::from_utf8(end) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => end.len(),
        _ => 0,
    }
}

/// Bytes at the start that continue a character whose begin is missing.
fn partial_start(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count()
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn captured(cap: usize, pieces: &[&[u8]]) -> Captured {
        let mut captured = Captured::new(cap);
        for piece in pieces {
            captured.push(captured.total(), piece);
        }
        captured
    }

    #[track_caller]
    fn check(captured: &Captured, from: u64, text: &str, cut: (u64, u64)) {
        let view = captured.view(from, true);
        assert_eq!((view.text.as_str(), (view.cut_bytes, view.cut_at)), (text, cut));
    }

    #[test]
    fn below_the_cap_everything_is_kept() {
        let all = captured(8, &[b"abc", b"def", b"gh"]);
        check(&all, 0, "abcdefgh", (0, 0));
        check(&all, 3, "defgh", (0, 0));
        check(&all, 8, "", (0, 0));
        check(&all, 99, "", (0, 0));
    }

    #[test]
    fn above_the_cap_the_middle_is_cut() {
        let much = captured(8, &[b"0123456789abcdef"]);
        check(&much, 0, "0123cdef", (8, 4));
        check(&much, 2, "23cdef", (8, 2));
        check(&much, 6, "cdef", (6, 0));
        check(&much, 14, "ef", (0, 0));
    }

    #[test]
    fn a_jump_joins_the_cut() {
        let mut jumped = captured(16, &[b"head"]);
        jumped.push(100, b"tail");
        check(&jumped, 0, "headtail", (96, 4));
        assert_eq!(jumped.total(), 104);
    }

    #[test]
    fn repeated_and_old_bytes_are_ignored() {
        let mut twice = captured(16, &[b"abcd"]);
        twice.push(0, b"abcd");
        twice.push(2, b"cdef");
        check(&twice, 0, "abcdef", (0, 0));
    }

    #[test]
    fn an_absurd_offset_is_survived() {
        let mut lied = captured(16, &[b"abcd"]);
        lied.push(u64::MAX - 2, b"xyzuvw");
        lied.push(5, b"q");
        assert!(lied.kept() <= 16);
        lied.view(0, true);
    }

    #[test]
    fn an_unfinished_character_is_held_back_until_the_end() {
        let half = captured(64, &["aé".as_bytes().split_at(2).0]);
        let going = half.view(0, false);
        assert_eq!((going.text.as_str(), going.next_offset, going.lossy), ("a", 1, false));
        let ended = half.view(0, true);
        assert_eq!((ended.text.as_str(), ended.next_offset, ended.lossy), ("a\u{FFFD}", 2, true));
    }

    #[test]
    fn a_character_over_the_border_of_head_and_tail_is_held_back_whole() {
        let half = captured(4, &["aé".as_bytes().split_at(2).0]);
        assert_eq!(half.view(0, false).next_offset, 1);
        let wide = captured(8, &["abcሴ".as_bytes().split_at(5).0]);
        let view = wide.view(0, false);
        assert_eq!((view.text.as_str(), view.next_offset, view.lossy), ("abc", 3, false));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = "é".repeat(100);
        let view = captured(11, &[text.as_bytes()]).view(0, true);
        assert!(!view.lossy, "{view:?}");
        assert_eq!(length(view.text.len()) + view.cut_bytes, 200);
    }

    proptest! {
        #[test]
        fn head_and_tail_are_true_and_bounded(
            cap in 2usize..64,
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..12),
            from in 0u64..300,
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = pieces.concat();
            let kept = captured(cap, &pieces);
            prop_assert!(kept.kept() <= cap);
            prop_assert_eq!(kept.total(), length(whole.len()));
            if whole.len() <= cap {
                prop_assert_eq!(kept.kept(), whole.len());
            }
            let mut at = from;
            while let Some((offset, bytes)) = kept.next(at, 7) {
                let start = index(offset);
                prop_assert!(offset >= at);
                prop_assert_eq!(&whole[start..start + bytes.len()], &bytes[..]);
                at = offset + length(bytes.len());
            }
            if from < kept.total() {
                prop_assert_eq!(at, kept.total());
            }
            kept.view(from, false);
        }

        #[test]
        fn views_of_text_add_up(
            cap in 8usize..64,
            text in "\\PC{0,80}",
            cuts in proptest::collection::vec(0usize..320, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut captured = Captured::new(cap.max(bytes.len()));
            let mut read = String::new();
            let mut at = 0;
            let mut ends: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut start = 0;
            for end in ends {
                captured.push(length(start), &bytes[start..end]);
                start = end;
                let view = captured.view(at, false);
                prop_assert!(!view.lossy);
                read.push_str(&view.text);
                at = view.next_offset;
            }
            prop_assert_eq!(read, text);
        }

        #[test]
        fn a_view_counts_every_byte_of_text(
            cap in 8usize..64,
            text in "\\PC{0,120}",
        ) {
            let mut captured = Captured::new(cap);
            captured.push(0, text.as_bytes());
            let view = captured.view(0, true);
            prop_assert!(!view.lossy);
            prop_assert_eq!(length(view.text.len()) + view.cut_bytes, length(text.len()));
        }
    }
}
