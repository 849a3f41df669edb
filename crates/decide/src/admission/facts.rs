//! Holds the facts of a request from which keys are made.

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;

use crate::client::{PeerTrust, TlsFacts};
use crate::rejection::MissingReason;
use http::Method;
use sluicegate_base::crawler::ClientCrawler;
use sluicegate_base::geo::ClientPlace;
use sluicegate_base::jwt::PresentedToken;
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{KeyTemplate, Name, PathPattern};
use sluicegate_limiter::{Cost, KeyHash, Timestamp};

/// The parts of a request that can be in keys. Client, host, path and method are in their normal form, so that two spellings share a
/// counter; other values are normalized when a key reads them.
#[derive(Clone, Copy)]
pub struct RequestFacts<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// Its place, looked up when it is read first.
    pub place: &'a ClientPlace<'a>,
    /// The crawler that it is, found when it is read first.
    pub crawler: &'a ClientCrawler<'a>,
    /// The trust in the other end of the connection.
    pub hop: PeerTrust,
    /// Host, lower case, without port; empty when absent.
    pub host: &'a str,
    /// The path by which limits count, from [`NormalPath::key`](sluicegate_base::path::NormalPath::key).
    pub path: &'a str,
    /// The path in normal form, which the route's pattern fits.
    pub segments: &'a str,
    /// The method.
    pub method: &'a Method,
    /// The fields.
    pub headers: &'a ReceivedFields,
    /// The text behind the first `?` of the target, as sent.
    pub query: &'a str,
    /// The route's pattern, whose parameters are parts of keys.
    pub pattern: Option<&'a PathPattern>,
    /// The token that it presents.
    pub token: &'a PresentedToken<'a>,
    /// The result of the TLS handshake; `None` in clear text.
    pub secured: Option<&'a TlsFacts>,
    /// The beginning of the body.
    pub body: KnownBody<'a>,
    /// The number of requests that it counts as.
    pub hits: NonZeroU32,
    /// The time of the decision.
    pub now: Timestamp,
    /// Keys that a log has in place of the values; none for a live request.
    pub recorded: &'a [RecordedKey<'a>],
    /// Reserves that a log has in place of what the request announced; none for a live request.
    pub reserves: &'a [RecordedReserve],
}

/// The part of a request's body that is read when the request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBody<'a> {
    /// No key of the route reads the body.
    Unread,
    /// The whole body; empty where the request has none.
    Whole(&'a [u8]),
    /// The body is longer than the part that is read.
    TooLarge,
    /// The body is of a kind that is not read: see [`reading`](super::body::reading).
    OfOtherKind,
}

/// The key of a request under one template, or why it has none.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedKey<'t> {
    /// The template.
    pub template: &'t KeyTemplate,
    /// The key.
    pub key: Result<KeyHash, MissingReason>,
}

/// The reserve of a request that announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedReserve {
    /// The limit.
    pub limit: Name,
    /// Its units.
    pub reserve: Cost,
}

/// The value, as far as it counts.
pub(super) type Value<'a> = Cow<'a, [u8]>;
