//! Owns how keys are written: `"client.ip"`, `"client.ip/24,/56"`, `["client.ip", "header.x-api-key"]`.
//!
//! What follows a `|` is read in [`super::normalizer`].

use std::sync::Arc;

use http::HeaderName;
use sluicegate_base::bounds::POINTER_STEPS;
use sluicegate_base::geo::GeoField;
use sluicegate_base::parameter_name::{OtherNames, is_canonical};

use super::field::{KeyField, all, quoted};
use super::key_notation;
use super::normalizer;
use super::problem::ParseError;
use super::rules::{KeyPart, KeyTemplate, OnMissing, Pointer, ValuePart, ValueSource};
use super::section::TableSection;
use super::suggest;

/// Most parts of a key.
const MOST: usize = 8;

/// Longest name of a value, in bytes.
const LONGEST_NAME: usize = 128;

/// The parts that exist.
const PARTS: [&str; 9] = [
    "client.ip",
    "client.country",
    "client.city",
    "client.asn",
    "client.crawler",
    "host",
    "path",
    "method",
    "global",
];

/// The forms of values, for advice.
const VALUES: [&str; 10] = [
    "header.NAME",
    "cookie.NAME",
    "query.NAME",
    "path.NAME",
    "jwt.NAME",
    "body.json.NAME",
    "body.form.NAME",
    "tls.client.subject",
    "tls.client.fingerprint",
    "tls.ja4",
];

/// The `key` of a limit: a part, or a list of them.
pub(super) fn template(field: &KeyField<'_>) -> Option<KeyTemplate> {
    if let toml::de::DeValue::String(_) = field.value {
        return Some(KeyTemplate(vec![field.parsed(part)?]));
    }
    let toml::de::DeValue::Array(_) = field.value else {
        return field.unexpected("a part of a key, or a list of them");
    };
    let elements = field.list()?;
    if elements.len() > MOST {
        let message = format!("{} parts are too many for a key", elements.len());
        return field.refuse(message, format!("keep at most {MOST}"));
    }
    let parts = all(elements.iter().map(|element| element.parsed(part)))?;
    let mut sound = true;
    for (at, (part, element)) in parts.iter().zip(&elements).enumerate() {
        if parts[..at].iter().any(|earlier| is_same(earlier, part)) {
            let message = format!("the key has a part \"{}\" already", name(part));
            element.refuse::<()>(message, once(part));
            sound = false;
        } else if *part == KeyPart::Global && parts.len() > 1 {
            element.refuse::<()>(
                "\"global\" means one counter for all, so no other part can stand beside it",
                "leave it out, or write key = \"global\" alone",
            );
            sound = false;
        }
    }
    sound.then_some(KeyTemplate(parts))
}

/// Reads the `other_names` of a limit into the parts of its key, whose own names must be readable by it.
pub(super) fn with_other_names(
    key_field: &KeyField<'_>,
    mut key: KeyTemplate,
    other_names: Option<&KeyField<'_>>,
) -> Option<KeyTemplate> {
    let others = match other_names {
        Some(field) => others(field, &key)?,
        None => OtherNames::Canonical,
    };
    let mut is_sound = true;
    for part in &mut key.0 {
        let KeyPart::Value(value) = part else {
            continue;
        };
        value.other_names = others;
        let is_readable = match &value.source {
            ValueSource::Cookie(name) => is_canonical(name.as_bytes()),
            ValueSource::Query(name) | ValueSource::Form(name) => {
                others == OtherNames::Any || is_canonical(name.as_bytes())
            }
            _ => true,
        };
        if !is_readable {
            let message = format!(
                "the name in \"{}\" is one that parsers read in different ways",
                value.source
            );
            let advice = match value.source {
                ValueSource::Cookie(_) => "keep to letters, digits and _ - . [ ] ( ) ~ : @ $ !",
                _ => {
                    "keep to letters, digits and _ - . [ ] ( ) ~ : @ $ !, or write other_names = \"any\""
                }
            };
            key_field.refuse::<()>(message, advice);
            is_sound = false;
        }
    }
    is_sound.then_some(key)
}

fn others(field: &KeyField<'_>, key: &KeyTemplate) -> Option<OtherNames> {
    let words = [
        ("canonical", OtherNames::Canonical),
        ("any", OtherNames::Any),
    ];
    let choice = field.word(&words, |got| format!("{got} says nothing about names"))?;
    if !key.values().any(ValuePart::has_names_beside) {
        return field.refuse(
            "no part of this key is a parameter of a query or a form",
            "leave other_names out",
        );
    }
    if choice == OtherNames::Any {
        field.warn(
            "an origin that rewrites names of parameters can read another value than this limit counts",
            "leave other_names out where the names of all parameters have only letters, digits and _ - . [ ] ( ) ~ : @ $ !",
        );
    }
    Some(choice)
}

/// Returns whether requests can lack this part of a key; false for a text that is no part, which a configuration with it reports.
#[must_use]
pub fn key_part_can_be_absent(text: &str) -> bool {
    matches!(part(text), Ok(KeyPart::Value(value)) if value.can_be_absent())
}

/// The `on_missing` of a limit: required exactly where a part of its key can be absent.
pub(super) fn on_missing(
    section: &TableSection<'_>,
    key: Option<&KeyTemplate>,
) -> Option<Option<OnMissing>> {
    let field = section.field("on_missing", "\"refuse\"");
    let written = match &field {
        Some(field) => Some(choice(field)?),
        None => None,
    };
    let uncertain = key?.uncertain();
    match (&field, uncertain) {
        (None, Some(value)) => {
            section.report.absent(
                &section.place,
                format!("nothing is said about requests without \"{value}\""),
                "write on_missing = \"refuse\" to answer them with 400, \"ip\" to count them by address, \"shared\" to count them \
                 together, or \"skip\" to leave them uncounted",
            );
            None
        }
        (Some(field), None) => field.refuse(
            "every request has all parts of this key",
            "leave on_missing out",
        ),
        _ => Some(written),
    }
}

fn choice(field: &KeyField<'_>) -> Option<OnMissing> {
    let words = OnMissing::ALL.map(|choice| (choice.as_str(), choice));
    field.word(&words, |got| {
        format!("{got} says nothing about missing parts")
    })
}

/// One part.
pub(super) fn part(text: &str) -> Result<KeyPart, ParseError> {
    let (source, normalizers) = match text.split_once('|') {
        Some((source, rest)) => (source.trim(), Some(rest)),
        None => (text, None),
    };
    let part = source_part(source)?;
    let Some(normalizers) = normalizers else {
        return Ok(part);
    };
    match part {
        KeyPart::Value(value) => Ok(KeyPart::Value(ValuePart {
            normalizers: normalizer::all(normalizers)?,
            ..value
        })),
        _ => Err(ParseError::with_advice(
            format!("{} is in its normal form already", quoted(source)),
            format!("write \"{source}\" alone"),
        )),
    }
}

fn source_part(text: &str) -> Result<KeyPart, ParseError> {
    match text {
        "host" => return Ok(KeyPart::Host),
        "path" => return Ok(KeyPart::Path),
        "method" => return Ok(KeyPart::Method),
        "client.country" => return Ok(KeyPart::Place(GeoField::Country)),
        "client.city" => return Ok(KeyPart::Place(GeoField::City)),
        "client.asn" => return Ok(KeyPart::Place(GeoField::Asn)),
        "client.crawler" => return Ok(KeyPart::Crawler),
        "global" => return Ok(KeyPart::Global),
        "client.ip" => return Ok(KeyPart::ClientIp { v4: 32, v6: 64 }),
        "tls.client.subject" => return Ok(plain_value(ValueSource::CertificateSubject)),
        "tls.ja4" => return Ok(plain_value(ValueSource::Ja4)),
        "tls.client.fingerprint" => return Ok(plain_value(ValueSource::CertificateFingerprint)),
        _ => {}
    }
    if let Some(prefixes) = text.strip_prefix("client.ip/") {
        return client_ip(text, prefixes);
    }
    if let Some((kind, name)) = kind_and_name(text)
        && let Some(source) = value(kind, name)
    {
        return source.map(plain_value);
    }
    Err(unknown(text))
}

fn plain_value(source: ValueSource) -> KeyPart {
    KeyPart::Value(ValuePart {
        source,
        normalizers: Vec::new(),
        other_names: OtherNames::Canonical,
    })
}

/// The kind of a value, which has two words for those in bodies, and its name.
fn kind_and_name(text: &str) -> Option<(&str, &str)> {
    for kind in ["body.json", "body.form"] {
        if let Some(rest) = text.strip_prefix(kind)
            && let Some(name) = rest.strip_prefix('.')
        {
            return Some((kind, name));
        }
    }
    text.split_once('.')
}

/// A value by its kind; `None` where there is no such kind.
fn value(kind: &str, name: &str) -> Option<Result<ValueSource, ParseError>> {
    let source = match kind {
        "header" => return Some(header_source(name)),
        "cookie" => ValueSource::Cookie,
        "query" => ValueSource::Query,
        "path" => ValueSource::PathParameter,
        "body.form" => ValueSource::Form,
        "jwt" => return Some(pointer(kind, name).map(ValueSource::Claim)),
        "body.json" => return Some(pointer(kind, name).map(ValueSource::Json)),
        _ => return None,
    };
    let sound = (1..=LONGEST_NAME).contains(&name.len())
        && !name.contains(|character: char| character.is_control() || character == ' ');
    Some(if sound {
        Ok(source(Arc::from(name)))
    } else {
        Err(ParseError::with_advice(
            format!(
                "{} has no name of a value",
                quoted(&format!("{kind}.{name}"))
            ),
            format!("write 1 to {LONGEST_NAME} bytes without spaces, as in \"{kind}.id\""),
        ))
    })
}

/// A name at the top, or a JSON pointer (RFC 6901).
pub(super) fn pointer(kind: &str, text: &str) -> Result<Pointer, ParseError> {
    let whole = format!("{kind}.{text}");
    let wrong = |what: &str, advice: String| {
        Err(ParseError::with_advice(
            format!("{} {what}", quoted(&whole)),
            advice,
        ))
    };
    if text.is_empty() || text.len() > LONGEST_NAME || text.contains(char::is_control) {
        return wrong(
            "has no name of a value",
            format!("write 1 to {LONGEST_NAME} bytes, as in \"{kind}.name\""),
        );
    }
    let Some(rest) = text.strip_prefix('/') else {
        if text.contains('.') {
            // `a.b` may be a name, or two.
            let nested = text.replace('.', "/");
            return wrong(
                "can be read in two ways",
                format!(
                    "write \"{kind}./{nested}\" for what is nested, or \"{kind}./{text}\" for one name with dots"
                ),
            );
        }
        return Ok(Pointer(vec![Arc::from(text)]));
    };
    let steps: Vec<&str> = rest.split('/').collect();
    if steps.len() > POINTER_STEPS {
        let most = format!("keep at most {POINTER_STEPS}");
        return wrong("has too many steps", most);
    }
    let is_escaped = |step: &&str| {
        step.split('~')
            .skip(1)
            .all(|tail| tail.starts_with(['0', '1']))
    };
    if !steps.iter().all(is_escaped) {
        return wrong(
            "has a ~ that escapes nothing",
            "write ~0 for ~ and ~1 for / within a name".to_owned(),
        );
    }
    let plain = |step: &str| Arc::from(step.replace("~1", "/").replace("~0", "~"));
    Ok(Pointer(steps.into_iter().map(plain).collect()))
}

fn header_source(name: &str) -> Result<ValueSource, ParseError> {
    let header = HeaderName::try_from(name).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a header", quoted(name)),
            "write one such as \"header.x-api-key\"",
        )
    })?;
    let better = match header.as_str() {
        "host" => "host",
        "cookie" => "cookie.NAME",
        // Proxies add to these, so a client that writes another beginning would have another counter.
        "x-forwarded-for" | "forwarded" => {
            return Err(ParseError::with_advice(
                format!("clients write the beginning of the header {header} themselves"),
                "write \"client.ip\", and the addresses of your proxies in [client] trusted_proxies",
            ));
        }
        _ => return Ok(ValueSource::Header(header)),
    };
    Err(ParseError::with_advice(
        format!("the header {header} has a part of its own"),
        format!("write \"{better}\""),
    ))
}

fn unknown(text: &str) -> ParseError {
    let parts = format!(
        "the parts are client.ip, client.ip/24,/56, client.country, client.city, client.asn, client.crawler, host, path, method, \
         global, {}",
        VALUES.join(", ")
    );
    let message = format!("{} is not a part of a key", quoted(text));
    let pieces: Vec<&str> = text
        .split([',', '+', ' '])
        .filter(|piece| !piece.is_empty())
        .collect();
    if pieces.len() > 1 && pieces.iter().all(|piece| source_part(piece).is_ok()) {
        return ParseError::with_advice(message, format!("write a list: key = {pieces:?}"));
    }
    if let Some(part) = elsewhere(text).or_else(|| key_notation::part(text)) {
        return ParseError::with_advice(message, format!("write \"{part}\""));
    }
    let meant = match text.split_once('.') {
        Some(("json" | "body" | "form", name)) if !name.is_empty() => {
            let form = format!("\"body.form.{name}\" for a form");
            return ParseError::with_advice(
                message,
                format!("write \"body.json.{name}\" for a JSON body, {form}"),
            );
        }
        Some((kind, name)) if !name.is_empty() => {
            let kinds = ["header", "cookie", "query", "path", "jwt"];
            suggest::nearest(kind, kinds).map(|kind| format!("{kind}.{name}"))
        }
        _ => None,
    };
    let meant = suggest::nearest(text, PARTS).map(str::to_owned).or(meant);
    ParseError::with_advice(
        message,
        match meant {
            Some(meant) => format!("did you mean {}? {parts}", quoted(&meant)),
            None => parts,
        },
    )
}

/// The part that other products call otherwise: nginx, HAProxy, Traefik, Cloudflare, Envoy.
fn elsewhere(text: &str) -> Option<String> {
    let folded = text.trim_start_matches('$').to_ascii_lowercase();
    let part = match folded.as_str() {
        "ip"
        | "src"
        | "ip.src"
        | "remote_addr"
        | "binary_remote_addr"
        | "remote_address"
        | "remoteaddr"
        | "client"
        | "address"
        | "x-forwarded-for"
        | "http_x_forwarded_for"
        | "http_x_real_ip"
        | "realip_remote_addr" => "client.ip",
        "uri" | "request_uri" | "document_uri" | "url" => "path",
        "http_host" | "server_name" | "hostname" => "host",
        "request_method" => "method",
        "all" | "everybody" | "none" => "global",
        "country" | "ip.geoip.country" | "ip.src.country" => "client.country",
        "asn" | "ip.geoip.asnum" | "ip.src.asnum" => "client.asn",
        "header" => "header.NAME",
        "cookie" => "cookie.NAME",
        "query" => "query.NAME",
        "jwt" => "jwt.NAME",
        name => {
            let (kind, name) = name.split_once('_')?;
            let kind = match kind {
                "http" => "header",
                "cookie" => "cookie",
                "arg" => "query",
                _ => return None,
            };
            let is_named = text.starts_with('$') && !name.is_empty();
            return is_named.then(|| match kind {
                "header" => format!("header.{}", name.replace('_', "-")),
                _ => format!("{kind}.{name}"),
            });
        }
    };
    Some(part.to_owned())
}

/// The prefix lengths of `client.ip/24,/56`.
fn client_ip(text: &str, prefixes: &str) -> Result<KeyPart, ParseError> {
    let bits = |digits: &str, most: u8| {
        let plain =
            (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: Option<u8> = plain.then(|| digits.parse().ok()).flatten();
        bits.filter(|bits| *bits <= most)
    };
    let both = prefixes
        .split_once(",/")
        .and_then(|(v4, v6)| Some((bits(v4, 32)?, bits(v6, 128)?)));
    let (v4, v6) = both.ok_or_else(|| {
        let advice = match bits(prefixes, 32) {
            Some(v4) => format!("say both: \"client.ip/{v4},/64\""),
            None => "write 0 to 32 bits for IPv4, then 0 to 128 for IPv6: \"client.ip/24,/56\""
                .to_owned(),
        };
        ParseError::with_advice(
            format!("{} has no two prefix lengths", quoted(text)),
            advice,
        )
    })?;
    Ok(KeyPart::ClientIp { v4, v6 })
}

/// Returns whether the second says nothing that the first does not.
fn is_same(one: &KeyPart, other: &KeyPart) -> bool {
    match (one, other) {
        (KeyPart::Value(one), KeyPart::Value(other)) => one.source == other.source,
        (KeyPart::Place(one), KeyPart::Place(other)) => one == other,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// A part without what may differ between two of its kind.
fn name(part: &KeyPart) -> String {
    match part {
        KeyPart::ClientIp { .. } => "client.ip".to_owned(),
        KeyPart::Value(value) => value.source.to_string(),
        other => other.to_string(),
    }
}

fn once(part: &KeyPart) -> &'static str {
    match part {
        KeyPart::Value(_) => "write it once, with the normal form you want",
        KeyPart::Place(_) | KeyPart::Crawler => "write it once",
        _ => "write it once, with the prefixes you want",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(text: &str) -> String {
        part(text).unwrap_err().advice.unwrap()
    }

    /// Goal: every part is known by its name. Method: all of them, prefixes at both ends of their range.
    #[test]
    fn parts_are_read_by_name() {
        assert_eq!(part("client.ip"), Ok(KeyPart::ClientIp { v4: 32, v6: 64 }));
        assert_eq!(
            part("client.ip/0,/128"),
            Ok(KeyPart::ClientIp { v4: 0, v6: 128 })
        );
        assert_eq!(part("global"), Ok(KeyPart::Global));
        for wrong in [
            "client.ip/33,/64",
            "client.ip/24,/129",
            "client.ip/",
            "client.ip/+4,/5",
            "IP",
            "",
            "header.",
            "header.a b",
            "header.Host",
            "query.",
            "cookie.a b",
            "path.",
            "jwt.",
            "jwt./~",
            "body.json",
            "body.json.",
            "body.form.",
            "body.xml.a",
        ] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }

    /// Goal: what is written can be written again, since files on disk remember keys by their text. Method: every kind of value,
    /// read from what it displays.
    #[test]
    fn a_part_displays_as_one_writes_it() {
        for text in [
            "header.x-api-key",
            "cookie.SID | trim | lower",
            "query.phone | e164 DE",
            "path.user | before \"@\" | first 12",
            "query.mail | email | after \"@\"",
            "client.ip/24,/56",
            "jwt.sub",
            "jwt./https:~1~1a.test~1tenant",
            "body.json.phone | e164",
            "body.json./user/phone",
            "body.json./a.b",
            "body.json./~0",
            "body.form.x.y",
        ] {
            assert_eq!(part(text).unwrap().to_string(), text);
        }
        assert_eq!(part("body.json./phone"), part("body.json.phone"));
        assert_eq!(
            part("header.X-Api-Key|lower"),
            part("header.x-api-key | lower")
        );
    }

    /// Goal: an unknown part never becomes another one, and the answer helps. Method: slips of several kinds.
    #[test]
    fn an_unknown_part_is_answered_with_those_that_exist() {
        assert!(advice("client.pi").starts_with("did you mean \"client.ip\"?"));
        assert!(advice("heder.x-plan").starts_with("did you mean \"header.x-plan\"?"));
        assert!(advice("authorization").starts_with("the parts are client.ip,"));
        assert_eq!(
            advice("client.ip, path"),
            "write a list: key = [\"client.ip\", \"path\"]"
        );
        assert!(advice("body.json.a.b").starts_with("write \"body.json./a/b\" for what is nested"));
        assert_eq!(advice("client.ip/24"), "say both: \"client.ip/24,/64\"");
        assert_eq!(advice("host | lower"), "write \"host\" alone");
        assert_eq!(advice("header.cookie"), "write \"cookie.NAME\"");
    }
}
