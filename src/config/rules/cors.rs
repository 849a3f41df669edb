//! Owns the typed rules of which pages of other origins may read answers.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

/// `cors`: the CORS protocol of the Fetch standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsRules {
    /// Whose pages.
    pub origins: PageOrigins,
    /// With which methods; empty: those of the route, as whichever is asked for was routed here.
    pub methods: Vec<Method>,
    /// With which fields.
    pub headers: AllowedFields,
    /// `Access-Control-Expose-Headers`: those of the file, and those of limits.
    pub exposed: HeaderValue,
    /// Whether with cookies and the like.
    pub credentials: Credentials,
    /// How long a browser may keep the answer to a preflight.
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

/// Whether a page may send cookies and the like, and read what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// It may.
    Allowed,
    /// It may not, the default.
    Withheld,
}
