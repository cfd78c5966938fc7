//! Names are bytes, callers read text: a form of names that survives both ways.
//!
//! A byte that is not part of valid UTF-8 becomes `%XX`; a `%` that two
//! hexadecimal digits follow becomes `%25`. Everything else stays as it is.

use std::fmt::Write;

/// The text form of some bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    for chunk in bytes.utf8_chunks() {
        for (at, letter) in chunk.valid().char_indices() {
            match letter {
                '%' if two_digits(&rest[at + 1..]).is_some() => text.push_str("%25"),
                _ => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        rest = &rest[chunk.valid().len() + chunk.invalid().len()..];
    }
    text
}

/// The bytes that a text form stands for. Any text is accepted: what `encode`
/// never writes stands for itself.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = if first == b'%' { two_digits(after) } else { None };
        match code {
            Some(byte) if byte >= 0x80 => {
                bytes.push(byte);
                rest = &after[2..];
            }
            Some(b'%') if two_digits(&after[2..]).is_some() => {
                bytes.push(b'%');
                bytes.extend_from_slice(&after[2..4]);
                rest = &after[4..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

fn two_digits(bytes: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(bytes: &[u8], text: &str) {
        assert_eq!(encode(bytes), text);
        assert_eq!(decode(text), bytes);
    }

    #[test]
    fn only_what_must_be_is_encoded() {
        check(b"plain.txt", "plain.txt");
        check("größe 100%.txt".as_bytes(), "größe 100%.txt");
        check(b"caf\xe9", "caf%E9");
        check(b"a%20b", "a%2520b");
        check(b"%", "%");
        check(b"%\xe9", "%%E9");
        check(b"%25", "%2525");
        check(b"%2", "%2");
    }

    #[test]
    fn text_that_encode_never_writes_stands_for_itself() {
        assert_eq!(decode("a%20b"), b"a%20b");
        assert_eq!(decode("100%25"), b"100%25");
    }

    proptest! {
        #[test]
        fn every_name_survives(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(decode(&encode(&bytes)), bytes);
        }

        #[test]
        fn names_full_of_percent_signs_survive(text in "[%0-9a-fA-F]{0,32}") {
            prop_assert_eq!(decode(&encode(text.as_bytes())), text.as_bytes());
        }
    }
}
