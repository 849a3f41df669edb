//! Decides whether a client is among the crawlers that a route names.

use std::fmt;
use std::sync::Arc;

use super::status::CrawlerStatus;

/// The crawlers that a route takes, by the names that [`CrawlerStatus::is_named`] reads, without exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CrawlerCondition {
    /// The names that match, in order; every client where there is none.
    pub of: Vec<Arc<str>>,
    /// The names that do not match, in order.
    pub except: Vec<Arc<str>>,
}

impl CrawlerCondition {
    /// Returns whether every client meets it.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.of.is_empty() && self.except.is_empty()
    }

    /// Returns whether the client meets it.
    #[must_use]
    pub fn takes(&self, client: &CrawlerStatus) -> bool {
        let is_named = |names: &[Arc<str>]| names.iter().any(|name| client.is_named(name));
        (self.of.is_empty() || is_named(&self.of)) && !is_named(&self.except)
    }

    /// Returns every name in it.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.of.iter().chain(&self.except)
    }
}

impl fmt::Display for CrawlerCondition {
    /// Writes `crawler=ai,search` or `crawler=!none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.of.iter().map(|name| ("", name));
        let except = self.except.iter().map(|name| ("!", name));
        f.write_str("crawler=")?;
        for (at, (mark, name)) in of.chain(except).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{mark}{name}")?;
        }
        Ok(())
    }
}
