//! The one secret that a request carries, if it carries exactly one.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The secret in `Authorization: Bearer` or `X-API-Key`. Two of them, even equal
/// ones, are none: what checks in front of us might have looked at the other.
pub(super) fn secret(headers: &HeaderMap) -> Option<&str> {
    let bearers = headers.get_all(AUTHORIZATION).iter().map(|value| (true, value));
    let plain = headers.get_all(API_KEY).iter().map(|value| (false, value));
    let mut all = bearers.chain(plain);
    let (is_bearer, value) = all.next()?;
    if all.next().is_some() {
        return None;
    }
    let value = value.to_str().ok()?.trim();
    let secret = if is_bearer { bearer(value)? } else { value };
    let good = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    good.then_some(secret)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(headers: &[(&str, &[u8])], expected: Option<&str>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        assert_eq!(secret(&map), expected, "{headers:?}");
    }

    #[test]
    fn exactly_one_secret_counts() {
        check(&[("authorization", b"Bearer abc")], Some("abc"));
        check(&[("authorization", b"bearer   abc ")], Some("abc"));
        check(&[("x-api-key", b"abc")], Some("abc"));
        check(&[], None);
        check(&[("authorization", b"")], None);
        check(&[("authorization", b"Bearer")], None);
        check(&[("authorization", b"Bearer ")], None);
        check(&[("authorization", b"abc")], None);
        check(&[("authorization", b"Basic abc")], None);
        check(&[("authorization", b"Bearerabc")], None);
        check(&[("authorization", b"Bearer a b")], None);
        check(&[("authorization", b"Bearer caf\xe9")], None);
        check(&[("authorization", b"Bearer abc"), ("authorization", b"Bearer abc")], None);
        check(&[("authorization", b"Bearer abc"), ("x-api-key", b"abc")], None);
        check(&[("x-api-key", b"abc"), ("x-api-key", b"def")], None);
        check(&[("x-api-key", b"")], None);
    }
}
