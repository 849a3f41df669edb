//! Decides who gets a page: a person's browser that opens a document, and nobody else.
//!
//! A page that comes where an image, a script, JSON or a file is expected breaks what it was to protect. So everything that does not ask
//! for a document by its own words is rejected as always.

use http::Method;
use http::header::{ACCEPT, HeaderName, REFERER, UPGRADE};
use sluicegate_base::bounds;
use sluicegate_base::received::ReceivedFields;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const X_REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");
/// Fields by which browsers say that nobody looks at the answer yet; the last two are older.
const PURPOSES: [HeaderName; 3] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
    HeaderName::from_static("x-moz"),
];

/// The reader of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAudience {
    /// A browser that opens a document.
    Browser(PageVisit),
    /// Any other client, or a browser that loads something else.
    Program,
}

/// The way in which a browser came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageVisit {
    /// From anywhere.
    Fresh,
    /// From the same address, as a page does that reloads itself.
    Returned,
}

impl PageAudience {
    /// Returns the audience of a request with this head, for the target `path`, normalized, and `query`.
    #[must_use]
    pub fn from_method(method: &Method, headers: &ReceivedFields, path: &str, query: &str) -> Self {
        let destination = headers.get(SEC_FETCH_DEST);
        let is_document = *method == Method::GET
            && destination.is_none_or(|destination| destination == "document")
            && !headers.contains_key(X_REQUESTED_WITH)
            && !headers.contains_key(UPGRADE)
            && !is_prefetch(headers)
            && wants_html(headers);
        if !is_document {
            return Self::Program;
        }
        Self::Browser(match came_from(headers, path, query) {
            true => PageVisit::Returned,
            false => PageVisit::Fresh,
        })
    }
}

fn is_prefetch(headers: &ReceivedFields) -> bool {
    PURPOSES.iter().any(|name| {
        let value = headers.get(name).map(|value| value.as_bytes());
        value.is_some_and(|value| value.starts_with(b"prefetch") || value.starts_with(b"preview"))
    })
}

/// Returns whether `Accept` names HTML, and no JSON. A wildcard names neither: programs send it.
fn wants_html(headers: &ReceivedFields) -> bool {
    let lines = headers.get_all(ACCEPT);
    let lines = lines.filter_map(|line| line.to_str().ok());
    let ranges = lines
        .flat_map(|line| line.split(','))
        .take(bounds::ACCEPT_RANGES);
    let mut html = false;
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        if parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")) {
            continue;
        }
        if name == "application/json" || name.ends_with("+json") {
            return false;
        }
        html |= name == "text/html" || name == "application/xhtml+xml";
    }
    html
}

/// Returns whether `Referer` is this target.
fn came_from(headers: &ReceivedFields, path: &str, query: &str) -> bool {
    let referer = headers.get(REFERER).and_then(|value| value.to_str().ok());
    let Some((_, rest)) = referer.and_then(|referer| referer.split_once("://")) else {
        return false;
    };
    let target = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/");
    let (from, asked) = target.split_once('?').unwrap_or((target, ""));
    from == path && asked == query
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

    fn audience(method: Method, fields: &[(&'static str, &'static str)]) -> PageAudience {
        let mut headers = ReceivedFields::new();
        for (name, value) in fields {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        PageAudience::from_method(&method, &headers, "/a", "b=1")
    }

    /// Goal: a page reaches a person, and no program. Method: heads that browsers and programs send.
    #[test]
    fn only_a_document_that_somebody_opens_gets_a_page() {
        let fresh = PageAudience::Browser(PageVisit::Fresh);
        for fields in [
            &[("accept", BROWSER)][..],
            &[("accept", BROWSER), ("sec-fetch-dest", "document")],
            &[("accept", BROWSER), ("referer", "https://gateway.test/")],
            &[
                ("accept", BROWSER),
                ("referer", "https://gateway.test/a?b=2"),
            ],
            &[("accept", "text/html")],
        ] {
            assert_eq!(audience(Method::GET, fields), fresh, "{fields:?}");
            for method in [Method::POST, Method::HEAD, Method::PUT, Method::OPTIONS] {
                assert_eq!(audience(method, fields), PageAudience::Program);
            }
        }
        for fields in [
            &[][..],
            &[("accept", "*/*")],
            &[("accept", "application/json")],
            &[("accept", "application/json, text/html")],
            &[("accept", "application/problem+json, text/html")],
            &[("accept", "text/html;q=0, */*")],
            &[("accept", BROWSER), ("sec-fetch-dest", "image")],
            &[("accept", BROWSER), ("sec-fetch-dest", "iframe")],
            &[("accept", BROWSER), ("sec-fetch-dest", "empty")],
            &[("accept", BROWSER), ("x-requested-with", "XMLHttpRequest")],
            &[("accept", BROWSER), ("sec-purpose", "prefetch;prerender")],
            &[("accept", BROWSER), ("purpose", "prefetch")],
            &[("accept", BROWSER), ("upgrade", "websocket")],
        ] {
            assert_eq!(
                audience(Method::GET, fields),
                PageAudience::Program,
                "{fields:?}"
            );
        }
        let returned = [
            ("accept", BROWSER),
            ("referer", "http://gateway.test/a?b=1"),
        ];
        assert_eq!(
            audience(Method::GET, &returned),
            PageAudience::Browser(PageVisit::Returned)
        );
    }
}
