//! `cors`: which pages of other origins may read answers, for every route and for one.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use crate::config::field::{Field, all, quoted};
use crate::config::problem::Mistake;
use crate::config::rules::{AllowedFields, CorsRules, Credentials, PageOrigin, PageOrigins};
use crate::config::section::Section;

/// What pages may read of every answer: without it a page that is refused does not know when to come back.
const EXPOSED: &str = "ratelimit, ratelimit-policy, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id";

/// How long browsers keep the answer to a preflight where nothing is said.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Firefox keeps none for longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Most origins, methods or fields of one list.
const MOST: usize = 64;

/// The `cors` of a route or of all: `None` inside when it is not written, outside when it is wrong.
pub(in crate::config) fn of(section: &Section<'_>) -> Option<Option<Arc<CorsRules>>> {
    let example = "{ origins = [\"https://app.example.com\"] }";
    section.optional("cors", example, |field| rules(field).map(Arc::new))
}

fn rules(field: &Field<'_>) -> Option<CorsRules> {
    let section = field.section()?;
    let origins = section
        .required("origins", "[\"https://app.example.com\"]")
        .and_then(|field| Some((origins(&field)?, field)));
    let methods = section.or("methods", "[\"GET\", \"POST\"]", Vec::new(), |field| {
        let methods = elements(field)?.into_iter().map(|element| {
            element.parsed(|text| match Method::from_bytes(text.as_bytes()) {
                Ok(method) if text == text.to_ascii_uppercase() => Ok(method),
                _ => Err(Mistake::new(format!("{} is not a method", quoted(text)))),
            })
        });
        all(methods.collect::<Vec<_>>())
    });
    let headers = section.or("headers", "[\"x-api-key\"]", AllowedFields::Any, |field| {
        Some(match names(field)? {
            None => AllowedFields::Any,
            Some(names) => AllowedFields::These(names),
        })
    });
    let exposed = section.or(
        "expose",
        "[\"x-total\"]",
        HeaderValue::from_static(EXPOSED),
        |field| match names(field)? {
            None => Some(HeaderValue::from_static("*")),
            Some(names) => {
                let names = names.iter().map(HeaderName::as_str);
                let text: Vec<&str> = names.chain([EXPOSED]).collect();
                HeaderValue::from_str(&text.join(", ")).ok()
            }
        },
    );
    let credentials = section.or("credentials", "true", Credentials::Withheld, |field| {
        Some(if field.boolean()? {
            Credentials::Allowed
        } else {
            Credentials::Withheld
        })
    });
    let max_age = section.or("max_age", "\"10m\"", MAX_AGE, |field| {
        field.duration(Duration::ZERO..=LONGEST)
    });
    section.finish();
    let ((origins, place), exposed, headers) = (origins?, exposed?, headers?);
    if credentials? == Credentials::Allowed {
        if origins == PageOrigins::Any {
            return place.refuse(
                "with credentials every page there is could act for whoever visits it, so browsers do not take this",
                "name the origins of your own pages, or leave out `credentials`",
            );
        }
        if exposed == "*" {
            return field.refuse(
                "with credentials browsers take `expose = [\"*\"]` for a header of that name",
                "name the headers",
            );
        }
    }
    Some(CorsRules {
        origins,
        methods: methods?,
        headers,
        exposed,
        credentials: credentials?,
        max_age: max_age?,
    })
}

fn elements<'d>(field: &Field<'d>) -> Option<Vec<Field<'d>>> {
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
fn names(field: &Field<'_>) -> Option<Option<Vec<HeaderName>>> {
    let elements = elements(field)?;
    if let [only] = &*elements
        && only.written_text() == Some("*")
    {
        return Some(None);
    }
    let names = elements.iter().map(|element| {
        element.parsed(|text| match HeaderName::try_from(text) {
            Ok(name) if text != "*" => Ok(name),
            _ => Err(Mistake::new(format!(
                "{} is not the name of a header",
                quoted(text)
            ))),
        })
    });
    all(names.collect::<Vec<_>>()).map(Some)
}

fn origins(field: &Field<'_>) -> Option<PageOrigins> {
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
fn origin(text: &str) -> Result<PageOrigin, Mistake> {
    let wrong = |what: &str, instead: String| {
        let message = format!("{} {what}", quoted(text));
        Err(Mistake::with_advice(
            message,
            format!("write {}", quoted(&instead)),
        ))
    };
    if text == "null" {
        return Err(Mistake::with_advice(
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
        return Err(Mistake::new(format!(
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
