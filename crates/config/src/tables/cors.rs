//! Declares `cors`: which pages of other origins may read answers, for every route and for one.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use sluicegate_config_derive::Table;

use crate::declaration::{DurationIn, Flag, ListBy, TEXT};
use crate::field::{KeyField, all, quoted};
use crate::problem::ParseError;
use crate::section::TableSection;

/// The fields that pages may read of every answer: without them a page that is refused does not know when to come back.
const EXPOSED: &str = "ratelimit, ratelimit-policy, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id";

/// Most origins, methods or fields of one list.
const MOST: usize = 64;

/// Cross-origin resource sharing (CORS). With this table the gateway answers preflights itself, before the limits, and replaces the CORS
/// fields of origins; the table of a route takes precedence. Default: preflights and responses pass unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "cors", check = check_credentials)]
pub struct CorsRules {
    /// Required. Origins as browsers write them, "https://*.example.com" for all names under one, or "*" alone for every page.
    #[key(
        example = "[\"https://app.example.com\"]",
        shown = "[\"https://app.example.com\", \"https://*.example.org\"]",
        reader = ListBy(origins, TEXT)
    )]
    pub origins: PageOrigins,
    /// Methods that pages may use. Default: the requested method, since its route has these rules.
    #[key(example = "[\"GET\", \"POST\"]", default = Vec::new(), reader = ListBy(methods, TEXT))]
    pub methods: Vec<Method>,
    /// Fields that pages may send. Default: ["*"], all that they request.
    #[key(
        example = "[\"x-api-key\"]",
        shown = "[\"content-type\", \"x-api-key\"]",
        default = AllowedFields::Any,
        reader = ListBy(allowed_fields, TEXT)
    )]
    pub headers: AllowedFields,
    /// Fields that pages may read, beside those of limits (Retry-After, RateLimit…) and X-Request-Id. Default: none.
    #[key(
        example = "[\"x-total\"]",
        default = HeaderValue::from_static(EXPOSED),
        reader = ListBy(exposed_fields, TEXT)
    )]
    pub expose: HeaderValue,
    /// True lets pages send cookies and other credentials; not with "*". Default: false.
    #[key(example = "true", default = Credentials::Withheld, reader = Flag(Credentials::Withheld, Credentials::Allowed))]
    pub credentials: Credentials,
    /// The time for which a browser may cache the response to a preflight, 0s to 1d; Firefox caches for at most a day.
    #[key(
        example = "\"10m\"",
        default = Duration::from_secs(600),
        reader = DurationIn(Duration::ZERO..=Duration::from_secs(86_400))
    )]
    pub max_age: Duration,
}

/// The origins of pages, as browsers write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOrigins {
    /// `"*"`
    Any,
    /// These.
    These(Vec<PageOrigin>),
}

/// An origin, or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    /// `https://app.example.com`
    Exact(Box<str>),
    /// `https://*.example.com:8443`: every name that ends in a dot and this one.
    Under {
        /// `https://`
        scheme: Box<str>,
        /// `.example.com:8443`
        ending: Box<str>,
    },
}

/// The fields that a page may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedFields {
    /// `"*"`, the default: whichever it asks for.
    Any,
    /// These.
    These(Vec<HeaderName>),
}

/// The permission of a page to send cookies and the like, and to read what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// It may.
    Allowed,
    /// It may not, the default.
    Withheld,
}

/// Reads the `cors` of a route or of all: `None` inside when it is not written, outside when it is wrong.
pub(crate) fn from_section(section: &TableSection<'_>) -> Option<Option<Arc<CorsRules>>> {
    let example = "{ origins = [\"https://app.example.com\"] }";
    section.optional("cors", example, |field| {
        CorsRules::read(field.section()?).map(Arc::new)
    })
}

fn check_credentials(keys: &CorsRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if keys.credentials != Some(Credentials::Allowed) {
        return Some(());
    }
    if keys.origins == Some(PageOrigins::Any) {
        return section.refuse(
            "origins",
            "with credentials every page there is could act for whoever visits it, so browsers do not take this",
            "name the origins of your own pages, or leave out `credentials`",
        );
    }
    if keys.expose.as_ref().is_some_and(|expose| expose == "*") {
        section.report.error(
            &section.place,
            "with credentials browsers take `expose = [\"*\"]` for a header of that name",
            "name the headers",
        );
        return None;
    }
    Some(())
}

fn methods(field: &KeyField<'_>) -> Option<Vec<Method>> {
    let methods = elements(field)?.into_iter().map(|element| {
        element.parsed(|text| match Method::from_bytes(text.as_bytes()) {
            Ok(method) if text == text.to_ascii_uppercase() => Ok(method),
            _ => Err(ParseError::new(format!("{} is not a method", quoted(text)))),
        })
    });
    all(methods)
}

fn allowed_fields(field: &KeyField<'_>) -> Option<AllowedFields> {
    Some(names(field)?.map_or(AllowedFields::Any, AllowedFields::These))
}

/// `Access-Control-Expose-Headers`: the named fields, and those of limits.
fn exposed_fields(field: &KeyField<'_>) -> Option<HeaderValue> {
    let Some(names) = names(field)? else {
        return Some(HeaderValue::from_static("*"));
    };
    let names = names.iter().map(HeaderName::as_str);
    let text: Vec<&str> = names.chain([EXPOSED]).collect();
    HeaderValue::from_str(&text.join(", ")).ok()
}

fn elements<'d>(field: &KeyField<'d>) -> Option<Vec<KeyField<'d>>> {
    let elements = field.list()?;
    if elements.len() > MOST {
        return field.refuse(
            format!("{} are too many", elements.len()),
            format!("keep at most {MOST}"),
        );
    }
    Some(elements)
}

/// Names of fields; `None` inside for `["*"]`.
fn names(field: &KeyField<'_>) -> Option<Option<Vec<HeaderName>>> {
    let elements = elements(field)?;
    if let [only] = &*elements
        && only.written_text() == Some("*")
    {
        return Some(None);
    }
    let names = elements.iter().map(|element| {
        element.parsed(|text| match HeaderName::try_from(text) {
            Ok(name) if text != "*" => Ok(name),
            _ => Err(ParseError::new(format!(
                "{} is not the name of a header",
                quoted(text)
            ))),
        })
    });
    all(names.collect::<Vec<_>>()).map(Some)
}

fn origins(field: &KeyField<'_>) -> Option<PageOrigins> {
    let elements = elements(field)?;
    if let Some(any) = elements
        .iter()
        .find(|element| element.written_text() == Some("*"))
    {
        if elements.len() > 1 {
            return any.refuse(
                "this takes every origin, and the others are there too",
                "leave it out, or the others",
            );
        }
        return Some(PageOrigins::Any);
    }
    let origins = elements.iter().map(|element| element.parsed(origin));
    all(origins.collect::<Vec<_>>()).map(PageOrigins::These)
}

/// RFC 6454 §6.2: scheme, host and a port that is not the scheme's own, in lower case.
fn origin(text: &str) -> Result<PageOrigin, ParseError> {
    let wrong = |what: &str, instead: String| {
        let message = format!("{} {what}", quoted(text));
        Err(ParseError::with_advice(
            message,
            format!("write {}", quoted(&instead)),
        ))
    };
    if text == "null" {
        return Err(ParseError::with_advice(
            "\"null\" is the origin of every page in a sandbox, and so of anybody's",
            "name the origins of your own pages",
        ));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return wrong(
            "has no scheme, as browsers write it",
            format!("https://{text}"),
        );
    };
    if let Some((authority, _)) = rest.split_once(['/', '?', '#']) {
        return wrong(
            "has a path, which browsers do not send",
            format!("{scheme}://{authority}"),
        );
    }
    let lower = text.to_ascii_lowercase();
    if lower != text {
        return wrong("is not in lower case, as browsers write it", lower);
    }
    for (of, port) in [("https", ":443"), ("http", ":80")] {
        if scheme == of
            && let Some(bare) = text.strip_suffix(port)
        {
            return wrong("has the port that browsers leave out", bare.to_owned());
        }
    }
    let (wide, host) = match rest.strip_prefix("*.") {
        Some(host) => (true, host),
        None => (false, rest),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if scheme.is_empty() || host.is_empty() || !host.bytes().all(allowed) {
        return Err(ParseError::new(format!(
            "{} is not the origin of a page",
            quoted(text)
        )));
    }
    Ok(if wide {
        PageOrigin::Under {
            scheme: format!("{scheme}://").into(),
            ending: format!(".{host}").into(),
        }
    } else {
        PageOrigin::Exact(text.into())
    })
}
