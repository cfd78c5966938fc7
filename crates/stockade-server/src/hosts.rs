//! Whether a request was meant for this server: `Host` and `Origin`.
//!
//! A page that a browser loaded elsewhere can reach a server on the user's
//! machine through a name that resolves to it. So only names that are ours are
//! answered, and a browser only on pages that are ours. Programs send no `Origin`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::problem::Problem;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Which names this server answers to.
#[derive(Debug)]
pub struct Hosts {
    names: Vec<Name>,
    origins: Vec<Origin>,
    /// Listening on all addresses, it has addresses that nobody wrote down.
    any_address: bool,
}

/// A host, with a port or for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
}

/// A scheme, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Hosts {
    /// Loopback names, the address it listens on, the host of its public
    /// address, and what the operator allowed besides.
    pub fn new(
        listen: SocketAddr,
        public_base_url: &str,
        allowed_hosts: &[String],
        allowed_origins: &[String],
    ) -> Self {
        let mut names: Vec<Name> = LOOPBACK.iter().filter_map(|name| Name::parse(name)).collect();
        names.push(Name { host: written(listen.ip()), port: Some(listen.port()) });
        let public = Origin::parse(&without_path(public_base_url));
        names.extend(public.iter().map(|public| Name { host: public.host.clone(), port: None }));
        names.extend(allowed_hosts.iter().filter_map(|name| Name::parse(name)));
        let configured = allowed_origins.iter().filter_map(|origin| Origin::parse(origin));
        let origins = public.into_iter().chain(configured).collect();
        Self { names, origins, any_address: listen.ip().is_unspecified() }
    }

    /// Whether this server answers to that `Host`.
    pub fn answers(&self, host: &str) -> bool {
        let Some(asked) = Name::parse(host) else { return false };
        // Only a name can be made to resolve to us; an address is where the client really went.
        let is_address = || self.any_address && is_address(&asked.host);
        self.names.iter().any(|name| name.covers(&asked)) || is_address()
    }

    /// Whether a page of that `Origin` may call, when it calls us as `host`.
    pub fn admits(&self, origin: &str, host: &str) -> bool {
        let Some(origin) = Origin::parse(origin) else { return false };
        let is_web = matches!(origin.scheme.as_str(), "http" | "https");
        let is_loopback = is_web && LOOPBACK.contains(&origin.host.as_str());
        let is_own = || {
            is_web && Origin::parse(&format!("{}://{host}", origin.scheme)) == Some(origin.clone())
        };
        is_loopback || self.origins.contains(&origin) || is_own()
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = only(headers, HOST).filter(|host| self.answers(host));
        let in_target = uri.authority().is_none_or(|target| self.answers(target.as_str()));
        let (Some(host), true) = (host, in_target) else {
            return Err(refused("Host", "is missing or not one of this server's names")
                .next("call it by a name of its own, or add this one to `server.allowed_hosts`"));
        };
        let is_admitted = || only(headers, ORIGIN).is_some_and(|origin| self.admits(origin, host));
        if headers.contains_key(ORIGIN) && !is_admitted() {
            return Err(refused("Origin", "is not one of this server's pages")
                .next("add it to `server.allowed_origins` if that page may call"));
        }
        Ok(())
    }
}

/// Lets a request pass that was meant for this server.
pub(crate) async fn require_own_name(
    State(hosts): State<Arc<Hosts>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = hosts.check(request.uri(), request.headers()) {
        return problem.into_response();
    }
    // It was judged here; nothing behind has to know the list.
    request.headers_mut().remove(ORIGIN);
    next.run(request).await
}

fn refused(header: &str, reason: &str) -> Problem {
    let code = if header == "Host" { "host_refused" } else { "origin_refused" };
    Problem::new(StatusCode::FORBIDDEN, code, format!("{header}: {reason}"))
}

/// The value of a header that is there exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(number(port)?)),
            _ => (text, None),
        };
        is_host(host).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    fn covers(&self, asked: &Self) -> bool {
        self.host == asked.host && (self.port.is_none() || self.port == asked.port)
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let Name { host, port } = Name::parse(authority)?;
        let usual = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => 0,
        };
        Some(Self { scheme, host, port: port.unwrap_or(usual) })
    }
}

fn number(port: &str) -> Option<u16> {
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())?
}

fn is_host(host: &str) -> bool {
    match host.strip_prefix('[') {
        Some(rest) => {
            rest.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        }
        None => {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !host.is_empty() && host.bytes().all(good)
        }
    }
}

fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn written(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Scheme and authority of a URL.
fn without_path(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split('/').next().unwrap_or_default();
    format!("{scheme}://{authority}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str) -> Hosts {
        Hosts::new(
            listen.parse().unwrap(),
            "https://files.example.org/base",
            &["other.example".to_owned(), "exact.example:9000".to_owned()],
            &["https://app.example".to_owned(), "http://app.example:3000".to_owned()],
        )
    }

    #[test]
    fn own_names_are_answered() {
        let hosts = hosts("10.0.0.5:8080");
        let own = [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "10.0.0.5:8080",
            "files.example.org",
            "files.example.org:443",
            "other.example",
            "Other.Example:1",
            "exact.example:9000",
        ];
        for host in own {
            assert!(hosts.answers(host), "{host}");
        }
    }

    #[test]
    fn other_names_are_not() {
        let hosts = hosts("10.0.0.5:8080");
        let others = [
            "",
            ":80",
            "evil.example",
            "localhost.",
            "localhost.evil.example",
            "evil.localhost",
            "127.0.0.1.evil.example",
            "127.0.0.2",
            "10.0.0.5",
            "10.0.0.5:80",
            "10.0.0.6:8080",
            "0.0.0.0",
            "exact.example",
            "exact.example:9001",
            "localhost:",
            "localhost:x",
            "localhost:+80",
            "localhost:99999",
            "user@localhost",
            "localhost@evil.example",
            "localhost/x",
            "[::1",
            "::1",
            "[::1%lo]",
            "localhost localhost",
            "xn--localhost",
        ];
        for host in others {
            assert!(!hosts.answers(host), "{host}");
        }
    }

    #[test]
    fn on_all_addresses_each_address_is_its_own() {
        let hosts = hosts("0.0.0.0:8080");
        assert!(hosts.answers("10.1.2.3:8080"));
        assert!(hosts.answers("[fe80::1]:8080"));
        assert!(!hosts.answers("evil.example:8080"));
        assert!(!hosts.answers("1.2.3.4.evil.example"));
    }

    #[test]
    fn own_pages_are_admitted() {
        let hosts = hosts("10.0.0.5:8080");
        let own = [
            "http://localhost",
            "http://localhost:3000",
            "https://127.0.0.1:1",
            "http://[::1]:5",
            "https://files.example.org",
            "https://files.example.org:443",
            "https://app.example",
            "http://app.example:3000",
            "http://10.0.0.5:8080",
        ];
        for origin in own {
            assert!(hosts.admits(origin, "10.0.0.5:8080"), "{origin}");
        }
        let others = [
            "",
            "null",
            "http://evil.example",
            "https://app.example:3000",
            "http://app.example",
            "http://files.example.org",
            "http://localhost.evil.example",
            "http://10.0.0.5",
            "file://",
            "file://localhost",
            "chrome-extension://localhost",
            "http://localhost/",
            "http://localhost http://evil.example",
            "localhost",
            "http://other.example",
        ];
        for origin in others {
            assert!(!hosts.admits(origin, "10.0.0.5:8080"), "{origin}");
        }
    }
}
