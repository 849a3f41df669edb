//! Reads the keys of zones: texts with variables of nginx.

use super::choice::{RequestProperty, ValueChoice};
use super::variables::VariableTable;
use crate::client_fields;
use crate::model::KeyPart;

/// A key without choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyTemplate {
    /// Its parts, each once.
    pub(super) parts: Vec<KeyPart>,
    /// Text, or the name of the server block: equal for all requests of it.
    pub(super) constant: ConstantPart,
    /// `on_missing`, where the configuration says it by another variable.
    pub(super) missing: Option<&'static str>,
    /// The differences between the parts and the variables.
    pub(super) differences: Vec<String>,
}

/// The constant part of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConstantPart {
    /// There is none: the key can be empty, and then nothing is counted.
    #[default]
    None,
    Text,
    /// A counter for each server block.
    ServerName,
}

impl KeyTemplate {
    /// Returns true if nothing is counted.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.constant == ConstantPart::None
    }

    /// Returns `on_missing`, and what it means otherwise than an empty variable in nginx.
    pub(super) fn on_missing(&self) -> (Option<&'static str>, Option<String>) {
        let absent: Vec<&KeyPart> = self
            .parts
            .iter()
            .filter(|part| part.can_be_absent())
            .collect();
        if absent.is_empty() {
            return (None, None);
        }
        if let Some(choice) = self.missing {
            return (Some(choice), None);
        }
        let is_alone = self.parts.len() == 1 && self.constant == ConstantPart::None;
        if is_alone {
            return (Some("skip"), None);
        }
        let has_others = self.parts.len() - absent.len();
        if self.parts.contains(&KeyPart::ClientIp) {
            let exact = absent.len() == 1 && has_others == 1;
            let difference =
                "requests that lack a part of the key are counted by their address alone";
            return (Some("ip"), (!exact).then(|| difference.to_owned()));
        }
        let exact = absent.len() == 1 && has_others == 0;
        let difference = "requests that lack a part of the key share one counter";
        (Some("shared"), (!exact).then(|| difference.to_owned()))
    }

    fn add(&mut self, part: KeyPart) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    fn differs(&mut self, difference: &str) {
        if !self.differences.iter().any(|known| known == difference) {
            self.differences.push(difference.to_owned());
        }
    }
}

/// Returns the key for each case of the property that it depends on, and the variables that `map` and `geo` define in it.
///
/// # Errors
///
/// The reason for which the configuration has no such key.
pub(super) fn key(
    text: &str,
    variables: &VariableTable,
) -> Result<(ValueChoice<KeyTemplate>, Vec<String>), String> {
    let mut used = Vec::new();
    let mut result = ValueChoice::constant(KeyTemplate::default());
    for piece in pieces(text) {
        match piece {
            TextPiece::Text(_) => {
                result = result.try_map(|mut key: KeyTemplate| {
                    key.constant = key.constant.max(ConstantPart::Text);
                    Ok::<_, String>(key)
                })?;
            }
            TextPiece::Variable(name) if variables.defines(&name) => {
                let choice = variables.choice(&name)?;
                used.push(name);
                if result.property.is_some() && choice.property.is_some() {
                    return Err("a key with two choices has no counterpart".to_owned());
                }
                result = joined(&result, choice)?;
            }
            TextPiece::Variable(name) => {
                result = result.try_map(|mut key| {
                    add_variable(&mut key, &name)?;
                    Ok::<_, String>(key)
                })?;
            }
        }
    }
    Ok((without_absence(result)?, used))
}

/// Puts a choice of texts behind keys, of which at most one side depends on something.
fn joined(
    keys: &ValueChoice<KeyTemplate>,
    texts: ValueChoice<String>,
) -> Result<ValueChoice<KeyTemplate>, String> {
    let append = |key: &KeyTemplate, text: &str| {
        let mut key = key.clone();
        for piece in pieces(text) {
            match piece {
                TextPiece::Text(_) => key.constant = key.constant.max(ConstantPart::Text),
                TextPiece::Variable(name) => add_variable(&mut key, &name)?,
            }
        }
        Ok::<_, String>(key)
    };
    let mut joined = if texts.property.is_none() {
        let mut joined = keys.clone().try_map(|key| append(&key, &texts.default))?;
        joined.differences.extend(texts.differences);
        joined.looser.extend(texts.looser);
        joined
    } else {
        texts.try_map(|text| append(&keys.default, &text))?
    };
    joined.differences.extend(keys.differences.iter().cloned());
    joined.looser.extend(keys.looser.iter().cloned());
    joined.differences.dedup();
    Ok(joined)
}

/// Says in `on_missing` what a `map` says of an empty field, since no route has a condition on an absent one.
fn without_absence(
    mut choice: ValueChoice<KeyTemplate>,
) -> Result<ValueChoice<KeyTemplate>, String> {
    let Some(RequestProperty::Value(part)) = &choice.property else {
        return Ok(choice);
    };
    let part = part.clone();
    if let Some(at) = choice.cases.iter().position(|(case, _)| case.is_empty()) {
        let (_, absent) = choice.cases.remove(at);
        let default = &mut choice.default;
        if default.parts == [part.clone()] && default.constant == ConstantPart::None {
            default.missing = Some(match absent.parts.as_slice() {
                _ if absent.is_empty() => "skip",
                [] => "shared",
                [KeyPart::ClientIp] => "ip",
                _ => {
                    return Err(format!(
                        "another key without {} has no counterpart",
                        part.text()
                    ));
                }
            });
            for difference in absent.differences {
                default.differs(&difference);
            }
        } else if *default != absent {
            return Err(format!(
                "a route cannot have the condition that {} is absent",
                part.text()
            ));
        }
    }
    if choice.cases.is_empty() {
        choice.property = None;
    }
    Ok(choice)
}

/// A piece of a text of nginx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextPiece {
    Text(String),
    /// The name without `$`.
    Variable(String),
}

/// Returns the pieces of a text.
pub(super) fn pieces(text: &str) -> Vec<TextPiece> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(at) = rest.find('$') else {
            found.push(TextPiece::Text(rest.to_owned()));
            break;
        };
        if at > 0 {
            found.push(TextPiece::Text(rest[..at].to_owned()));
        }
        rest = &rest[at + 1..];
        let braced = rest
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'));
        if let Some((name, behind)) = braced {
            found.push(TextPiece::Variable(name.to_owned()));
            rest = behind;
            continue;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        found.push(match end {
            0 => TextPiece::Text("$".to_owned()),
            _ => TextPiece::Variable(rest[..end].to_owned()),
        });
        rest = &rest[end..];
    }
    found
}

/// Returns the field that a variable of nginx has, where the gateway removes it unless `[client]` names it.
pub(super) fn proxy_field(variable: &str) -> Option<String> {
    let field = match variable {
        "proxy_add_x_forwarded_for" => "x-forwarded-for".to_owned(),
        name => name.strip_prefix("http_")?.replace('_', "-"),
    };
    client_fields::is_removed(&field).then_some(field)
}

/// Returns true if a variable of nginx has the address of the client, in the word of the connection or of a proxy.
pub(super) fn is_client(variable: &str) -> bool {
    matches!(
        variable,
        "remote_addr" | "binary_remote_addr" | "proxy_protocol_addr"
    ) || proxy_field(variable).is_some_and(|field| client_fields::names_client(&field))
}

/// Returns the part for a field, a cookie or a parameter of nginx.
pub(super) fn value(name: &str) -> Option<KeyPart> {
    let (kind, rest) = name.split_once('_')?;
    if rest.is_empty() {
        return None;
    }
    match kind {
        "http" if !matches!(rest, "host" | "cookie") => {
            Some(KeyPart::Header(rest.replace('_', "-")))
        }
        "cookie" => Some(KeyPart::Cookie(rest.to_owned())),
        "arg" => Some(KeyPart::Query(rest.to_owned())),
        _ => None,
    }
}

fn add_variable(key: &mut KeyTemplate, name: &str) -> Result<(), String> {
    match name {
        "binary_remote_addr" | "remote_addr" => {
            key.add(KeyPart::ClientIp);
            key.differs(
                "IPv6 clients are counted by /64; write \"client.ip/32,/128\" to count single addresses as nginx does",
            );
        }
        name if is_client(name) => {
            key.add(KeyPart::ClientIp);
            key.differs(
                "the client is counted, as [client] trusted_proxies identifies it; nginx counts by what every client can write",
            );
        }
        "server_name" => key.constant = ConstantPart::ServerName,
        "host" => key.add(KeyPart::Host),
        "http_host" => {
            key.add(KeyPart::Host);
            key.differs("the host is counted in lower case and without its port");
        }
        "uri" | "document_uri" => {
            key.add(KeyPart::Path);
            key.differs("paths are counted without regard to case");
        }
        "request_uri" => {
            key.add(KeyPart::Path);
            key.differs("the path is counted without its query and without regard to case");
        }
        "request_method" => key.add(KeyPart::Method),
        "ssl_client_s_dn" => key.add(KeyPart::CertificateSubject),
        "ssl_client_fingerprint" => key.add(KeyPart::CertificateFingerprint),
        // Constants of a process, which every request has.
        "hostname" | "nginx_version" | "pid" => key.constant = key.constant.max(ConstantPart::Text),
        _ => match value(name) {
            Some(part) => {
                key.add(part);
                key.differs(
                    "a value that is empty has a counter, and copies that differ count as absent; nginx does not limit an empty key",
                );
            }
            None => return Err(unknown_part(name)),
        },
    }
    Ok(())
}

/// Returns the reason for a variable that is no part of a key, with the part that an operator may write.
fn unknown_part(name: &str) -> String {
    let geo = name.strip_prefix("geoip2_").or(name.strip_prefix("geoip_"));
    let claim = name.strip_prefix("jwt_claim_");
    match (geo, claim) {
        (Some(_), _) => format!(
            "${name} comes from a database; write client.country, client.city or client.asn in the key, and the database in [geo]"
        ),
        (_, Some(claim)) => {
            format!("write jwt.{claim} in the key, and [jwt]; ${name} is not read from it")
        }
        _ => format!("the import knows no part of a key for ${name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> KeyTemplate {
        let (choice, _) = key(text, &VariableTable::default()).unwrap();
        assert_eq!(choice.property, None);
        choice.default
    }

    /// Goal: variables are found wherever they stand. Method: braces, text around them, a lone dollar.
    #[test]
    fn texts_are_cut_at_variables() {
        let variable = |name: &str| TextPiece::Variable(name.to_owned());
        let text = |text: &str| TextPiece::Text(text.to_owned());
        assert_eq!(
            pieces("$a${b}c$d-e"),
            [
                variable("a"),
                variable("b"),
                text("c"),
                variable("d"),
                text("-e")
            ]
        );
        assert_eq!(pieces("a$"), [text("a"), text("$")]);
    }

    /// Goal: a request without a part counts as in nginx, or more strictly. Method: parts that can be absent beside others.
    #[test]
    fn absent_parts_are_counted_as_in_nginx_or_more_strictly() {
        assert_eq!(plain("$arg_a").on_missing(), (Some("skip"), None));
        let with_address = plain("$binary_remote_addr$arg_a");
        assert_eq!(with_address.on_missing(), (Some("ip"), None));
        assert_eq!(plain("x$arg_a").on_missing(), (Some("shared"), None));
        assert!(plain("$arg_a$http_b").on_missing().1.is_some());
        assert_eq!(plain("$binary_remote_addr").on_missing(), (None, None));
    }

    /// Goal: a variable without a counterpart is never another key. Method: some.
    #[test]
    fn unknown_variables_are_errors() {
        for text in ["$remote_user", "$args", "$arg_", "$upstream_addr"] {
            assert!(key(text, &VariableTable::default()).is_err(), "{text}");
        }
    }
}
