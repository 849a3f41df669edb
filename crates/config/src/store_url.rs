//! Owns how the place of a store is written: `redis://user@host:6379/0`, `rediss://`, `unix:///path`, and `host:port` in lists.
//!
//! A password has no place in it: the configuration is shown, mailed and committed.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::field::quoted;
use super::problem::ParseError;
use super::rules::{StoreAddress, StoreNode};

/// Where Redis listens unless a URL says otherwise.
const PORT: u16 = 6379;

const EXAMPLE: &str = "redis://127.0.0.1:6379";

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreUrl {
    pub(super) address: StoreAddress,
    pub(super) database: u16,
    pub(super) user: Option<String>,
    pub(super) scheme: StoreScheme,
}

/// Says whether a URL asks for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreScheme {
    /// `redis://`
    Plain,
    /// `rediss://`
    Tls,
    /// `unix://`
    Unix,
}

/// Reads a URL.
pub(super) fn url(text: &str) -> Result<StoreUrl, ParseError> {
    let shape =
        |what: &str| ParseError::with_advice(format!("{} {what}", quoted(&hidden(text))), usage());
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(match parse_host_port(text, Some(PORT)) {
            Ok(address) => ParseError::with_advice(
                format!("{} has no scheme", quoted(&hidden(text))),
                format!("write \"redis://{address}\""),
            ),
            Err(_) => shape("is not the URL of a store"),
        });
    };
    let scheme = match scheme {
        "redis" => StoreScheme::Plain,
        "rediss" => StoreScheme::Tls,
        "unix" | "redis+unix" => StoreScheme::Unix,
        _ => return Err(shape("has another scheme than a store")),
    };
    if rest.contains(['?', '#']) {
        return Err(shape("has a query, and nothing is read from it"));
    }
    if scheme == StoreScheme::Unix {
        return match rest {
            path if path.starts_with('/') && path.len() > 1 => Ok(StoreUrl {
                address: StoreAddress::Unix(PathBuf::from(path)),
                database: 0,
                user: None,
                scheme,
            }),
            _ => Err(ParseError::with_advice(
                format!("{} has no absolute path", quoted(&hidden(text))),
                "write three slashes: \"unix:///run/redis/redis.sock\"",
            )),
        };
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, at) = match authority.rsplit_once('@') {
        Some((user, at)) => (user, at),
        None => ("", authority),
    };
    if user.contains(':') {
        return Err(ParseError::with_advice(
            "the URL has a password, which everybody sees who sees this file",
            "write password_file = \"/etc/sluicegate/store-password\", or password_env = \"STORE_PASSWORD\"",
        ));
    }
    if user.contains('%') {
        return Err(ParseError::with_advice(
            format!("{} is not read as an escape", quoted("%")),
            "write the name in a key of its own: user = \"…\"",
        ));
    }
    let address = parse_host_port(at, Some(PORT))?;
    let database = match path {
        "" => 0,
        digits => digits.parse().map_err(|_| {
            ParseError::with_advice(
                format!("{} is not the number of a database", quoted(digits)),
                format!("write \"redis://{address}/0\""),
            )
        })?,
    };
    Ok(StoreUrl {
        address: StoreAddress::Tcp(address),
        database,
        user: Some(user.to_owned()).filter(|user| !user.is_empty()),
        scheme,
    })
}

/// Reads `host:port`.
pub(super) fn host_port(text: &str) -> Result<StoreNode, ParseError> {
    if text.contains("://") {
        return Err(ParseError::with_advice(
            format!("{} is a URL", quoted(&hidden(text))),
            "write the host and the port alone: \"10.0.0.1:26379\"",
        ));
    }
    parse_host_port(text, None)
}

fn parse_host_port(text: &str, default: Option<u16>) -> Result<StoreNode, ParseError> {
    let wrong = |what: &str| ParseError::new(format!("{} {what}", quoted(text)));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return Err(wrong("has a bracket that is not closed"));
            };
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(wrong("has no IPv6 address in its brackets"));
            }
            (
                host,
                port.strip_prefix(':').or(port.is_empty().then_some("")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port).filter(|port| !port.is_empty())),
            None => (text, Some("")),
        },
    };
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if host.is_empty() || !host.bytes().all(named) {
        return Err(wrong("has no host"));
    }
    let port = match (port, default) {
        (Some(""), Some(default)) => default,
        (Some(""), None) => return Err(wrong("has no port")),
        (Some(digits), _) => match digits.parse() {
            Ok(port @ 1..) => port,
            _ => return Err(wrong("has no port that there is")),
        },
        (None, _) => return Err(wrong("has no port that there is")),
    };
    Ok(StoreNode {
        host: host.into(),
        port,
    })
}

fn usage() -> String {
    format!("write \"{EXAMPLE}\", \"rediss://…\" for TLS, or \"unix:///run/redis/redis.sock\"")
}

/// A URL without what may be a password, for messages.
fn hidden(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, at)) if before.contains(':') => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://…@{at}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> StoreAddress {
        StoreAddress::Tcp(StoreNode {
            host: host.into(),
            port,
        })
    }

    /// Goal: every way that the documents name is read. Method: one URL each.
    #[test]
    fn urls_say_place_user_database_and_scheme() {
        for (text, address, database, user, scheme) in [
            ("redis://h", tcp("h", 6379), 0, None, StoreScheme::Plain),
            ("redis://h:1/", tcp("h", 1), 0, None, StoreScheme::Plain),
            ("rediss://h:1/12", tcp("h", 1), 12, None, StoreScheme::Tls),
            (
                "redis://u@[::1]:7",
                tcp("::1", 7),
                0,
                Some("u"),
                StoreScheme::Plain,
            ),
            (
                "redis://[::1]",
                tcp("::1", 6379),
                0,
                None,
                StoreScheme::Plain,
            ),
            (
                "unix:///a/b",
                StoreAddress::Unix("/a/b".into()),
                0,
                None,
                StoreScheme::Unix,
            ),
            (
                "redis+unix:///a",
                StoreAddress::Unix("/a".into()),
                0,
                None,
                StoreScheme::Unix,
            ),
        ] {
            let user = user.map(str::to_owned);
            let said = StoreUrl {
                address,
                database,
                user,
                scheme,
            };
            assert_eq!(url(text), Ok(said), "{text}");
        }
    }

    /// Goal: no password is shown or taken. Method: the same secret in several broken URLs.
    #[test]
    fn a_password_is_refused_and_not_repeated() {
        for text in [
            "redis://u:hunter2@h:1",
            "redis://:hunter2@h",
            "http://u:hunter2@h",
            "redis://u:hunter2@h?x",
            "u:hunter2@h",
        ] {
            let mistake = url(text).unwrap_err();
            let told = format!("{}{}", mistake.message, mistake.advice.unwrap_or_default());
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    /// Goal: lists of nodes need ports, and nothing else. Method: slips.
    #[test]
    fn nodes_are_hosts_with_ports() {
        assert_eq!(
            host_port("a.b:1").map(|address| address.to_string()),
            Ok("a.b:1".to_owned())
        );
        assert_eq!(
            host_port("[::1]:1").map(|address| address.to_string()),
            Ok("[::1]:1".to_owned())
        );
        for text in [
            "a",
            "a:",
            "a:0",
            "a:65536",
            ":1",
            "",
            "redis://a:1",
            "[::1]",
            "[a]:1",
            "[::1",
            "a b:1",
            "::1:1",
        ] {
            assert!(host_port(text).is_err(), "{text}");
        }
    }
}
