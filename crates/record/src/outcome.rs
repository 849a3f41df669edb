//! Owns the outcome of a request: the one value that feeds access log, metrics and spans, so that they cannot disagree.
//!
//! It borrows from the request and its snapshot; a sink copies what it keeps.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderValue;
use sluicegate_base::crawler::CrawlerStatus;
use sluicegate_base::geo::{GeoDatabases, GeoField, GeoPlace};
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::client::TlsFacts;
use sluicegate_decide::outcome::{CacheUse, RequestDisposition};
use sluicegate_decide::rejection::{LimitRejection, MissingKey};
use sluicegate_decide::request_id::RequestId;
use sluicegate_limiter::{Decision, KeyHash, KeyPlacement, Timestamp, Verdict};

use super::replay_facts::ReplayFacts;
use super::route_metrics::RouteMetrics;
use super::trace::TraceContext;
use sluicegate_config::rules::OriginAddress;
use sluicegate_decide::admission::{LimitEvent, ReportDetails};

/// The facts of one request that log, metrics and spans need.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The time at which its head was read.
    pub arrived: Timestamp,
    /// Its id in log and headers.
    pub request_id: RequestId,
    /// The trace that it belongs to; `None` where none is kept.
    pub trace: Option<TraceContext>,
    /// The client's address; `None` where the connection had none.
    pub client: Option<IpAddr>,
    /// The text of this address, where it was made before.
    pub client_text: Option<&'a HeaderValue>,
    /// The place of the client; `None` where nothing has read it.
    pub place: Option<&'a GeoPlace>,
    /// The fields of the place that the configuration reads.
    pub place_fields: &'a [GeoField],
    /// The databases of the places by which rejected clients are counted; `None` where no operator is shown them.
    pub client_places: Option<&'a GeoDatabases>,
    /// The crawler that the client is; `None` where nothing has read it.
    pub crawler: Option<&'a CrawlerStatus>,
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// The facts of the connection's TLS handshake; `None` in clear text.
    pub secured: Option<&'a TlsFacts>,
    /// The method as sent; any bytes, since a malformed request is recorded too.
    pub method: &'a [u8],
    /// Host without port, empty when absent; any bytes.
    pub host: &'a [u8],
    /// Path and query as sent; any bytes.
    pub target: &'a [u8],
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.
    pub protocol: &'static str,
    /// The request's fields, those at least that the log shows; `None` where they could not be read.
    pub fields: Option<&'a ReceivedFields>,
    /// The route's handles; `None` when no route matched or the request was malformed.
    pub route: Option<&'a RouteMetrics>,
    /// The number of requests that it counts as: 1 for all but descriptors of a rate limit service; 0 only asks whether there is room.
    pub hits: u32,
    /// The verdict over the limits of the route; `None` where no limit decided.
    pub verdict: Option<&'a Verdict>,
    /// The list that blocked the client or exempted it from the limits.
    pub list: Option<&'a str>,
    /// The details beside the verdict, and the limits that it covers; `None`: all of the route's.
    pub details: Option<&'a ReportDetails>,
    /// The parts of keys that the request lacks.
    pub missing_keys: &'a [MissingKey],
    /// The rejection by a limit; `None` where none rejected it.
    pub rejection: Option<LimitRejection>,
    /// The values of that key, where `[log] keys` shows them.
    pub key_values: &'a [String],
    /// The facts for replay, where `[log] replay` records them.
    pub replay: Option<&'a ReplayFacts<'a>>,
    /// The result of the request.
    pub disposition: RequestDisposition,
    /// Status sent; 0 when the client left before any.
    pub status: u16,
    /// Body bytes received from the client.
    pub bytes_received: u64,
    /// Body bytes sent to the client.
    pub bytes_sent: u64,
    /// The time from the head read to the last byte sent.
    pub total: Duration,
    /// The duration of admission.
    pub decision: Duration,
    /// The use of the cache; `None` where the route has none.
    pub cache: Option<CacheUse>,
    /// The use of the origin; `None` where the request was not forwarded.
    pub origin: Option<OriginUse<'a>>,
    /// The kind of its failure; `None` where nothing failed.
    pub failure: Option<&'static str>,
    /// The reason of its failure or rejection, in words.
    pub reason: Option<&'a str>,
}

impl Outcome<'_> {
    /// Returns the outcome of a request that no stage has handled: each field has the value of a request without that stage.
    ///
    /// Every other outcome is this one with the fields that its stages found, so a new field has its default here.
    #[must_use]
    pub fn unhandled(arrived: Timestamp, request_id: RequestId, protocol: &'static str) -> Self {
        Self {
            arrived,
            request_id,
            trace: None,
            client: None,
            client_text: None,
            place: None,
            place_fields: &[],
            client_places: None,
            crawler: None,
            peer: None,
            secured: None,
            method: b"",
            host: b"",
            target: b"",
            protocol,
            fields: None,
            route: None,
            hits: 1,
            verdict: None,
            list: None,
            details: None,
            missing_keys: &[],
            rejection: None,
            key_values: &[],
            replay: None,
            disposition: RequestDisposition::Internal,
            status: 0,
            bytes_received: 0,
            bytes_sent: 0,
            total: Duration::ZERO,
            decision: Duration::ZERO,
            cache: None,
            origin: None,
            failure: None,
            reason: None,
        }
    }

    /// Returns the outcome of a request that was rejected before its head was understood.
    #[must_use]
    pub fn rejected(arrived: Timestamp, request_id: RequestId, protocol: &'static str) -> Self {
        Self {
            disposition: RequestDisposition::Rejected,
            ..Self::unhandled(arrived, request_id, protocol)
        }
    }

    /// Returns the index on the route of the limit of the verdict's decision at `ask`.
    pub(super) fn limit_of(&self, ask: usize) -> Option<usize> {
        match self.details {
            Some(details) => details.limit_of(ask),
            None => Some(ask),
        }
    }

    /// Returns the key by which the limit that rejected counts the request.
    pub(super) fn key(&self) -> Option<KeyHash> {
        self.rejection.map(|rejection| rejection.key)
    }

    /// Returns the name of the limit that rejected.
    pub(super) fn refused_by_name(&self) -> Option<&str> {
        let limit = usize::from(self.rejection?.limit);
        Some(self.route?.limits().get(limit)?)
    }

    /// Returns the kind of its failure, that of its disposition where no stage recorded one.
    pub(super) fn failure(&self) -> Option<&'static str> {
        let store = self.disposition == RequestDisposition::RefusedStoreAway;
        self.failure.or(store.then(|| self.disposition.as_str()))
    }

    /// Returns the `Retry-After` of a rejection.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.rejection
            .and_then(|rejection| rejection.wait_that_helps())
    }

    /// Returns the tiers that the request names, with the names of their limits.
    pub(super) fn tiers(&self) -> impl Iterator<Item = (&str, &str)> {
        let named = self.details.map_or(&[][..], |details| &details.named);
        named.iter().filter_map(|(limit, tier)| {
            let limit = self.route?.limits().get(usize::from(*limit))?;
            Some((&**limit, &**tier))
        })
    }

    /// Returns whether every limit counts the request's key by itself, as far as the verdict shows it, and no event follows the verdict.
    pub(super) fn counts_by_own_slots(&self) -> bool {
        let decisions = self.verdict.map_or(&[][..], Verdict::decisions);
        let is_own = |decision: &Decision| decision.placement() == KeyPlacement::OwnSlot;
        decisions.iter().all(is_own) && self.details.is_none_or(|details| details.notes.is_empty())
    }

    /// Returns the names of the limits whose decision has this placement of the key.
    pub(super) fn counted(&self, so: KeyPlacement) -> impl Iterator<Item = &str> {
        let decisions = self.verdict.map_or(&[][..], Verdict::decisions);
        let shared = (0..).zip(decisions).filter_map(move |(ask, decision)| {
            let limit = self.limit_of(ask)?;
            let name = self.route?.limits().get(limit)?;
            (decision.placement() == so).then_some(&**name)
        });
        let noted = self
            .notes()
            .filter_map(move |(_, name, what)| (what.counted() == Some(so)).then_some(name));
        shared.chain(noted)
    }

    /// Returns the events of limits, with the names of their limits.
    pub(super) fn notes(&self) -> impl Iterator<Item = (usize, &str, LimitEvent)> {
        let notes = self.details.map_or(&[][..], |details| &details.notes);
        notes.iter().filter_map(|note| {
            let limit = usize::from(note.limit);
            Some((limit, &**self.route?.limits().get(limit)?, note.event))
        })
    }
}

/// The use of an origin by a request.
#[derive(Clone, Copy, Debug)]
pub struct OriginUse<'a> {
    /// The pool's name.
    pub name: &'a str,
    /// The server of the last attempt.
    pub server: &'a OriginAddress,
    /// Attempts made, at least 1.
    pub attempts: u8,
    /// The time at which the last attempt began.
    pub began: Timestamp,
    /// The status of its response; `None` when none came.
    pub status: Option<u16>,
    /// The time from the choice of the server to the first byte of its response; `None` when none came.
    pub wait: Option<Duration>,
    /// The request id of its response, where the client got that; `None` where the id is the gateway's.
    pub request_id: Option<&'a HeaderValue>,
    /// True if a trailer behind the response exceeded the bounds, and was dropped.
    pub has_large_trailer: bool,
}
