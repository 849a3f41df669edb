//! Owns the typed rules of what failures look like.

use http::{HeaderValue, StatusCode};

/// `error_pages`: bodies for failures that the gateway answers itself, beside the problem body, or in place of an origin's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages {
    /// In the order in which they are asked; those of a route before those of all.
    pub pages: Vec<(Failing, Page)>,
}

impl ErrorPages {
    /// The first that the pages of `failing` have, and then those of the class that it belongs to.
    #[must_use]
    pub fn find<'p, T>(
        &'p self,
        failing: Failing,
        have: impl Fn(&'p Page) -> Option<T> + Copy,
    ) -> Option<T> {
        let of = |wanted| {
            let of_it = self.pages.iter().filter(move |(of, _)| *of == wanted);
            of_it.map(|(_, page)| page).find_map(have)
        };
        of(failing).or_else(|| of(failing.class()))
    }

    /// These before `others`.
    #[must_use]
    pub fn before(mut self, others: &Self) -> Self {
        self.pages.extend(others.pages.iter().cloned());
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

impl Failing {
    /// `4xx` of `404`.
    #[must_use]
    pub fn class(self) -> Self {
        match self {
            Self::Status(status) if status.is_server_error() => Self::Server,
            Self::Status(_) => Self::Client,
            Self::Client | Self::Server => self,
        }
    }
}

/// The page for a failure: one body for each type, of which `Accept` chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Bodies of distinct types; none where only `intercept` is said, which leaves the bodies to the next page.
    pub bodies: Vec<PageBody>,
    /// `intercept`: whether it also stands in for an origin's own answer; `None`: as the next page says.
    pub intercept: Option<bool>,
}

impl Page {
    /// Its bodies, where it has some.
    #[must_use]
    pub fn own_bodies(&self) -> Option<&[PageBody]> {
        (!self.bodies.is_empty()).then_some(&*self.bodies)
    }
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
