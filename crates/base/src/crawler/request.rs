//! Names what a crawler's proofs need of a request.

use std::net::IpAddr;

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
