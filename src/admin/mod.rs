//! Answers the operator: `/metrics`, `/healthz`, `/readyz` and `/status`, on a listener of their own.
//!
//! [`answer`] is pure: a request's head and a view of the running gateway in, a whole response out. The probes are open to
//! whoever reaches the listener; everything else asks for the token where one is configured, and asks for it first, so that a
//! stranger does not even learn which paths exist.

use std::borrow::Cow;

use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};

mod advice;
mod gateway;
mod health;
mod metrics;
mod status;
mod token;
pub mod view;

use token::Access;
use view::AdminView;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The response to `request`. Its body is empty for HEAD, while `Content-Length` tells what GET would get.
#[must_use]
pub fn answer(request: &Parts, view: &dyn AdminView) -> Response<Vec<u8>> {
    let page = page(request, view);
    let length = page.body.len();
    let head_only = request.method == Method::HEAD;
    let mut response = Response::new(if head_only {
        Vec::new()
    } else {
        page.body.into_owned()
    });
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some((name, value)) = page.extra {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What is answered, before it is dressed as HTTP.
struct Page {
    status: StatusCode,
    content_type: &'static str,
    body: Cow<'static, [u8]>,
    extra: Option<(HeaderName, &'static str)>,
}

impl Page {
    fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        Self {
            status,
            content_type,
            body: body.into(),
            extra: None,
        }
    }

    fn with(self, name: HeaderName, value: &'static str) -> Self {
        Self {
            extra: Some((name, value)),
            ..self
        }
    }
}

fn page(request: &Parts, view: &dyn AdminView) -> Page {
    let path = request.uri.path();
    let open = matches!(path, "/healthz" | "/readyz");
    if !open
        && token::check(
            view.token().as_deref(),
            request.headers.get_all(AUTHORIZATION),
        ) == Access::Denied
    {
        return Page::new(
            StatusCode::UNAUTHORIZED,
            JSON,
            &br#"{"error":"this path needs the token of [admin] token_file"}"#[..],
        )
        .with(WWW_AUTHENTICATE, "Bearer realm=\"sluicegate\"");
    }
    let make: fn(&dyn AdminView) -> Page = match path {
        "/metrics" => |view| {
            Page::new(
                StatusCode::OK,
                crate::record::exposition::CONTENT_TYPE,
                metrics::text(view),
            )
        },
        "/healthz" => |_| Page::new(StatusCode::OK, TEXT, &b"ok"[..]),
        "/readyz" => |view| health::ready(view.readiness()),
        "/status" => |view| status::page(view),
        _ => {
            let paths =
                &br#"{"error":"no such path","paths":["/metrics","/healthz","/readyz","/status"]}"#
                    [..];
            return Page::new(StatusCode::NOT_FOUND, JSON, paths);
        }
    };
    if request.method != Method::GET && request.method != Method::HEAD {
        // RFC 9110 §15.5.6: a 405 says what is allowed.
        let error = &br#"{"error":"this path can only be read: GET or HEAD"}"#[..];
        return Page::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "GET, HEAD");
    }
    make(view)
}

#[cfg(test)]
mod tests;
