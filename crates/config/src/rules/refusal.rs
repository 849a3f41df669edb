//! Owns the typed rules of how a refusal is worded.

use http::{HeaderName, HeaderValue, StatusCode};

/// `[limit.NAME.refusal]` and `[route.refusal]`: how a refusal is worded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRules {
    /// 400–599; default 429.
    pub status: StatusCode,
    /// `body`: what is sent unless `Accept` asks for one of the others; `None` is the problem body.
    pub body: Option<Wording>,
    /// `json`, `html` and `text`, in this order, as far as they are written.
    pub alternatives: Vec<Wording>,
    /// Further fields.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// One body of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wording {
    /// Its media type.
    pub content_type: HeaderValue,
    /// The way in which values are escaped in it.
    pub escape: Escape,
    /// Its text.
    pub template: Vec<Piece>,
}

/// The escape of a value in a text of some media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// Inside a string of JSON.
    Json,
    /// Escaped as text of HTML or XML, also inside the quotes of an attribute.
    Html,
    /// Not escaped.
    None,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// This text.
    Text(Box<str>),
    /// `{limit}`: the name of the limit that refuses.
    Limit,
    /// `{route}`: the name of the route.
    Route,
    /// `{retry_after}`: whole seconds, as in `Retry-After`.
    RetryAfter,
    /// `{request_id}`: as in `X-Request-Id` and in the log.
    RequestId,
}
