//! Finds the answer for the client of one request when it is first read, and keeps it.

use std::cell::OnceCell;
use std::net::IpAddr;

use super::registry::CrawlerRegistry;
use super::status::CrawlerStatus;
use crate::received::ReceivedFields;

/// The parts of a request that say which crawler its client is.
#[derive(Clone, Copy, Debug)]
pub struct CrawlerRequest<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The method.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port as the client sent them.
    pub authority: &'a str,
    /// Path and query as the client sent them.
    pub target: &'a str,
    /// The fields.
    pub headers: &'a ReceivedFields,
    /// The time, in seconds since 1970.
    pub now: u64,
}

impl<'a> CrawlerRequest<'a> {
    /// Returns a request of which only address and fields are known. No signature counts in it, since it is for no host.
    #[must_use]
    pub fn without_target(client: IpAddr, headers: &'a ReceivedFields) -> Self {
        Self {
            client,
            method: "",
            scheme: "",
            authority: "",
            target: "",
            headers,
            now: 0,
        }
    }
}

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
