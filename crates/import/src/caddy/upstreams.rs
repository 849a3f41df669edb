//! Reads the addresses of upstreams: `HOST:PORT`, `:PORT`, URLs, ranges of ports, Unix sockets.

use std::net::IpAddr;

use sluicegate_base::bounds::POOL_SERVERS;

/// The scheme of upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UpstreamScheme {
    #[default]
    Http,
    Https,
    H2c,
}

/// The servers of an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UpstreamServers {
    pub(super) scheme: UpstreamScheme,
    pub(super) servers: Vec<String>,
}

/// Reads an address.
///
/// # Errors
///
/// The reason for which it has no counterpart.
pub(super) fn read(text: &str) -> Result<UpstreamServers, String> {
    if text.contains('{') {
        return Err(format!("a server has no placeholder: {text}"));
    }
    for (begin, scheme) in [
        ("unix/", UpstreamScheme::Http),
        ("unix+h2c/", UpstreamScheme::H2c),
    ] {
        if let Some(path) = text.strip_prefix(begin) {
            if !path.starts_with('/') {
                return Err("the path of its socket is relative; write the whole path".to_owned());
            }
            // `|0200` is the mode of a socket that Caddy makes.
            let path = path.split('|').next().unwrap_or(path);
            return Ok(UpstreamServers {
                scheme,
                servers: vec![format!("unix:{path}")],
            });
        }
    }
    let (scheme, authority) = match text.split_once("://") {
        Some(("http", rest)) => (UpstreamScheme::Http, rest),
        Some(("https", rest)) => (UpstreamScheme::Https, rest),
        Some(("h2c", rest)) => (UpstreamScheme::H2c, rest),
        Some((other, _)) => return Err(format!("no server is reached by {other}")),
        None => (
            UpstreamScheme::Http,
            text.strip_prefix("tcp/").unwrap_or(text),
        ),
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.is_empty() || authority.contains(['/', '@', '?']) {
        return Err(format!("{text} is no address of a server"));
    }
    let (host, ports) = split(authority);
    let usual = if scheme == UpstreamScheme::Https {
        443
    } else {
        80
    };
    let (first, last) = match ports.map(|it| it.split_once('-').unwrap_or((it, it))) {
        None => (usual, usual),
        Some((first, last)) => {
            let port = |it: &str| it.parse().map_err(|_| format!("{it} is no port"));
            (port(first)?, port(last)?)
        }
    };
    let range: std::ops::RangeInclusive<u16> = first..=last;
    if first == 0 || first > last || usize::from(last - first) >= POOL_SERVERS {
        return Err(format!("{text} has no range of ports"));
    }
    // Without a host Caddy connects to its own machine.
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Ok(UpstreamServers {
        scheme,
        servers: range.map(|port| format!("{host}:{port}")).collect(),
    })
}

/// Cuts an authority into its host, with brackets, and its port.
fn split(authority: &str) -> (&str, Option<&str>) {
    if authority.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6()) {
        return (authority, None);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Returns the Host of a server: without the port that its scheme implies.
pub(super) fn host(server: &str, scheme: UpstreamScheme) -> String {
    let usual = match scheme {
        UpstreamScheme::Https => ":443",
        UpstreamScheme::Http | UpstreamScheme::H2c => ":80",
    };
    server.strip_suffix(usual).unwrap_or(server).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: addresses are those of Caddy. Method: each form, and some that are none.
    #[test]
    fn addresses_are_read() {
        let servers = |text: &str| read(text).map(|it| it.servers.join(" "));
        assert_eq!(servers(":3000").as_deref(), Ok("127.0.0.1:3000"));
        assert_eq!(servers("app").as_deref(), Ok("app:80"));
        assert_eq!(servers("https://a.test").as_deref(), Ok("a.test:443"));
        assert_eq!(servers("[::1]:80").as_deref(), Ok("[::1]:80"));
        assert_eq!(
            servers("a:8001-8003").as_deref(),
            Ok("a:8001 a:8002 a:8003")
        );
        assert_eq!(
            servers("unix//run/a.sock").as_deref(),
            Ok("unix:/run/a.sock")
        );
        assert_eq!(read("unix+h2c//run/a").unwrap().scheme, UpstreamScheme::H2c);
        for text in [
            "",
            "a:x",
            "a:9-8",
            "a:1-9999",
            "{env.X}:80",
            "ws://a",
            "http://a/b",
            "unix/a",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
