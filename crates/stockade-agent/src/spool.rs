//! What is kept of one output stream: its head and its tail, never more than the cap.

/// Head and tail of a stream that may be endless.
#[derive(Debug)]
pub(crate) struct Spool {
    head: Vec<u8>,
    head_cap: usize,
    /// The last bytes behind the head, as a ring once it is full.
    tail: Vec<u8>,
    tail_cap: usize,
    /// Bytes written in all.
    total: u64,
    /// Behind the head, nothing before this is kept; only growing moves it.
    dropped_to: u64,
}

impl Spool {
    /// Keeps at most `cap` bytes, half of them from the end.
    pub(crate) fn new(cap: usize) -> Self {
        let tail_cap = (cap / 2).max(1);
        let head_cap = cap.saturating_sub(tail_cap).max(1);
        Self { head: Vec::new(), head_cap, tail: Vec::new(), tail_cap, total: 0, dropped_to: 0 }
    }

    /// Bytes written in all, kept or not.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether the head is complete: what follows may be dropped later.
    pub(crate) fn head_end(&self) -> u64 {
        self.head.len() as u64
    }

    /// How much can be written before something behind `cursor` would be dropped.
    pub(crate) fn room(&self, cursor: u64) -> usize {
        let head_room = self.head_cap - self.head.len();
        let unread_tail = self.total - cursor.clamp(self.head_end(), self.total);
        let tail_room = self.tail_cap - usize::try_from(unread_tail).unwrap_or(self.tail_cap);
        head_room + tail_room
    }

    /// Makes room for more of the tail. Nothing that is kept is lost.
    pub(crate) fn grow(&mut self, more: usize) {
        let mut kept = Vec::new();
        let mut cursor = self.head_end();
        while let Some((offset, bytes)) = self.read(cursor, usize::MAX) {
            kept.extend_from_slice(bytes);
            cursor = offset + bytes.len() as u64;
        }
        self.tail_cap += more;
        self.tail.clear();
        self.total -= kept.len() as u64;
        self.dropped_to = self.total;
        let behind_head = self.total - self.head_end();
        if behind_head > 0 {
            // The ring must be whole before a write that does not begin at its start.
            self.tail.resize(self.tail_cap, 0);
        }
        self.write(&kept);
    }

    /// Adds bytes to the end.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) {
        let to_head = bytes.len().min(self.head_cap - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        self.total += to_head as u64;
        bytes = &bytes[to_head..];
        if let Some(skipped) = bytes.len().checked_sub(self.tail_cap) {
            // Everything in the ring is overwritten; keep its phase right.
            self.total += skipped as u64;
            bytes = &bytes[skipped..];
            if self.tail.len() < self.tail_cap {
                self.tail.resize(self.tail_cap, 0);
            }
        }
        while !bytes.is_empty() {
            let at = self.ring_index(self.total);
            let piece = bytes.len().min(self.tail_cap - at);
            let end = at + piece;
            if self.tail.len() < end {
                self.tail.resize(end, 0);
            }
            self.tail[at..end].copy_from_slice(&bytes[..piece]);
            self.total += piece as u64;
            bytes = &bytes[piece..];
        }
    }

    /// The next kept bytes at or after `cursor`, at most `most` of them, and where they begin.
    pub(crate) fn read(&self, cursor: u64, most: usize) -> Option<(u64, &[u8])> {
        if cursor >= self.total {
            return None;
        }
        let head_end = self.head_end();
        if cursor < head_end {
            let from = usize::try_from(cursor).ok()?;
            let to = self.head.len().min(from.saturating_add(most));
            return Some((cursor, &self.head[from..to]));
        }
        let tail_start =
            self.total.saturating_sub(self.tail_cap as u64).max(self.dropped_to).max(head_end);
        let offset = cursor.max(tail_start);
        let from = self.ring_index(offset);
        let left = usize::try_from(self.total - offset).unwrap_or(self.tail_cap);
        let piece = left.min(most).min(self.tail_cap - from);
        Some((offset, &self.tail[from..from + piece]))
    }

    fn ring_index(&self, offset: u64) -> usize {
        usize::try_from((offset - self.head_end()) % self.tail_cap as u64)
            .expect("a remainder of a usize fits one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(spool: &Spool, most: usize) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = Vec::new();
        let mut cursor = 0;
        while let Some((offset, bytes)) = spool.read(cursor, most) {
            cursor = offset + bytes.len() as u64;
            pieces.push((offset, bytes.to_vec()));
        }
        pieces
    }

    #[test]
    fn what_is_kept_is_the_head_and_the_tail_whatever_the_pieces() {
        for piece in [1, 2, 3, 5, 7, 16, 100] {
            for length in 0..60 {
                let data: Vec<u8> = (0..length).collect();
                let mut spool = Spool::new(10);
                for bytes in data.chunks(piece) {
                    spool.write(bytes);
                }
                assert_eq!(spool.total(), data.len() as u64);
                let tail_start = data.len().saturating_sub(5).max(5.min(data.len()));
                let mut kept = vec![None; data.len()];
                for (offset, bytes) in read_all(&spool, 3) {
                    for (at, byte) in (usize::try_from(offset).unwrap()..).zip(bytes) {
                        kept[at] = Some(byte);
                    }
                }
                for (at, byte) in data.iter().enumerate() {
                    let wanted = (at < 5 || at >= tail_start).then_some(*byte);
                    assert_eq!(kept[at], wanted, "byte {at} of {length} in pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn growing_loses_nothing_that_was_kept() {
        for length in 0..60 {
            let data: Vec<u8> = (0..length).collect();
            let mut spool = Spool::new(10);
            spool.write(&data);
            let before = read_all(&spool, 100).concat_bytes();
            spool.grow(7);
            assert_eq!(read_all(&spool, 100).concat_bytes(), before, "{length} bytes");
            spool.write(&[200, 201, 202]);
            let mut after = before.clone();
            after.extend([200, 201, 202]);
            assert_eq!(read_all(&spool, 100).concat_bytes(), after, "{length} bytes and three");
        }
    }

    trait ConcatBytes {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl ConcatBytes for Vec<(u64, Vec<u8>)> {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
        }
    }

    #[test]
    fn room_counts_what_nobody_has_read() {
        let mut spool = Spool::new(10);
        assert_eq!(spool.room(0), 10);
        spool.write(&[0; 7]);
        assert_eq!(spool.room(0), 3);
        assert_eq!(spool.room(7), 5);
        spool.write(&[0; 3]);
        assert_eq!(spool.room(0), 0);
        assert_eq!(spool.room(8), 3);
    }
}
