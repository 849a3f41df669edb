//! Answers the operator: `/metrics`, `/healthz`, `/readyz`, `/status` and `/limits/NAME/top`, on a listener of their own.
//!
//! [`answer`] is pure: a request's head and a view of the running gateway in, a whole response out, or a [`Walk`] that makes one
//! where that takes longer than others should wait. The probes are open to whoever reaches the listener; everything else asks for
//! the token where one is configured, and asks for it first, so that a stranger does not even learn which paths exist.

use std::borrow::Cow;

use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;

mod advice;
mod gateway;
mod health;
mod metrics;
mod status;
mod token;
mod top;
pub mod view;

use token::Access;
use top::Question;
use view::AdminView;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// What becomes of a request.
#[derive(Debug)]
pub enum Answer {
    /// This is the response.
    Ready(Response<Vec<u8>>),
    /// The response takes a walk through a table, of up to some seconds.
    Walk(Walk),
}

/// A response that is still to be made, where nobody waits for anything else.
#[derive(Debug)]
pub struct Walk {
    question: Question,
    method: Method,
}

impl Walk {
    /// Walks; the response.
    #[must_use]
    pub fn run(&self, view: &dyn AdminView) -> Response<Vec<u8>> {
        dressed(self.question.page(view), &self.method)
    }

    /// The response when others walk already.
    #[must_use]
    pub fn put_off(&self) -> Response<Vec<u8>> {
        let error = &br#"{"error":"another walk through a table is under way; ask again"}"#[..];
        let page = Page::new(StatusCode::SERVICE_UNAVAILABLE, JSON, error).with(RETRY_AFTER, "1");
        dressed(page, &self.method)
    }
}

/// What becomes of `request`. The body of a response is empty for HEAD, while `Content-Length` tells what GET would get.
#[must_use]
pub fn answer(request: &Parts, view: &dyn AdminView) -> Answer {
    let method = &request.method;
    match page(request, view) {
        Task::Show(page) => Answer::Ready(dressed(page, method)),
        Task::Walk(question) => Answer::Walk(Walk {
            question,
            method: method.clone(),
        }),
    }
}

fn dressed(page: Page, method: &Method) -> Response<Vec<u8>> {
    let length = page.body.len();
    let mut response = Response::new(if method == Method::HEAD {
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

    fn json(value: &impl Serialize) -> Self {
        match serde_json::to_vec_pretty(value) {
            Ok(mut body) => {
                body.push(b'\n');
                Self::new(StatusCode::OK, JSON, body)
            }
            Err(error) => {
                log::error!("admin: an answer cannot be written: {error}");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    JSON,
                    &br#"{"error":"the answer cannot be written"}"#[..],
                )
            }
        }
    }

    fn with(self, name: HeaderName, value: &'static str) -> Self {
        Self {
            extra: Some((name, value)),
            ..self
        }
    }
}

/// What is to be done about a request.
enum Task {
    Show(Page),
    Walk(Question),
}

fn page(request: &Parts, view: &dyn AdminView) -> Task {
    let path = request.uri.path();
    let open = matches!(path, "/healthz" | "/readyz");
    if !open
        && token::check(
            view.token().as_deref(),
            request.headers.get_all(AUTHORIZATION),
        ) == Access::Denied
    {
        let error = &br#"{"error":"this path needs the token of [admin] token_file"}"#[..];
        let page = Page::new(StatusCode::UNAUTHORIZED, JSON, error);
        return Task::Show(page.with(WWW_AUTHENTICATE, "Bearer realm=\"sluicegate\""));
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
        _ => return walk(request),
    };
    if is_reading(&request.method) {
        Task::Show(make(view))
    } else {
        Task::Show(only_reading())
    }
}

fn walk(request: &Parts) -> Task {
    match Question::of(request.uri.path(), request.uri.query()) {
        Some(_) if !is_reading(&request.method) => Task::Show(only_reading()),
        Some(Ok(question)) => Task::Walk(question),
        Some(Err(misasked)) => Task::Show(misasked.page()),
        None => {
            let paths = &br#"{"error":"no such path","paths":["/metrics","/healthz","/readyz","/status","/limits/NAME/top"]}"#[..];
            Task::Show(Page::new(StatusCode::NOT_FOUND, JSON, paths))
        }
    }
}

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn only_reading() -> Page {
    // RFC 9110 §15.5.6: a 405 says what is allowed.
    let error = &br#"{"error":"this path can only be read: GET or HEAD"}"#[..];
    Page::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "GET, HEAD")
}

#[cfg(test)]
mod tests;
