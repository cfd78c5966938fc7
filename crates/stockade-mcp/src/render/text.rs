//! Small pieces of text: sizes, times, and names that cannot break a line.

use std::time::Duration;

/// A name from outside on one line: control characters become escapes, and it is never long.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MOST {
            line.push('…');
            break;
        }
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// `1,234 bytes`, `1.2 MB`. Units count in 1024, as `memory_mb` does.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..10_240 => format!("{} bytes", thousands(bytes)),
        _ => scaled(bytes),
    }
}

/// `34 MB`, `1.2 GB`.
pub(crate) fn scaled(bytes: u64) -> String {
    let mut rest = bytes;
    let mut tenths = 0;
    let mut unit = "bytes";
    for next in ["KB", "MB", "GB", "TB"] {
        if rest < 1024 {
            break;
        }
        tenths = (rest % 1024) * 10 / 1024;
        rest /= 1024;
        unit = next;
    }
    match rest {
        0..10 if tenths > 0 => format!("{rest}.{tenths} {unit}"),
        _ => format!("{} {unit}", thousands(rest)),
    }
}

/// `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `8 ms`, `1.2 s`, `2 min 5 s`, `3 h 20 min`.
pub(crate) fn time(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    match millis {
        0 => "0 s".to_owned(),
        1..100 => format!("{millis} ms"),
        100..1_000 => format!("0.{} s", millis / 100),
        1_000..60_000 if millis % 1000 < 100 => format!("{seconds} s"),
        1_000..60_000 => format!("{seconds}.{} s", millis % 1000 / 100),
        _ if seconds < 3600 && seconds % 60 == 0 => format!("{} min", seconds / 60),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1234, "1,234 bytes"),
            (20_480, "20 KB"),
            (34 << 20, "34 MB"),
            ((1 << 20) * 3 / 2, "1.5 MB"),
            (2000 << 20, "1.9 GB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn times_are_short() {
        for (millis, expected) in [
            (0, "0 s"),
            (42, "42 ms"),
            (420, "0.4 s"),
            (1_000, "1 s"),
            (1_234, "1.2 s"),
            (30_040, "30 s"),
            (125_000, "2 min 5 s"),
            (600_000, "10 min"),
            (12_000_000, "3 h 20 min"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(time(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m\u{2028}ü"), "a\\nb\\u{1b}[31m\\u{2028}ü");
        assert_eq!(one_line(&"x".repeat(1000)).chars().count(), 301);
    }
}
