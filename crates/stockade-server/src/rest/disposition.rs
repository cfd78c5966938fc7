//! How a browser shall take a file: saved under its name, or shown.
//!
//! Files come from programs that nobody trusts. They are saved, never run; a
//! short list of harmless kinds can be looked at.

use axum::http::HeaderValue;
use percent_encoding::utf8_percent_encode;

use crate::links::SEGMENT;

const TEXT: [&str; 8] = [
    "text/plain",
    "text/csv",
    "text/tab-separated-values",
    "text/markdown",
    "text/x-python",
    "text/x-log",
    "text/x-c",
    "text/x-rust",
];
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What the two headers say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Presentation {
    pub(super) content_type: HeaderValue,
    pub(super) disposition: HeaderValue,
}

/// A file to save.
pub(super) fn saved(media_type: &str, name: &str) -> Presentation {
    let unknown = HeaderValue::from_static("application/octet-stream");
    let content_type = HeaderValue::from_str(media_type).unwrap_or(unknown);
    Presentation { content_type, disposition: disposition("attachment", name) }
}

/// A file to look at, if it is of a kind that can be.
pub(super) fn shown(media_type: &str, name: &str) -> Presentation {
    let image = IMAGES.iter().find(|kind| **kind == media_type);
    let text = TEXT.contains(&media_type).then_some("text/plain; charset=utf-8");
    match image.copied().or(text) {
        Some(kind) => Presentation {
            content_type: HeaderValue::from_static(kind),
            disposition: disposition("inline", name),
        },
        None => saved(media_type, name),
    }
}

/// RFC 6266: a plain name for old clients, and the whole one. Both are visible
/// ASCII, whatever the name holds, so that it cannot end the header.
fn disposition(kind: &str, name: &str) -> HeaderValue {
    let plain = |letter: char| match letter {
        '"' | '\\' | '%' | '/' => '_',
        ' ' => ' ',
        letter if letter.is_ascii_graphic() => letter,
        _ => '_',
    };
    let plain: String = name.chars().map(plain).collect();
    let whole = utf8_percent_encode(name, SEGMENT);
    let value = format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{whole}");
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(disposition("attachment", name), format!("attachment; {expected}"), "{name:?}");
    }

    #[test]
    fn names_cannot_end_the_header() {
        check("a b.txt", "filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        check("größe", "filename=\"gr__e\"; filename*=UTF-8''gr%C3%B6%C3%9Fe");
        check("a\r\nX-Bad: 1", "filename=\"a__X-Bad: 1\"; filename*=UTF-8''a%0D%0AX-Bad%3A%201");
        check("a\";b=\"c", "filename=\"a_;b=_c\"; filename*=UTF-8''a%22%3Bb%3D%22c");
        check("a'b%41", "filename=\"a'b_41\"; filename*=UTF-8''a%27b%2541");
    }

    #[test]
    fn only_harmless_kinds_are_shown() {
        let show = |kind| shown(kind, "x").disposition.to_str().unwrap().starts_with("inline");
        for kind in ["text/plain", "text/csv", "image/png", "image/webp"] {
            assert!(show(kind), "{kind}");
        }
        let kept = ["text/html", "text/xml", "image/svg+xml", "application/pdf", "text/javascript"];
        for kind in kept {
            assert!(!show(kind), "{kind}");
            assert_eq!(shown(kind, "x"), saved(kind, "x"));
        }
        assert_eq!(shown("text/csv", "x").content_type, "text/plain; charset=utf-8");
    }
}
