//! `request_headers`, `response_headers`, `strip_prefix`, `rewrite` and `redirect`: how requests and answers are shaped.
//!
//! `cors`, `compress` and `error_pages` are read beside them, by files of their own.

use std::sync::Arc;

use http::StatusCode;
use http::header::{self, HeaderName};
use sluicegate_base::bounds::FIELD_EDITS;
use sluicegate_base::path::{NormalPath, PathGroups, PathRegex};
use sluicegate_http1::is_hop_by_hop;

use super::error_pages::{self, PageScope};
use super::{compress, cors};
use crate::field::{KeyField, all, quoted};
use crate::pattern;
use crate::problem::ParseError;
use crate::report::KeyPlace;
use crate::rules::{
    FieldEdits, PathPattern, RedirectPlace, RedirectQuery, RedirectRules, Segment, ShapeRules,
    Slot, Tail, Template,
};
use crate::section::{TableSection, step};
use crate::template::{AllowedSlots, template};

const EXAMPLE: &str = "{ set = { x-frame-options = \"DENY\" } }";

/// The message whose fields are edited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    Request,
    Response,
}

/// An edit of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EditKind {
    Set,
    Add,
    Remove,
}

/// The path of a route, as templates see it.
#[derive(Clone, Copy)]
pub(crate) struct TemplatePath<'r> {
    pub(crate) path: &'r PathPattern,
    pub(crate) regex: Option<&'r PathRegex>,
}

/// Reads the rules for every route.
pub(crate) fn of_all(root: &TableSection<'_>) -> Option<ShapeRules> {
    shape(root, None, None, PageScope::All)
}

/// Reads the rules of a route: its own behind those of every route; `None` inside where nothing is shaped.
pub(crate) fn from_section(
    section: &TableSection<'_>,
    way: Option<TemplatePath<'_>>,
    origin: Option<&KeyField<'_>>,
    of_all: Option<&ShapeRules>,
) -> Option<Option<Arc<ShapeRules>>> {
    let groups = groups(section, way);
    let whose = match origin {
        Some(_) => PageScope::Route(of_all.map(|of_all| &of_all.pages)),
        None => PageScope::RouteWithoutOrigin,
    };
    let own = shape(section, way, groups.as_ref(), whose);
    let strip = section.field("strip_prefix", "\"/api\"");
    let rewrite = section.field("rewrite", "\"/v2/{rest}\"");
    if let (None, Some(path)) = (origin, strip.as_ref().or(rewrite.as_ref())) {
        path.refuse::<()>(
            "the route has no origin, so nobody gets the path",
            "write origin = \"app\", or leave this out",
        );
    }
    let path = match (strip, rewrite) {
        (Some(_), Some(rewrite)) => rewrite.refuse(
            "there is a strip_prefix too, and the path can only be made in one way",
            "leave one out",
        ),
        (Some(strip), None) => stripped(&strip, way).map(Some),
        (None, Some(rewrite)) => rewritten(&rewrite, way, groups.as_ref()).map(Some),
        (None, None) => Some(None),
    };
    let own = own?;
    let path = path?;
    let of_all = of_all?;
    let request = of_all.request.then(own.request);
    let response = of_all.response.then(own.response);
    for (edits, key) in [
        (&request, "request_headers"),
        (&response, "response_headers"),
    ] {
        let many = edits.remove.len() + edits.set.len() + edits.add.len();
        if many > FIELD_EDITS {
            let message = format!("{many} edits of fields are too many for a route");
            let place = section.place.inside(&step(key), section.place.span.clone());
            section
                .report
                .error(&place, message, format!("keep at most {FIELD_EDITS}"));
            return None;
        }
    }
    let mut shape = ShapeRules {
        request,
        response,
        path,
        groups: None,
        cors: own.cors.or_else(|| of_all.cors.clone()),
        compress: own.compress.or_else(|| of_all.compress.clone()),
        pages: own.pages.before(&of_all.pages),
    };
    shape.groups = groups.filter(|_| shape.reads_path());
    Some((!shape.is_empty()).then(|| Arc::new(shape)))
}

/// Asks for the keys that a route and the whole file share.
fn shape(
    section: &TableSection<'_>,
    way: Option<TemplatePath<'_>>,
    groups: Option<&PathGroups>,
    whose: PageScope<'_>,
) -> Option<ShapeRules> {
    let slots = AllowedSlots::of_field(way.map(|way| way.path), groups);
    let edited = |key, message| {
        section.or(key, EXAMPLE, FieldEdits::default(), |field| {
            edits(field, message, &slots)
        })
    };
    let request = edited("request_headers", MessageKind::Request);
    let response = edited("response_headers", MessageKind::Response);
    let cors = cors::from_section(section);
    let compress = compress::from_section(section);
    let pages = error_pages::from_section(section, whose);
    Some(ShapeRules {
        request: request?,
        response: response?,
        cors: cors?,
        compress: compress?,
        pages: pages?,
        ..ShapeRules::default()
    })
}

/// The groups of a path that is an expression.
pub(crate) fn groups(
    section: &TableSection<'_>,
    way: Option<TemplatePath<'_>>,
) -> Option<PathGroups> {
    let regex = way?.regex?;
    let groups = PathGroups::from_expression(regex);
    if groups.is_none() {
        let place = section.place.inside(".path", section.place.span.clone());
        let message = "with its groups the expression takes too much memory";
        section.report.error(
            &place,
            message,
            "write (?:…) for groups that are not asked for",
        );
    }
    groups
}

fn edits(
    field: &KeyField<'_>,
    message: MessageKind,
    slots: &AllowedSlots<'_>,
) -> Option<FieldEdits> {
    let section = field.section()?;
    let set = section.or(
        "set",
        "{ x-frame-options = \"DENY\" }",
        Vec::new(),
        |field| values(field, message, EditKind::Set, slots),
    );
    let add = section.or("add", "{ vary = \"x-plan\" }", Vec::new(), |field| {
        values(field, message, EditKind::Add, slots)
    });
    let remove = section.or("remove", "[\"server\"]", Vec::new(), |field| {
        let names = field
            .elements()?
            .into_iter()
            .map(|element| element.parsed(|text| name(text, message, EditKind::Remove)));
        all(names.collect::<Vec<_>>())
    });
    section.finish();
    Some(FieldEdits {
        remove: remove?,
        set: set?,
        add: add?,
    })
}

/// Fields with their values, in the order written.
fn values(
    field: &KeyField<'_>,
    message: MessageKind,
    edit: EditKind,
    slots: &AllowedSlots<'_>,
) -> Option<Vec<(HeaderName, Template)>> {
    let section = field.section()?;
    let mut seen: Vec<HeaderName> = Vec::new();
    let read = section.entries().into_iter().map(|(key, span, value)| {
        let at = field.place.inside(&step(key), Some(span));
        let refuse = |place: &KeyPlace, mistake: ParseError| {
            let advice = mistake.advice.unwrap_or_else(|| field.advice());
            field.report.error(place, mistake.message, advice);
        };
        let found = name(key, message, edit).and_then(|name| {
            if seen.contains(&name) {
                let message = format!("{name} is named twice, since case does not matter");
                return Err(ParseError::with_advice(message, "write it once"));
            }
            Ok(name)
        });
        let name = found.map_err(|mistake| refuse(&at, mistake));
        let value = KeyField {
            report: field.report,
            place: KeyPlace {
                span: Some(value.span()),
                ..at.clone()
            },
            generic: field.generic.clone(),
            key: field.key,
            example: field.example,
            value: value.get_ref(),
        };
        let value = value.parsed(|text| {
            if text.trim() != text {
                let message = format!(
                    "{} has white space at an end, which fields lose on their way",
                    quoted(text)
                );
                return Err(ParseError::with_advice(
                    message,
                    format!("write {}", quoted(text.trim())),
                ));
            }
            template(text, slots)
        });
        let name = name.ok()?;
        let value = value?;
        seen.push(name.clone());
        Some((name, value))
    });
    all(read.collect::<Vec<_>>())
}

/// Fields that frame a message.
const FRAMING: [HeaderName; 2] = [header::CONTENT_LENGTH, header::EXPECT];

/// Fields that the gateway tells origins about the client, or clients about themselves.
const OWN: [&str; 5] = [
    "x-request-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "forwarded",
];

fn name(text: &str, message: MessageKind, edit: EditKind) -> Result<HeaderName, ParseError> {
    let name = HeaderName::try_from(text).map_err(|_| {
        let message = format!("{} is not the name of a header", quoted(text));
        ParseError::with_advice(message, "write one such as x-plan")
    })?;
    let wrong =
        |why: &str, advice: &str| Err(ParseError::with_advice(format!("{name} {why}"), advice));
    if is_hop_by_hop(name.as_str().as_bytes()) || FRAMING.contains(&name) {
        return wrong(
            "speaks of a connection or frames a message, which is the gateway's affair",
            "leave it out",
        );
    }
    if name == header::HOST && message == MessageKind::Request {
        return wrong(
            "is said by a key of its own, since servers are chosen by it",
            "write host = \"app.internal\" in [origin.NAME]",
        );
    }
    let text = name.as_str();
    if OWN.contains(&text) || text.starts_with("ratelimit") || text.starts_with("x-ratelimit") {
        return wrong("is written by the gateway", "leave it out");
    }
    if message == MessageKind::Response {
        if name == header::RETRY_AFTER && edit != EditKind::Remove {
            return wrong("is written by the gateway", "leave it out");
        }
        if name == header::VARY && edit != EditKind::Add {
            return wrong(
                "tells caches what an answer depends on, and without it they mix answers",
                "write it in `add`, beside what the origin says",
            );
        }
    }
    Ok(name)
}

/// Reads the prefix that is removed from the path: the first segments of the route's own path.
fn stripped(field: &KeyField<'_>, way: Option<TemplatePath<'_>>) -> Option<Template> {
    let way = way?;
    if way.regex.is_some() {
        return field.refuse(
            "the path is an expression, of which no prefix is known",
            "write rewrite = \"/{1}\", with a group for what is to be kept",
        );
    }
    let (prefix, regex) = field.parsed(pattern::path)?;
    let segments = prefix.segments.as_slice();
    let is_whole = segments
        .iter()
        .all(|segment| !matches!(segment, Segment::Literal(text) if text.is_empty()));
    if regex.is_some() || prefix.tail == Tail::Any || !is_whole || segments.is_empty() {
        let text = field.text()?.trim_end_matches(['*', '/']);
        let advice = if text.is_empty() || text.starts_with('~') {
            field.advice()
        } else {
            format!("write strip_prefix = {}", quoted(text))
        };
        return field.refuse("a prefix is one or more whole segments", advice);
    }
    if !way.path.segments.starts_with(segments) {
        return field.refuse(
            format!("the path {} does not begin with it", quoted(&way.path.text)),
            "write the first segments of the path, or another path",
        );
    }
    Some(Template::Filled(vec![
        Slot::Text("/".into()),
        Slot::Rest(segments.len()),
    ]))
}

fn rewritten(
    field: &KeyField<'_>,
    way: Option<TemplatePath<'_>>,
    groups: Option<&PathGroups>,
) -> Option<Template> {
    let way = way?;
    let made = field.parsed(|text| template(text, &AllowedSlots::of_path(way.path, groups)))?;
    let text = sample(&made);
    if !text.starts_with('/')
        && !matches!(&made, Template::Filled(slots) if matches!(slots[..], [Slot::Group(_), ..]))
    {
        return field.refuse(
            format!("{} does not begin with a slash", quoted(field.text()?)),
            field.advice(),
        );
    }
    if text.contains(['?', '#']) {
        return field.refuse(
            "the query is kept as it is, and is no part of this",
            "leave out what follows the path",
        );
    }
    if let Err(why) = NormalPath::parse(&format!("/{}", text.trim_start_matches('/'))) {
        return field.refuse(
            format!("this makes no path: {why}"),
            "write %25 for a percent sign",
        );
    }
    Some(made)
}

/// A template as it might be filled in.
fn sample(template: &Template) -> String {
    match template {
        Template::Fixed(value) => value.to_str().unwrap_or_default().to_owned(),
        Template::Filled(slots) => slots
            .iter()
            .map(|slot| match slot {
                Slot::Text(text) => text,
                // No digit of an escape.
                _ => "z",
            })
            .collect(),
    }
}

/// `redirect = { to = "https://{host}/new/{rest}", status = 308 }`
pub(crate) fn redirect(
    field: &KeyField<'_>,
    way: Option<TemplatePath<'_>>,
) -> Option<RedirectRules> {
    let section = field.section()?;
    let groups = groups(&section, way);
    let status = section.or("status", "308", StatusCode::PERMANENT_REDIRECT, |field| {
        let status = field.integer(301..=308)?;
        if ![301, 302, 303, 307, 308].contains(&status) {
            return field.refuse(
                format!("{status} sends nobody elsewhere"),
                "write 308 or 307, which keep the method, for good or for now; or 301, 302, 303",
            );
        }
        StatusCode::from_u16(u16::try_from(status).ok()?).ok()
    });
    let to = section
        .required("to", "\"https://{host}/new\"")
        .and_then(|field| {
            let slots = AllowedSlots::of_redirect(way?.path, groups.as_ref());
            let made = field.parsed(|text| template(text, &slots))?;
            Some((place(&field)?, made))
        });
    section.finish();
    let (place, to) = to?;
    let reads_path = to.reads_path();
    let query = if sample(&to).contains('?') {
        RedirectQuery::Replaced
    } else {
        RedirectQuery::Kept
    };
    Some(RedirectRules {
        status: status?,
        to,
        place,
        query,
        groups: groups.filter(|_| reads_path),
    })
}

/// Where a redirect leads; of a URL only what stands before the path may not be made of it.
fn place(field: &KeyField<'_>) -> Option<RedirectPlace> {
    let text = field.text()?;
    if text.starts_with('/') && !text.starts_with("//") {
        return Some(RedirectPlace::Path);
    }
    let authority = ["https://", "http://"]
        .into_iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let Some(rest) = authority else {
        return field.refuse(
            format!("{} is neither a path nor a URL", quoted(text)),
            "write to = \"/new\" or to = \"https://www.example.com/new\"",
        );
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let literal = authority.replace("{host}", "a");
    if literal.is_empty() || !literal.bytes().all(is_host) {
        return field.refuse(
            format!("{} is no host that clients could be sent to", quoted(authority)),
            "write a host or {host} between the slashes; parts of the path may only follow behind the next one",
        );
    }
    Some(RedirectPlace::Url)
}
