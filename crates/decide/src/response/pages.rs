//! Chooses the body of a failure for a client, among the operator's pages and the problem body.
//!
//! The values that are filled in are digits, a standard phrase and hexadecimal digits, so nothing needs an escape in any type.

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{ErrorPages, Failing, Page, PagePiece};

use super::negotiate;
use super::problem::PROBLEM_JSON;
use crate::request_id::RequestId;

/// The page that `Accept` selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NegotiatedPage {
    /// There is no page for this failure.
    NoPage,
    /// The problem body, where there are pages too.
    Problem,
    /// A page with its type.
    Page(HeaderValue, Bytes),
}

/// Returns the body of a failure with `status`, for a client that sent `headers`.
#[must_use]
pub fn choose(
    pages: &ErrorPages,
    status: StatusCode,
    headers: &ReceivedFields,
    request_id: RequestId,
) -> NegotiatedPage {
    // The page of this status, or else that of its class.
    let Some(bodies) = pages.find(Failing::Status(status), Page::own_bodies) else {
        return NegotiatedPage::NoPage;
    };
    let own = bodies.iter().map(|body| &body.content_type);
    let problem = PROBLEM_JSON;
    let types = std::iter::once(&problem)
        .chain(own)
        .map(|media_type| media_type.to_str().unwrap_or_default());
    let chosen = negotiate::choose(headers, types).checked_sub(1);
    match chosen.and_then(|index| bodies.get(index)) {
        Some(body) => NegotiatedPage::Page(
            body.content_type.clone(),
            fill(&body.text, status, request_id),
        ),
        None => NegotiatedPage::Problem,
    }
}

/// Returns whether the page of `status` replaces an origin's own response too.
#[must_use]
pub fn intercepts(pages: &ErrorPages, status: StatusCode) -> bool {
    let fails = status.is_client_error() || status.is_server_error();
    fails && pages.find(Failing::Status(status), |page| page.intercept) == Some(true)
}

fn fill(text: &[PagePiece], status: StatusCode, request_id: RequestId) -> Bytes {
    let mut body = BytesMut::new();
    for piece in text {
        match piece {
            PagePiece::Text(text) => body.extend_from_slice(text.as_bytes()),
            PagePiece::Status => body.extend_from_slice(status.as_str().as_bytes()),
            PagePiece::Reason => {
                let reason = status.canonical_reason().unwrap_or_default();
                body.extend_from_slice(reason.as_bytes());
            }
            PagePiece::RequestId => body.extend_from_slice(request_id.text().as_bytes()),
        }
    }
    body.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::ACCEPT;
    use sluicegate_config::rules::PageBody;

    fn page(text: &str) -> Page {
        Page {
            bodies: vec![PageBody {
                content_type: HeaderValue::from_static("text/html; charset=utf-8"),
                text: vec![
                    PagePiece::Text(text.into()),
                    PagePiece::Status,
                    PagePiece::Text(" ".into()),
                    PagePiece::Reason,
                    PagePiece::Text(" ".into()),
                    PagePiece::RequestId,
                ],
            }],
            intercept: None,
        }
    }

    fn chosen(status: u16, accept: Option<&'static str>) -> Option<String> {
        let pages = ErrorPages {
            pages: vec![
                (Failing::Server, page("5xx ")),
                (Failing::Status(StatusCode::BAD_GATEWAY), page("own ")),
            ],
        };
        let accept = accept.map(|accept| (ACCEPT, HeaderValue::from_static(accept)));
        let headers: ReceivedFields = accept.into_iter().collect();
        let status = StatusCode::from_u16(status).expect("a status");
        match choose(&pages, status, &headers, RequestId::from_bits(10)) {
            NegotiatedPage::NoPage => None,
            NegotiatedPage::Problem => Some("problem".to_owned()),
            NegotiatedPage::Page(_, body) => Some(String::from_utf8(body.to_vec()).expect("text")),
        }
    }

    /// Goal: a page of the status precedes that of its class, and programs get the problem body. Method: pages for 502 and for
    /// 5xx.
    #[test]
    fn a_page_of_the_status_goes_before_that_of_its_class() {
        let browser = Some("text/html,application/xhtml+xml,*/*;q=0.8");
        let id = "0000000000000000000000000000000a";
        assert_eq!(
            chosen(502, browser),
            Some(format!("own 502 Bad Gateway {id}"))
        );
        assert_eq!(
            chosen(504, browser),
            Some(format!("5xx 504 Gateway Timeout {id}"))
        );
        assert_eq!(chosen(504, None).as_deref(), Some("problem"));
        assert_eq!(
            chosen(504, Some("application/json")).as_deref(),
            Some("problem")
        );
        assert_eq!(chosen(404, browser), None);
    }

    /// Goal: a status without `intercept` uses that of its class, and one without bodies those of its class. Method: the first
    /// of two pages for 404, of a class, and of a status with the opposite setting.
    #[test]
    fn what_a_status_does_not_say_its_class_says() {
        let client = |status| Failing::Status(StatusCode::from_u16(status).expect("a status"));
        let said = |intercept| Page {
            bodies: Vec::new(),
            intercept: Some(intercept),
        };
        let pages = ErrorPages {
            pages: vec![
                (client(404), page("own ")),
                (client(410), said(false)),
                (client(410), said(true)),
                (Failing::Client, said(true)),
                (Failing::Client, page("4xx ")),
                (Failing::Server, page("5xx ")),
            ],
        };
        let intercepted = (200..=999).filter(|status| {
            let status = StatusCode::from_u16(*status).expect("a status");
            intercepts(&pages, status)
        });
        let all_but: Vec<_> = (400..500).filter(|status| *status != 410).collect();
        assert_eq!(intercepted.collect::<Vec<_>>(), all_but);
        for (status, begins) in [(404, "own "), (410, "4xx "), (451, "4xx ")] {
            let headers =
                ReceivedFields::from_iter([(ACCEPT, HeaderValue::from_static("text/html"))]);
            let status = StatusCode::from_u16(status).expect("a status");
            match choose(&pages, status, &headers, RequestId::from_bits(1)) {
                NegotiatedPage::Page(_, body) => {
                    assert!(body.starts_with(begins.as_bytes()), "{status}")
                }
                other => panic!("{status}: {other:?}"),
            }
        }
    }
}
