//! Reads the middleware `headers`: fields of requests and responses, and the rules for pages of other origins.

use super::account::TreeAccount;
use super::chain::{MiddlewareStep, SchemeRedirect};
use super::middlewares::{PERMANENT, TEMPORARY};
use super::tree::{self, is_on, member, number, texts};
use crate::ingress::yaml::YamlNode;
use crate::model::FieldEdits;
use crate::own_fields::{self, EditKind, EditedMessage, FieldValue, is_own_field};
use crate::slots;
use crate::toml::{inline, list};

/// Fields of responses for which `headers` has members, with the values.
const RESPONSE_SWITCHES: [(&str, &str, &str); 3] = [
    ("frameDeny", "x-frame-options", "DENY"),
    ("contentTypeNosniff", "x-content-type-options", "nosniff"),
    ("browserXssFilter", "x-xss-protection", "1; mode=block"),
];

/// Members that are the value of a field of responses.
const RESPONSE_VALUES: [(&str, &str); 8] = [
    ("customFrameOptionsValue", "x-frame-options"),
    ("customBrowserXSSValue", "x-xss-protection"),
    ("contentSecurityPolicy", "content-security-policy"),
    (
        "contentSecurityPolicyReportOnly",
        "content-security-policy-report-only",
    ),
    ("publicKey", "public-key-pins"),
    ("referrerPolicy", "referrer-policy"),
    ("permissionsPolicy", "permissions-policy"),
    ("featurePolicy", "feature-policy"),
];

/// Members of Strict-Transport-Security.
const STS: [&str; 4] = [
    "stsSeconds",
    "stsIncludeSubdomains",
    "stsPreload",
    "forceSTSHeader",
];

/// Members of the redirect to HTTPS, of version 2.
const SSL_REDIRECT: [&str; 2] = ["sslRedirect", "sslTemporaryRedirect"];

/// Returns the steps of the middleware.
pub(super) fn steps(
    node: &YamlNode,
    name: &str,
    account: &mut TreeAccount<'_>,
) -> Vec<MiddlewareStep> {
    let mut request = FieldEdits::default();
    let mut response = FieldEdits::default();
    let place = format!("http.middlewares.{name}.headers");
    for (member, value) in node.members() {
        let is = |name: &str| member.eq_ignore_ascii_case(name);
        let is_read_below = is_cors(member) || STS.iter().chain(&SSL_REDIRECT).any(|it| is(it));
        if is_read_below {
            continue;
        }
        if is("customRequestHeaders") {
            custom(value, EditedMessage::Request, &mut request, account);
        } else if is("customResponseHeaders") {
            custom(value, EditedMessage::Response, &mut response, account);
        } else if let Some((_, field, text)) = RESPONSE_SWITCHES.iter().find(|it| is(it.0)) {
            account.translated(value);
            if is_on(node, member) {
                response.set_value(field, text);
            }
        } else if let Some((_, field)) = RESPONSE_VALUES.iter().find(|it| is(it.0)) {
            let edit = value.text().and_then(value_text);
            match edit {
                Some(text) if !text.is_empty() => {
                    account.translated(value);
                    response.set_value(field, &text);
                }
                _ => account.lost(value, &place, "no field has this value"),
            }
        } else if is("isDevelopment") || value.text() == Some("") || tree::is_off(value) {
            account.idle(value, "it is off");
        } else {
            account.lost(value, &place, "it has no counterpart");
        }
    }
    response.replace_values(&transport_security(node, account));
    let mut steps: Vec<MiddlewareStep> = ssl_redirect(node, &place, account).into_iter().collect();
    steps.push(MiddlewareStep::RequestFields(request));
    steps.push(MiddlewareStep::ResponseFields(response));
    steps.extend(cors(node, &place, account));
    steps
}

/// Returns the redirect of requests in clear text to HTTPS.
fn ssl_redirect(
    node: &YamlNode,
    place: &str,
    account: &mut TreeAccount<'_>,
) -> Option<MiddlewareStep> {
    let written = || SSL_REDIRECT.iter().filter_map(|it| member(node, it));
    if !is_on(node, "sslRedirect") {
        written().for_each(|it| account.idle(it, "it is off"));
        return None;
    }
    let proxies = member(node, "sslProxyHeaders").map(YamlNode::members);
    if proxies.is_some_and(|it| !it.is_empty()) {
        let reason = "redirect_to_https of a listener asks for no field of a proxy";
        written().for_each(|it| account.lost(it, place, reason));
        return None;
    }
    written().for_each(|it| account.translated(it));
    Some(MiddlewareStep::ToScheme(SchemeRedirect {
        scheme: "https".to_owned(),
        port: None,
        status: match is_on(node, "sslTemporaryRedirect") {
            true => TEMPORARY,
            false => PERMANENT,
        },
    }))
}

/// Returns true if the gateway writes this value, or the scheme of its listeners, which is that of the clients.
fn is_usual(field: &str, text: &str) -> bool {
    let value = match (field, text) {
        ("x-forwarded-proto", "http" | "https") => FieldValue::Scheme,
        _ => FieldValue::Text(text),
    };
    own_fields::is_usual(field, value)
}

/// Takes fields with values; an empty value removes the field.
fn custom(
    node: &YamlNode,
    message: EditedMessage,
    edits: &mut FieldEdits,
    account: &mut TreeAccount<'_>,
) {
    for (name, value) in node.members() {
        let field = name.to_ascii_lowercase();
        let text = value.text().and_then(value_text);
        let Some(text) = text else {
            account.lost(value, name, "no field has this value");
            continue;
        };
        if message == EditedMessage::Request && field == "host" {
            account.lost(value, name, "see [origin.NAME] host");
            continue;
        }
        if message == EditedMessage::Request && is_own_field(&field) && is_usual(&field, &text) {
            account.differs(value, "the gateway writes this field itself");
            continue;
        }
        let kind = EditKind::from_text(&text);
        let checked = own_fields::check_edit(&field, message, kind);
        match checked.and_then(|()| edits.apply(kind, &field, &text)) {
            Ok(()) => account.translated(value),
            Err(reason) => account.lost(value, name, reason),
        }
    }
}

/// Returns a value as a template without slots; `None` where no field has it.
fn value_text(text: &str) -> Option<String> {
    let text = text.trim();
    let is_plain = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    is_plain.then(|| slots::escaped(text))
}

fn transport_security(node: &YamlNode, account: &mut TreeAccount<'_>) -> FieldEdits {
    let mut edits = FieldEdits::default();
    let seconds = number(node, "stsSeconds").unwrap_or(0);
    for name in STS {
        if let Some(value) = member(node, name) {
            match seconds {
                0 => account.idle(value, "without seconds there is no field"),
                _ => account.differs(
                    value,
                    "the field is in answers in clear text too, where browsers ignore it",
                ),
            }
        }
    }
    if seconds > 0 {
        let mut value = format!("max-age={seconds}");
        for (name, text) in [
            ("stsIncludeSubdomains", "; includeSubDomains"),
            ("stsPreload", "; preload"),
        ] {
            if is_on(node, name) {
                value.push_str(text);
            }
        }
        edits.set_value("strict-transport-security", &value);
    }
    edits
}

/// Returns true for the members about pages of other origins.
fn is_cors(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("accesscontrol") || name == "addvaryheader"
}

/// Returns the key `cors` of a route.
fn cors(node: &YamlNode, place: &str, account: &mut TreeAccount<'_>) -> Option<MiddlewareStep> {
    let members: Vec<&YamlNode> = node
        .members()
        .iter()
        .filter(|(name, _)| is_cors(name))
        .map(|(_, value)| value)
        .collect();
    if members.is_empty() {
        return None;
    }
    let mut origins = texts(member(node, "accessControlAllowOriginList"));
    origins.extend(texts(member(node, "accessControlAllowOrigin")));
    let is_origin = |it: &String| {
        let host = it.split_once("://").map(|(_, host)| host);
        it == "*"
            || host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', '?', '@']))
    };
    let has_expressions = tree::at(node, "accessControlAllowOriginListRegex").is_some();
    let is_any = origins.iter().any(|it| it == "*");
    let credentials = is_on(node, "accessControlAllowCredentials");
    let is_sayable = !origins.is_empty()
        && origins.iter().all(is_origin)
        && !has_expressions
        && !(is_any && (credentials || origins.len() > 1));
    if !is_sayable {
        for value in members {
            account.lost(value, place, "no [route.cors] has these origins");
        }
        return None;
    }
    members.iter().for_each(|it| account.translated(it));
    let mut keys = vec![format!("origins = {}", list(&origins))];
    for (name, to) in [
        ("accessControlAllowMethods", "methods"),
        ("accessControlAllowHeaders", "headers"),
        ("accessControlExposeHeaders", "expose"),
    ] {
        let values = texts(member(node, name));
        let is_any = to == "methods" && values.iter().any(|it| it == "*");
        if !is_any && !values.is_empty() {
            keys.push(format!("{to} = {}", list(&values)));
        }
    }
    if credentials {
        keys.push("credentials = true".to_owned());
    }
    if let Some(age) = number(node, "accessControlMaxAge").filter(|it| *it > 0) {
        keys.push(format!("max_age = \"{}s\"", age.min(86_400)));
    }
    Some(MiddlewareStep::Further("cors", inline(&keys)))
}
