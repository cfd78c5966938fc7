//! Whether a client's copy of a file is still good (RFC 9110, section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use stockade_core::engine::Download;

use crate::auth::now;

/// A file that changed so recently could change once more within the same second.
const SETTLES_AFTER: i64 = 2;

/// What a version of a file is known by.
#[derive(Debug)]
pub(super) struct Marks {
    /// Without `W/`.
    tag: String,
    /// Whether the tag stands for exactly these bytes.
    is_strong: bool,
    modified: SystemTime,
}

impl Marks {
    pub(super) fn of(file: &Download) -> Self {
        let age = now().saturating_sub(file.modified);
        let seconds = u64::try_from(file.modified).unwrap_or(0);
        Self {
            tag: format!("\"{:x}-{:x}\"", file.size, file.modified),
            is_strong: age >= SETTLES_AFTER,
            modified: UNIX_EPOCH + Duration::from_secs(seconds.min(u64::from(u32::MAX))),
        }
    }

    /// Whether the client has these bytes already.
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        if !self.is_strong {
            return false;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            let all = headers.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
            let mut tags = all.flat_map(|tags| tags.split(',')).map(str::trim);
            return tags.any(|tag| tag == "*" || tag == self.tag);
        }
        let since =
            text(headers, IF_MODIFIED_SINCE).and_then(|date| httpdate::parse_http_date(date).ok());
        since.is_some_and(|since| self.modified <= since)
    }

    /// Whether a part of these bytes fits to what the client has.
    pub(super) fn fits(&self, headers: &HeaderMap) -> bool {
        if !headers.contains_key(IF_RANGE) {
            return true;
        }
        let Some(mark) = text(headers, IF_RANGE) else { return false };
        let same = match httpdate::parse_http_date(mark) {
            Ok(date) => date == self.modified,
            Err(_) => mark == self.tag,
        };
        self.is_strong && same
    }

    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let weak = if self.is_strong { "" } else { "W/" };
        let tag = HeaderValue::from_str(&format!("{weak}{}", self.tag));
        let date = HeaderValue::from_str(&httpdate::fmt_http_date(self.modified));
        headers.extend(
            [(ETAG, tag), (LAST_MODIFIED, date)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.ok()?))),
        );
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}
