//! Finds the answer for the client of one request when it is first read, and keeps it.

use std::cell::OnceCell;

use super::registry::CrawlerRegistry;
use super::request::CrawlerRequest;
use super::status::CrawlerStatus;

/// The crawler that one client is. It is found when it is read first, once, so that a request on a route that does not read it costs
/// nothing.
#[derive(Clone, Debug)]
pub struct ClientCrawler<'d> {
    crawlers: &'d CrawlerRegistry,
    request: CrawlerRequest<'d>,
    found: OnceCell<CrawlerStatus>,
}

impl<'d> ClientCrawler<'d> {
    /// Returns the crawler of a request, which is not found yet.
    #[must_use]
    pub fn new(crawlers: &'d CrawlerRegistry, request: CrawlerRequest<'d>) -> Self {
        Self {
            crawlers,
            request,
            found: OnceCell::new(),
        }
    }

    /// Returns it with an answer that is known already.
    #[must_use]
    pub fn with(self, status: Option<CrawlerStatus>) -> Self {
        Self {
            found: status.map_or_else(OnceCell::new, OnceCell::from),
            ..self
        }
    }

    /// Returns the answer.
    pub fn get(&self) -> &CrawlerStatus {
        self.found
            .get_or_init(|| self.crawlers.identify(&self.request))
    }

    /// Returns the answer where it was found; `None` where nothing has read it.
    #[must_use]
    pub fn known(&self) -> Option<&CrawlerStatus> {
        self.found.get()
    }
}
