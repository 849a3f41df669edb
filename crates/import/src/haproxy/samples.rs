//! Reads the samples of HAProxy that keys and counters are made of.

pub(super) use crate::cells::{CounterKind, TableCounter};
use crate::client_fields;
use crate::model::KeyPart;

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

/// The key that a sample is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SampleKey {
    pub(super) parts: Vec<KeyPart>,
    /// The differences, a sentence each.
    pub(super) differences: Vec<String>,
    /// The field that it reads, where only a proxy may write that.
    pub(super) proxy_field: Option<String>,
}

const ADDRESSES: &str = "IPv6 clients are counted by /64; write \"client.ip/32,/128\" to count single addresses as HAProxy does";
const WITHOUT_QUERY: &str = "the path is counted without its query";
const BY_FIELD: &str = "the client is counted, as [client] trusted_proxies identifies it; HAProxy counts by a field that every client can \
     write";

/// Returns the key of a sample.
///
/// # Errors
///
/// The reason for which no key is this sample.
pub(super) fn key(sample: &str) -> Result<SampleKey, String> {
    let unknown = || format!("no key is {sample:?}");
    let (name, converters) = with_converters(sample);
    let with = |parts: Vec<KeyPart>, differences: &[&str]| SampleKey {
        parts,
        differences: differences.iter().map(|&it| it.to_owned()).collect(),
        proxy_field: None,
    };
    if name == "src" && !converters.is_empty() {
        return network(converters)
            .map_or_else(|| Err(unknown()), |part| Ok(with(vec![part], &[])));
    }
    if let Some(field) = field(name) {
        let field = field.to_ascii_lowercase();
        let form = match converters {
            "" => "",
            "lower" => " | lower",
            _ => return Err(unknown()),
        };
        return Ok(match field.as_str() {
            "host" => with(vec![KeyPart::Host], &[]),
            name if client_fields::names_client(name) => SampleKey {
                proxy_field: Some(field.clone()),
                ..with(vec![KeyPart::ClientIp], &[BY_FIELD])
            },
            name => SampleKey {
                proxy_field: client_fields::is_removed(name).then(|| field.clone()),
                ..with(vec![KeyPart::Header(format!("{name}{form}"))], &[])
            },
        });
    }
    if !converters.is_empty() {
        return Err(unknown());
    }
    let key = match name {
        "src" => with(vec![KeyPart::ClientIp], &[ADDRESSES]),
        "path" => with(vec![KeyPart::Path], &[]),
        "method" => with(vec![KeyPart::Method], &[]),
        "base" | "base32" | "url" | "url32" => {
            with(vec![KeyPart::Host, KeyPart::Path], &[WITHOUT_QUERY])
        }
        "base32+src" | "url32+src" => with(
            vec![KeyPart::Host, KeyPart::Path, KeyPart::ClientIp],
            &[WITHOUT_QUERY, ADDRESSES],
        ),
        _ => with(vec![value(name).ok_or_else(unknown)?], &[]),
    };
    Ok(key)
}

/// Returns the network of the client's address that `ipmask` makes.
fn network(converters: &str) -> Option<KeyPart> {
    let lengths = converters.strip_prefix("ipmask(")?.strip_suffix(')')?;
    let (v4, v6) = lengths.split_once(',').unwrap_or((lengths, "64"));
    Some(KeyPart::ClientNetwork(v4.parse().ok()?, v6.parse().ok()?))
}

/// Returns the name of the field that a sample such as `req.hdr(x)` or `hdr_ip(x,-1)` reads.
pub(super) fn field(sample: &str) -> Option<&str> {
    let (name, rest) = sample.split_once('(')?;
    let is_field = matches!(
        name,
        "hdr" | "req.hdr" | "req.fhdr" | "hdr_ip" | "req.hdr_ip"
    );
    let argument = rest.trim_end_matches(')').split(',').next()?.trim();
    (is_field && !argument.is_empty()).then_some(argument)
}

fn value(sample: &str) -> Option<KeyPart> {
    let (name, rest) = sample.split_once('(')?;
    let argument = rest.trim_end_matches(')').to_owned();
    match name {
        _ if argument.is_empty() => None,
        "cook" | "req.cook" => Some(KeyPart::Cookie(argument)),
        "url_param" | "urlp" => Some(KeyPart::Query(argument)),
        _ => None,
    }
}

/// Returns the pieces between commas; those between parentheses separate arguments.
pub(super) fn pieces(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// Returns a sample, and the converters behind it.
pub(super) fn with_converters(sample: &str) -> (&str, &str) {
    let name = pieces(sample).next().unwrap_or_default();
    (name, sample[name.len()..].trim_start_matches(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a field in which a proxy names the client is the client, with the occurrence and without, and a converter is never ignored.
    /// Method: fields of balancers and clouds, fields of clients, converters.
    #[test]
    fn fields_that_name_the_client_are_the_client() {
        for (sample, name) in [
            ("hdr_ip(X-Forwarded-For)", "x-forwarded-for"),
            ("req.hdr_ip(x-forwarded-for,-1)", "x-forwarded-for"),
            ("req.hdr(CF-Connecting-IP)", "cf-connecting-ip"),
            ("hdr(True-Client-IP)", "true-client-ip"),
            ("req.hdr_ip(X-Real-IP)", "x-real-ip"),
            ("req.fhdr(DO-Connecting-IP)", "do-connecting-ip"),
        ] {
            let key = key(sample).unwrap();
            assert_eq!(key.parts, [KeyPart::ClientIp], "{sample}");
            assert_eq!(key.proxy_field.as_deref(), Some(name));
        }
        let parts = |sample: &str| key(sample).map(|it| it.parts);
        let header = |name: &str| vec![KeyPart::Header(name.to_owned())];
        assert_eq!(parts("req.hdr(X-Key)"), Ok(header("x-key")));
        assert_eq!(parts("hdr(X-Key),lower"), Ok(header("x-key | lower")));
        assert_eq!(
            parts("src,ipmask(24,56)"),
            Ok(vec![KeyPart::ClientNetwork(24, 56)])
        );
        for sample in [
            "hdr(x-key),field(1,:)",
            "src,table_http_req_rate",
            "path,word(1,/)",
            "x",
        ] {
            assert!(key(sample).is_err(), "{sample}");
        }
    }
}
