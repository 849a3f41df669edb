//! Reads the addresses of sites: `example.com`, `http://example.com:8080`, `:80`, `*.example.com`.

use std::net::IpAddr;

use super::evaluation::RequestScheme;

/// An address of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteAddress {
    pub(super) scheme: Option<RequestScheme>,
    /// In lower case; `None` where every host is meant.
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    /// A pattern of paths, which old files have.
    pub(super) path: Option<String>,
}

/// A host for an address that a variable of the environment has.
const TO_NAME: &str = "name-the-host.invalid";

impl SiteAddress {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// The reason for which it is none.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Some(RequestScheme::Http), rest),
            Some(("https", rest)) => (Some(RequestScheme::Https), rest),
            Some((scheme, _)) => return Err(format!("no site has the scheme {scheme}")),
            None => (None, text),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(format!("/{path}"))),
            None => (rest, None),
        };
        let has_variable = authority.contains('{');
        let (host, port) = match authority.rsplit_once(':') {
            _ if has_variable => (TO_NAME, None),
            Some((host, port)) if !port.contains(']') && !host.contains("::") => (host, Some(port)),
            Some((host, port)) if host.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            None | Some("") => None,
            Some(port) => Some(port.parse().map_err(|_| format!("{port} is no port"))?),
        };
        let is_host = |c: char| c.is_alphanumeric() || ".-_*:[]".contains(c);
        if !host.chars().all(is_host) {
            return Err(format!("{host} is no host"));
        }
        let host = host.trim_end_matches('.').to_lowercase();
        if host == "*" {
            return Err("`*` is each host of one label, which no host of a route is".to_owned());
        }
        Ok(Self {
            scheme,
            host: (!host.is_empty()).then_some(host),
            port,
            path: path.filter(|it| it != "/"),
        })
    }

    /// Returns the port that the site listens at.
    pub(super) fn listens_at(&self, http: u16, https: u16) -> u16 {
        let usual = match self.scheme {
            Some(RequestScheme::Http) => http,
            _ => https,
        };
        self.port.unwrap_or(usual)
    }
}

/// Returns true if public authorities issue no certificate for a host, so that Caddy makes one itself.
pub(super) fn is_internal(host: &str) -> bool {
    let endings = [".localhost", ".local", ".internal", ".home.arpa"];
    let address = host.trim_matches(['[', ']']);
    host == "localhost"
        || !host.contains('.')
        || endings.iter().any(|ending| host.ends_with(ending))
        || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: addresses are those of Caddy. Method: each form, and some that are none.
    #[test]
    fn addresses_are_read() {
        let read = |text: &str| {
            let address = SiteAddress::read(text).unwrap();
            let host = address.host.clone().unwrap_or_default();
            format!("{host} {}", address.listens_at(80, 443))
        };
        assert_eq!(read("Example.com"), "example.com 443");
        assert_eq!(read("http://example.com"), "example.com 80");
        assert_eq!(read("example.com:8080"), "example.com 8080");
        assert_eq!(read(":8080"), " 8080");
        assert_eq!(read("http://"), " 80");
        assert_eq!(read("[::1]:8443"), "[::1] 8443");
        assert_eq!(read("[::1]"), "[::1] 443");
        assert_eq!(read("*.a.test"), "*.a.test 443");
        assert_eq!(
            SiteAddress::read("a.test/x/*").unwrap().path.as_deref(),
            Some("/x/*")
        );
        for text in ["ws://a", "a:b", "a b", "a;b"] {
            assert!(SiteAddress::read(text).is_err(), "{text}");
        }
    }
}
