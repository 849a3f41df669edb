//! `error_pages`: what failures look like, for every route and for one.
//!
//! Pages hold style sheets and scripts, whose braces often enclose a word. So here only the words that are known are placeholders, unlike
//! in the wording of a refusal.
//!
//! A table may say no more than whether its page intercepts: then its bodies are those of the page that would be given without it.

use http::{HeaderValue, StatusCode};
use sluicegate_base::bounds::ERROR_PAGE;

use crate::field::{self, KeyField, quoted};
use crate::report::{KeyPlace, ProblemReport};
use crate::rules::{ErrorPages, Failing, Page, PageBody, PagePiece};
use crate::section::TableSection;

/// The routes for which pages are read.
#[derive(Clone, Copy)]
pub(crate) enum PageScope<'p> {
    /// Those of every route.
    All,
    /// Those of a route, which go before these; `None` where these are wrong.
    Route(Option<&'p ErrorPages>),
    /// Those of a route that answers by itself.
    RouteWithoutOrigin,
}

/// The placeholders.
const PLACEHOLDERS: [(&str, PagePiece); 3] = [
    ("{status}", PagePiece::Status),
    ("{reason}", PagePiece::Reason),
    ("{request_id}", PagePiece::RequestId),
];

/// The `error_pages` of a route or of all; `None` when one is wrong.
pub(crate) fn from_section(section: &TableSection<'_>, whose: PageScope<'_>) -> Option<ErrorPages> {
    let example = "with html = \"<p>We are back soon.\"";
    let mut all = Some(ErrorPages::default());
    let mut intercepting = Vec::new();
    for (name, section) in section.named("error_pages", example) {
        let failing = failing(&name);
        if failing.is_none() {
            section.report.error(
                &section.place,
                format!("{} is no status of a failure", quoted(&name)),
                "write one such as 404, or 4xx or 5xx for all of a kind",
            );
        }
        let field = section.field("intercept", "true");
        let intercept = field.as_ref().map(|field| intercept(field, whose));
        let page = page(section, failing, intercept);
        if let (Some(pages), Some(failing), Some(page)) = (&mut all, failing, page) {
            intercepting.extend(field.map(|field| (failing, field)));
            pages.pages.push((failing, page));
        } else {
            all = None;
        }
    }
    let pages = all?;
    let checked = intercepting
        .iter()
        .map(|(failing, field)| has_page(*failing, field, &pages, whose));
    field::all(checked)?;
    Some(pages)
}

fn intercept(field: &KeyField<'_>, whose: PageScope<'_>) -> Option<bool> {
    let intercept = field.boolean()?;
    if matches!(whose, PageScope::RouteWithoutOrigin) {
        return field.refuse(
            "the route has no origin, so there is no answer to replace",
            "leave it out",
        );
    }
    Some(intercept)
}

/// Returns whether there is a page to give instead of a response, where one is replaced.
fn has_page(
    failing: Failing,
    field: &KeyField<'_>,
    pages: &ErrorPages,
    whose: PageScope<'_>,
) -> Option<()> {
    let has_bodies = |page: &Page| page.own_bodies().map(|_| ());
    let beneath = match whose {
        // What is wrong there was said there.
        PageScope::Route(None) => return Some(()),
        PageScope::Route(Some(of_all)) => of_all.find(failing, has_bodies),
        PageScope::All | PageScope::RouteWithoutOrigin => None,
    };
    if field.boolean() == Some(false) || pages.find(failing, has_bodies).or(beneath).is_some() {
        return Some(());
    }
    field.refuse(
        "there is no page to give instead of an origin's answer",
        "write html, html_file, json or text beside it",
    )
}

fn failing(name: &str) -> Option<Failing> {
    match name {
        "4xx" => Some(Failing::Client),
        "5xx" => Some(Failing::Server),
        _ => {
            let status = StatusCode::from_u16(name.parse().ok()?).ok()?;
            let fails = status.is_client_error() || status.is_server_error();
            fails.then_some(Failing::Status(status))
        }
    }
}

/// Reads a page; of `intercept` the outer option says whether it is written, the inner one whether it is right.
fn page(
    section: TableSection<'_>,
    failing: Option<Failing>,
    intercept: Option<Option<bool>>,
) -> Option<Page> {
    let html = section.field("html", "\"<p>We are back soon.\"");
    let html_file = section.field("html_file", "\"pages/404.html\"");
    let json = section.field("json", "'{ \"error\": {status} }'");
    let text = section.field("text", "\"We are back soon.\"");
    let place = section.place.clone();
    let report = section.report;
    section.finish();
    let mut bodies = Vec::new();
    let mut right = true;
    let mut add = |read: Option<String>, field: &KeyField<'_>, media_type: &'static str| match read
        .and_then(|text| body(&text, field, media_type))
    {
        Some(body) => bodies.push(body),
        None => right = false,
    };
    const HTML: &str = "text/html; charset=utf-8";
    match (&html, &html_file) {
        (Some(_), Some(file)) => {
            file.refuse::<()>(
                "there is `html` too, and it can only come from one of the two",
                "leave one out",
            );
            return None;
        }
        (Some(html), None) => add(html.text().map(str::to_owned), html, HTML),
        (None, Some(file)) => {
            let path = file.path();
            let read = path.as_ref().and_then(|path| {
                file.report.read_file(path).map_or_else(
                    |error| {
                        let shown = quoted(&path.display().to_string());
                        let message = format!("{shown} cannot be read: {error}");
                        file.refuse(
                            message,
                            "put the page there, readable for the user that runs the gateway",
                        )
                    },
                    Some,
                )
            });
            add(read, file, HTML);
        }
        (None, None) => {}
    }
    for (field, media_type) in [
        (&json, "application/json"),
        (&text, "text/plain; charset=utf-8"),
    ] {
        if let Some(field) = field {
            add(field.text().map(str::to_owned), field, media_type);
        }
    }
    if right && intercept.is_none() {
        said_enough(failing, &bodies, &place, report)?;
    }
    let intercept = match intercept {
        Some(written) => Some(written?),
        None => None,
    };
    right.then_some(Page { bodies, intercept })
}

/// Returns whether a page that does not say whether it intercepts says enough.
fn said_enough(
    failing: Option<Failing>,
    bodies: &[PageBody],
    place: &KeyPlace,
    report: &ProblemReport<'_>,
) -> Option<()> {
    if bodies.is_empty() {
        let advice = "write html, html_file, json or text; the problem body is there anyway";
        report.absent(place, "the page has no body", advice);
        return None;
    }
    if failing == Some(Failing::Status(StatusCode::TOO_MANY_REQUESTS)) {
        report.absent(
            place,
            "the gateway's own 429 are worded by `refusal`, so nobody gets this page",
            "write intercept = true to give it instead of an origin's 429, or `refusal` in a limit or route",
        );
        return None;
    }
    Some(())
}

fn body(text: &str, field: &KeyField<'_>, media_type: &'static str) -> Option<PageBody> {
    if text.len() > ERROR_PAGE {
        return field.refuse(
            format!("{} bytes are too many for a failure", text.len()),
            format!("keep at most {ERROR_PAGE}, and link to the rest"),
        );
    }
    let pieces = pieces(text);
    let sample: String = pieces
        .iter()
        .map(|piece| match piece {
            PagePiece::Text(text) => text,
            PagePiece::Status => "404",
            PagePiece::Reason | PagePiece::RequestId => "a",
        })
        .collect();
    if media_type == "application/json"
        && serde_json::from_str::<serde::de::IgnoredAny>(&sample).is_err()
    {
        return field.refuse(
            "filled in, this is no JSON",
            "put {reason} and {request_id} inside quotes, or write `text`",
        );
    }
    Some(PageBody {
        content_type: HeaderValue::from_static(media_type),
        text: pieces,
    })
}

fn pieces(text: &str) -> Vec<PagePiece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let found = PLACEHOLDERS
            .into_iter()
            .filter_map(|(word, piece)| Some((rest.find(word)?, word, piece)));
        let Some((at, word, piece)) = found.min_by_key(|(at, ..)| *at) else {
            break;
        };
        if at > 0 {
            pieces.push(PagePiece::Text(rest[..at].into()));
        }
        pieces.push(piece);
        rest = &rest[at + word.len()..];
    }
    if !rest.is_empty() {
        pieces.push(PagePiece::Text(rest.into()));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: scripts stay what they are. Method: a page with placeholders, words in braces and lone braces.
    #[test]
    fn only_known_words_are_placeholders() {
        let text = |text: &str| PagePiece::Text(text.into());
        assert_eq!(
            pieces("{status} {reason}<script>f(){return}</script>{request_id}{"),
            [
                PagePiece::Status,
                text(" "),
                PagePiece::Reason,
                text("<script>f(){return}</script>"),
                PagePiece::RequestId,
                text("{")
            ]
        );
    }

    /// Goal: only failures have pages. Method: statuses and classes that fail, and others.
    #[test]
    fn only_failures_have_pages() {
        for right in ["404", "4xx", "5xx", "599"] {
            assert!(failing(right).is_some(), "{right}");
        }
        for wrong in ["200", "3xx", "xx", "4XX", "600", "40"] {
            assert!(failing(wrong).is_none(), "{wrong}");
        }
    }
}
