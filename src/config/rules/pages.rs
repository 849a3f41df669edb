//! Owns the typed rules of what failures look like.

use std::path::PathBuf;

use http::{HeaderValue, StatusCode};

/// `error_pages`: bodies for failures that the gateway answers itself, beside the problem body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages {
    /// In the order in which they are asked; those of a route before those of all.
    pub pages: Vec<(Failing, Page)>,
    /// The files that they were read from, which are watched.
    pub files: Vec<PathBuf>,
}

impl ErrorPages {
    /// These before `others`.
    #[must_use]
    pub fn before(mut self, others: &Self) -> Self {
        self.pages.extend(others.pages.iter().cloned());
        self.files.extend(others.files.iter().cloned());
        self
    }
}

/// Which failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// `404`
    Status(StatusCode),
    /// `4xx`
    Client,
    /// `5xx`
    Server,
}

/// What a failure looks like: one body for each type, of which `Accept` chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// At least one, of distinct types.
    pub bodies: Vec<PageBody>,
}

/// One body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageBody {
    /// Its media type.
    pub content_type: HeaderValue,
    /// Its text.
    pub text: Vec<PagePiece>,
}

/// A piece of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePiece {
    /// This text.
    Text(Box<str>),
    /// `{status}`: `404`.
    Status,
    /// `{reason}`: `Not Found`.
    Reason,
    /// `{request_id}`: as in `X-Request-Id` and in the log.
    RequestId,
}
