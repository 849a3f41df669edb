//! Reads the samples of HAProxy that keys and counters are made of.

use crate::model::KeyPart;

/// A counter of a stick table, by which entry it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableCounter {
    pub(super) kind: CounterKind,
    /// The number of the sticky counter; `None` for the entry of the client's address.
    pub(super) tracked: Option<u8>,
    /// The table, where it is named.
    pub(super) table: Option<String>,
}

/// The events that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CounterKind {
    /// `http_req_rate`
    Requests,
    /// `http_err_rate`
    Errors,
    /// `conn_cur`
    InFlight,
}

impl CounterKind {
    /// Returns the word by which a stick table stores it.
    pub(super) fn stored(self) -> &'static str {
        match self {
            Self::Requests => "http_req_rate",
            Self::Errors => "http_err_rate",
            Self::InFlight => "conn_cur",
        }
    }
}

/// Returns the counter of a sample such as `sc_http_req_rate(0)`; `None` where the sample is no counter.
///
/// # Errors
///
/// The reason for which a counter has no counterpart.
pub(super) fn counter(sample: &str) -> Result<Option<TableCounter>, String> {
    let (name, arguments) = match sample.split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (sample, ""),
    };
    let mut arguments = arguments
        .split(',')
        .map(str::trim)
        .filter(|it| !it.is_empty());
    let (tracked, what) = if let Some(what) = name.strip_prefix("src_") {
        (None, what)
    } else if let Some(what) = name.strip_prefix("sc_") {
        let number = arguments.next().and_then(|number| number.parse().ok());
        (
            Some(number.ok_or("the number of a sticky counter is expected")?),
            what,
        )
    } else if let Some((number, what)) = name
        .strip_prefix("sc")
        .and_then(|rest| rest.split_once('_'))
    {
        let Ok(number) = number.parse() else {
            return Ok(None);
        };
        (Some(number), what)
    } else {
        return Ok(None);
    };
    let kind = match what {
        "http_req_rate" => CounterKind::Requests,
        "http_err_rate" => CounterKind::Errors,
        "conn_cur" => CounterKind::InFlight,
        "port" | "is_local" => return Ok(None),
        other => {
            return Err(format!(
                "limits count requests, errors and requests in flight, not {other}"
            ));
        }
    };
    Ok(Some(TableCounter {
        kind,
        tracked,
        table: arguments.next().map(str::to_owned),
    }))
}

/// Returns the key of a sample, and what it means otherwise.
///
/// # Errors
///
/// The reason for which no key is this sample.
pub(super) fn key(sample: &str) -> Result<(Vec<KeyPart>, Vec<String>), String> {
    let mut pieces = sample.split(',');
    let name = pieces.next().unwrap_or_default();
    // The comma in `ipmask(24,64)` and `hdr(x,-1)` is none between converters.
    let converters: Vec<&str> = pieces.collect();
    let mut differences = Vec::new();
    let address = "IPv6 clients are counted by /64; write \"client.ip/32,/128\" to count single addresses as HAProxy does";
    let parts = match name {
        "src" => match converters.as_slice() {
            [] => {
                differences.push(address.to_owned());
                vec![KeyPart::ClientIp]
            }
            [v4] | [v4, _] if v4.starts_with("ipmask(") => {
                let v4 = v4
                    .trim_start_matches("ipmask(")
                    .trim_end_matches(')')
                    .parse();
                let v6 = converters
                    .get(1)
                    .map_or(Ok(64), |v6| v6.trim_end_matches(')').parse());
                match (v4, v6) {
                    (Ok(v4), Ok(v6)) => vec![KeyPart::ClientNetwork(v4, v6)],
                    _ => return Err(format!("{sample:?} has no prefix lengths")),
                }
            }
            _ => return Err(format!("no key is {sample:?}")),
        },
        "path" => vec![KeyPart::Path],
        "method" => vec![KeyPart::Method],
        "base" | "base32" | "url" | "url32" => {
            differences.push("the path is counted without its query".to_owned());
            vec![KeyPart::Host, KeyPart::Path]
        }
        "base32+src" | "url32+src" => {
            differences.push("the path is counted without its query".to_owned());
            differences.push(address.to_owned());
            vec![KeyPart::Host, KeyPart::Path, KeyPart::ClientIp]
        }
        _ => vec![value(name).ok_or_else(|| format!("no key is {sample:?}"))?],
    };
    if parts == [KeyPart::ClientIp] && name != "src" {
        differences.push(
            "the client is counted, as [client] trusted_proxies identifies it; HAProxy counts by a field that every client can write"
                .to_owned(),
        );
    }
    Ok((parts, differences))
}

fn value(sample: &str) -> Option<KeyPart> {
    let (name, rest) = sample.split_once('(')?;
    let argument = rest.trim_end_matches(')');
    if argument.is_empty() {
        return None;
    }
    let part = match name {
        "hdr" | "req.hdr" | "req.fhdr" if argument.eq_ignore_ascii_case("host") => KeyPart::Host,
        "hdr" | "req.hdr" | "req.fhdr" | "hdr_ip" | "req.hdr_ip"
            if argument.eq_ignore_ascii_case("x-forwarded-for") =>
        {
            KeyPart::ClientIp
        }
        "hdr" | "req.hdr" | "req.fhdr" => KeyPart::Header(argument.to_ascii_lowercase()),
        "cook" | "req.cook" => KeyPart::Cookie(argument.to_owned()),
        "url_param" | "urlp" => KeyPart::Query(argument.to_owned()),
        _ => return None,
    };
    Some(part)
}
