//! Holds the page that an endpoint makes, and writes it as a response with the fields that all of them have.

use std::borrow::Cow;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// Other sites may not embed answers, and so not measure them either.
pub(super) const RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// The status, type and body of a response, before the common fields are added.
pub(super) struct AdminPage {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: Cow<'static, [u8]>,
    pub(super) fields: Vec<(HeaderName, HeaderValue)>,
}

impl AdminPage {
    pub(super) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        Self {
            status,
            content_type,
            body: body.into(),
            fields: Vec::new(),
        }
    }

    pub(super) fn json(value: &impl Serialize) -> Self {
        Self::written(serde_json::to_vec_pretty(value))
    }

    /// Returns the page of a value on one line: a line for each number of an array would be most of the answer.
    pub(super) fn json_line(value: &impl Serialize) -> Self {
        Self::written(serde_json::to_vec(value))
    }

    fn written(json: serde_json::Result<Vec<u8>>) -> Self {
        match json {
            Ok(mut body) => {
                body.push(b'\n');
                Self::new(StatusCode::OK, JSON, body)
            }
            Err(error) => {
                tracing::error!("admin: an answer cannot be written: {error}");
                let error = "the answer cannot be written";
                Self::error(StatusCode::INTERNAL_SERVER_ERROR, error)
            }
        }
    }

    pub(super) fn error(status: StatusCode, error: &str) -> Self {
        let body = serde_json::json!({ "error": error }).to_string();
        Self::new(status, JSON, body.into_bytes())
    }

    pub(super) fn with(self, name: HeaderName, value: &'static str) -> Self {
        self.with_value(name, HeaderValue::from_static(value))
    }

    /// Adds a field, in place of a common one of this name.
    pub(super) fn with_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.push((name, value));
        self
    }
}

/// Returns the response of a page, with the common fields. Its body is empty for HEAD, while `Content-Length` tells what GET would get.
pub(super) fn dressed(page: AdminPage, method: &Method) -> Response<Vec<u8>> {
    let length = page.body.len();
    let mut response = Response::new(if method == Method::HEAD {
        Vec::new()
    } else {
        page.body.into_owned()
    });
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    // RFC 9110 §8.6: that of a 304 would be the length of what it stands for.
    if page.status != StatusCode::NOT_MODIFIED {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    for (name, value) in page.fields {
        headers.insert(name, value);
    }
    response
}

pub(super) fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

pub(super) fn only_reading() -> AdminPage {
    // RFC 9110 §15.5.6: a 405 says what is allowed.
    let error = &br#"{"error":"this path can only be read: GET or HEAD"}"#[..];
    AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "GET, HEAD")
}
