//! Translates Caddy's placeholders into the slots of fields and redirects, and into the parts of keys.

use crate::client_fields;
use crate::model::KeyPart;
use crate::own_fields::FieldValue;
use crate::slots;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlaceholderPiece {
    Text(String),
    /// The name in braces, in its long form where it has one.
    Placeholder(String),
}

/// A part of a key, with the difference between the part and the placeholder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlaceholderPart {
    pub(super) part: KeyPart,
    pub(super) difference: Option<&'static str>,
    /// The field that the key reads, where only a proxy may write that.
    pub(super) proxy_field: Option<String>,
}

/// The address of the client in the word of the connection.
pub(super) const REMOTE_HOST: &str = "http.request.remote.host";

/// Short forms of placeholders with their long forms.
const SHORT_FORMS: [(&str, &str); 17] = [
    ("client_ip", "http.vars.client_ip"),
    ("host", "http.request.host"),
    ("hostport", "http.request.hostport"),
    ("method", "http.request.method"),
    ("orig_path", "http.request.orig_uri.path"),
    ("orig_uri", "http.request.orig_uri"),
    ("path", "http.request.uri.path"),
    ("port", "http.request.port"),
    ("query", "http.request.uri.query"),
    ("?query", "http.request.uri.prefixed_query"),
    ("remote", "http.request.remote"),
    ("remote_host", REMOTE_HOST),
    ("scheme", "http.request.scheme"),
    (
        "tls_client_fingerprint",
        "http.request.tls.client.fingerprint",
    ),
    ("tls_client_subject", "http.request.tls.client.subject"),
    ("upstream_hostport", "http.reverse_proxy.upstream.hostport"),
    ("uri", "http.request.uri"),
];

/// Beginnings of short forms with those of their long forms.
const SHORT_BEGINNINGS: [(&str, &str); 6] = [
    ("cookie.", "http.request.cookie."),
    ("header.", "http.request.header."),
    ("query.", "http.request.uri.query."),
    ("re.", "http.regexp."),
    ("rp.", "http.reverse_proxy."),
    ("vars.", "http.vars."),
];

/// Cuts a text at its placeholders.
pub(super) fn pieces(text: &str) -> Vec<PlaceholderPiece> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let behind = &rest[at + 1..];
        plain.push_str(&rest[..at]);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-%?$[]:/".contains(c);
        let name = behind.split_once('}').map(|(name, _)| name);
        match name.filter(|name| !name.is_empty() && name.chars().all(is_name)) {
            Some(name) if !plain.ends_with('\\') => {
                if !plain.is_empty() {
                    found.push(PlaceholderPiece::Text(std::mem::take(&mut plain)));
                }
                found.push(PlaceholderPiece::Placeholder(long_form(name)));
                rest = &behind[name.len() + 1..];
            }
            _ => {
                if plain.ends_with('\\') {
                    plain.pop();
                }
                plain.push('{');
                rest = behind;
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        found.push(PlaceholderPiece::Text(plain));
    }
    found
}

fn long_form(name: &str) -> String {
    if let Some((_, long)) = SHORT_FORMS.iter().find(|(short, _)| *short == name) {
        return (*long).to_owned();
    }
    for (short, long) in SHORT_BEGINNINGS {
        if let Some(rest) = name.strip_prefix(short) {
            return format!("{long}{rest}");
        }
    }
    name.to_owned()
}

/// Returns the value of a field with the slots of the gateway.
///
/// # Errors
///
/// The placeholder that has no slot.
pub(super) fn field_value(text: &str) -> Result<String, String> {
    let value = pieces(text).into_iter().map(|piece| match piece {
        PlaceholderPiece::Text(text) => Ok(slots::escaped(&text)),
        PlaceholderPiece::Placeholder(name) => match name.as_str() {
            "http.request.host" => Ok("{host}".to_owned()),
            REMOTE_HOST | "http.vars.client_ip" => Ok("{client_ip}".to_owned()),
            "http.request.uuid" => Ok("{request_id}".to_owned()),
            name => Err(format!("a field has no slot for {{{name}}}")),
        },
    });
    value.collect()
}

/// Returns what a value of a field that the gateway writes itself says of the request.
pub(super) fn own_value<'v>(field: &str, value: &'v str) -> FieldValue<'v> {
    let found = pieces(value);
    let name = match found.as_slice() {
        [PlaceholderPiece::Placeholder(name)] => name.as_str(),
        [PlaceholderPiece::Text(_)] | [] => return FieldValue::Text(value),
        _ => return FieldValue::Other,
    };
    let header = name.strip_prefix("http.request.header.");
    match name {
        REMOTE_HOST | "http.request.remote" | "http.vars.client_ip" => FieldValue::ClientAddress,
        "http.request.host" | "http.request.hostport" => FieldValue::Host,
        "http.request.scheme" => FieldValue::Scheme,
        "http.request.uuid" => FieldValue::RequestId,
        _ if header.is_some_and(|it| it.eq_ignore_ascii_case(field)) => FieldValue::FieldOfClient,
        _ => FieldValue::Other,
    }
}

/// Returns the part of a key for a placeholder.
///
/// # Errors
///
/// The reason for which there is none.
pub(super) fn key_part(name: &str) -> Result<PlaceholderPart, String> {
    let part = |part, difference| {
        Ok(PlaceholderPart {
            part,
            difference,
            proxy_field: None,
        })
    };
    let value = |beginning: &str| name.strip_prefix(beginning).filter(|it| !it.is_empty());
    match name {
        REMOTE_HOST => part(
            KeyPart::ClientIp,
            Some(
                "the client is counted, as [client] identifies it; Caddy counts the peer, be it a proxy",
            ),
        ),
        "http.vars.client_ip" => part(KeyPart::ClientIp, None),
        "http.request.host" => part(KeyPart::Host, None),
        "http.request.hostport" => part(
            KeyPart::Host,
            Some("the host is counted in lower case and without its port"),
        ),
        "http.request.uri.path" | "http.request.orig_uri.path" => part(
            KeyPart::Path,
            Some("paths are counted without regard to case"),
        ),
        "http.request.uri" | "http.request.orig_uri" => part(
            KeyPart::Path,
            Some("the path is counted without its query and without regard to case"),
        ),
        "http.request.method" => part(KeyPart::Method, None),
        "http.request.tls.client.subject" => part(KeyPart::CertificateSubject, None),
        "http.request.tls.client.fingerprint" => part(KeyPart::CertificateFingerprint, None),
        _ => {
            if let Some(field) = value("http.request.header.") {
                return Ok(field_part(&field.to_ascii_lowercase()));
            }
            let differs = Some("copies of a value that differ count as absent");
            match (
                value("http.request.cookie."),
                value("http.request.uri.query."),
            ) {
                (Some(cookie), _) => part(KeyPart::Cookie(cookie.to_owned()), differs),
                (None, Some(name)) => part(KeyPart::Query(name.to_owned()), differs),
                (None, None) => Err(format!("no part of a key is {{{name}}}")),
            }
        }
    }
}

fn field_part(field: &str) -> PlaceholderPart {
    let proxy_field = client_fields::is_removed(field).then(|| field.to_owned());
    if client_fields::names_client(field) {
        let difference = "the client is counted, as [client] trusted_proxies identifies it; Caddy counts by what every client can write";
        return PlaceholderPart {
            part: KeyPart::ClientIp,
            difference: Some(difference),
            proxy_field,
        };
    }
    PlaceholderPart {
        part: match field {
            "host" => KeyPart::Host,
            field => KeyPart::Header(field.to_owned()),
        },
        difference: Some("copies of a field that differ count as absent"),
        proxy_field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: placeholders are found wherever they stand. Method: short and long forms, escapes, braces of JSON.
    #[test]
    fn texts_are_cut_at_placeholders() {
        let placeholder = |name: &str| PlaceholderPiece::Placeholder(name.to_owned());
        let text = |text: &str| PlaceholderPiece::Text(text.to_owned());
        assert_eq!(
            pieces("a{host}b{header.X-A}"),
            [
                text("a"),
                placeholder("http.request.host"),
                text("b"),
                placeholder("http.request.header.X-A"),
            ]
        );
        assert_eq!(
            pieces(r#"{"a": {}} \{host}"#),
            [text(r#"{"a": {}} {host}"#)]
        );
        assert_eq!(pieces("{$A}"), [placeholder("$A")]);
    }

    /// Goal: a placeholder without a counterpart is never another value. Method: some, in fields and in keys.
    #[test]
    fn unknown_placeholders_are_errors() {
        for name in [
            "env.X",
            "http.auth.user.id",
            "labels.1",
            "$A",
            "http.vars.x",
        ] {
            assert!(key_part(name).is_err(), "{name}");
            assert!(field_value(&format!("{{{name}}}")).is_err(), "{name}");
        }
        assert_eq!(field_value("a {client_ip}").as_deref(), Ok("a {client_ip}"));
        assert_eq!(field_value(r#"{"a"}"#).as_deref(), Ok(r#"{{"a"}}"#));
    }

    /// Goal: no key reads a field that every client can write and the gateway removes. Method: a field of a CDN, and one of clients.
    #[test]
    fn fields_of_proxies_name_the_client() {
        let part = key_part("http.request.header.CF-Connecting-IP").unwrap();
        assert_eq!(part.part, KeyPart::ClientIp);
        assert_eq!(part.proxy_field.as_deref(), Some("cf-connecting-ip"));
        let part = key_part("http.request.header.X-Api-Key").unwrap();
        assert_eq!(part.part, KeyPart::Header("x-api-key".to_owned()));
        assert_eq!(part.proxy_field, None);
    }
}
