//! Owns how hosts are written: what a route matches, and what an origin or a health check is sent.

use std::net::Ipv6Addr;
use std::sync::Arc;

use http::HeaderValue;
use sluicegate_base::bounds::HOST_BYTES;

use super::field::quoted;
use super::problem::ParseError;
use super::rules::HostMatch;

/// The host of a route: lower case, without port; with `*.` before it, everything under it.
pub(super) fn matched(text: &str) -> Result<HostMatch, ParseError> {
    match text.strip_prefix("*.") {
        Some(parent) if !parent.contains('*') => under(text, parent),
        _ => exact(text).map(HostMatch::Exact),
    }
}

/// `*.example.com`
fn under(text: &str, parent: &str) -> Result<HostMatch, ParseError> {
    let parent = exact(parent)?;
    let is_address = parent.starts_with('[') || parent.rsplit('.').next().is_some_and(is_number);
    if is_address {
        return Err(ParseError::with_advice(
            format!(
                "{} stands for names under an address, and there are none",
                quoted(text)
            ),
            format!(
                "write {}, or leave the key out to take any host",
                quoted(&parent)
            ),
        ));
    }
    Ok(HostMatch::Under(parent))
}

/// Returns whether a last label makes its host an IPv4 address or nothing.
fn is_number(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit())
}

/// A host without a wildcard: lower case, without port.
pub(super) fn exact(text: &str) -> Result<Arc<str>, ParseError> {
    let wrong = |what: &str, advice: String| {
        Err(ParseError::with_advice(
            format!("{} {what}", quoted(text)),
            advice,
        ))
    };
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split('/').next().unwrap_or_default();
        return wrong(
            "is a URL",
            format!("write the host alone: {}", quoted(host)),
        );
    }
    if text.contains('*') {
        return wrong(
            "has a wildcard that is not its whole first label",
            "write \"*.example.com\" for all names under one, or leave the key out to take any host".to_owned(),
        );
    }
    if !text.is_ascii() {
        return wrong(
            "is not ASCII, as hosts are sent",
            "write its punycode form: \"xn--bcher-kva.example\"".to_owned(),
        );
    }
    if let Some((host, port)) = split_port(text) {
        let advice = format!(
            "write {}: requests are matched whatever port they name",
            quoted(host)
        );
        return wrong(&format!("names the port {port}"), advice);
    }
    let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    match lower
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(address) => match address.parse::<Ipv6Addr>() {
            Ok(address) => Ok(format!("[{address}]").into()),
            Err(_) => wrong(
                "is no IPv6 address",
                "write it as \"[2001:db8::1]\"".to_owned(),
            ),
        },
        None if is_host(&lower) => Ok(lower.into()),
        None => wrong(
            "is not a host",
            "write a name such as \"api.example.com\"".to_owned(),
        ),
    }
}

/// A value of the `Host` field that is sent: a host with or without a port.
pub(super) fn sent(text: &str) -> Result<HeaderValue, ParseError> {
    let host = split_port(text).map_or(text, |(host, _)| host);
    let bracketed = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let sound = match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => is_host(&host.to_ascii_lowercase()),
    };
    match HeaderValue::from_str(text) {
        Ok(value) if sound => Ok(value),
        _ => Err(ParseError::with_advice(
            format!("{} cannot be sent as Host", quoted(text)),
            "write a host with or without a port: \"app.internal\", \"app.internal:8443\"",
        )),
    }
}

/// Host and port of `host:port`; nothing where there is no port.
fn split_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let whole = !host.contains(':') || host.ends_with(']');
    let port = port
        .parse()
        .ok()
        .filter(|_| port.bytes().all(|b| b.is_ascii_digit()))?;
    whole.then_some((host, port))
}

/// A name of one or more labels, in lower case.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_~".contains(&byte)
            })
    };
    text.len() <= HOST_BYTES && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a route's host is what requests are compared with. Method: spellings of one host, and what is none.
    #[test]
    fn a_matched_host_is_exact_and_lower_case() {
        let read = |text| matched(text).unwrap().to_string();
        assert_eq!(read("API.Example.com."), "api.example.com");
        assert_eq!(read("[2001:DB8:0::1]"), "[2001:db8::1]");
        assert_eq!(read("127.0.0.1"), "127.0.0.1");
        let under = HostMatch::Under("example.com".into());
        assert_eq!(matched("*.Example.com."), Ok(under));
        let advice = |text| matched(text).unwrap_err().advice.unwrap();
        assert!(advice("example.com:8080").starts_with("write \"example.com\""));
        assert!(advice("https://example.com/x").ends_with("\"example.com\""));
        for wrong in [
            "",
            ".",
            "a..b",
            "*",
            "*.",
            "a*.example.com",
            "*.*.example.com",
            "*.10.0.0.1",
            "*.[::1]",
            "*.example.com:80",
            "bücher.example",
            "a b",
            "[::1",
            "::1",
            "user@host",
        ] {
            assert!(matched(wrong).is_err(), "{wrong}");
        }
    }

    /// Goal: a route meets the requests for its host. Method: what is read is in the normal form of requests.
    #[test]
    fn a_matched_host_is_in_the_normal_form_of_requests() {
        for text in [
            "API.Example.com.",
            "[2001:DB8:0::1]",
            "10.0.0.1",
            "a_b~c.example",
        ] {
            let host = matched(text).unwrap().to_string();
            assert_eq!(
                sluicegate_base::host::normalize(&host).as_deref(),
                Ok(&*host)
            );
        }
    }

    /// Goal: what is sent as Host can be sent. Method: ports, addresses and what would split a header.
    #[test]
    fn a_sent_host_may_name_a_port() {
        for right in ["app", "App.internal:8443", "[::1]:80", "10.0.0.1"] {
            assert!(sent(right).is_ok(), "{right}");
        }
        for wrong in ["", "a\r\nb", "a/b", "a:99999", "a:", ":80", "::1"] {
            assert!(sent(wrong).is_err(), "{wrong}");
        }
    }
}
