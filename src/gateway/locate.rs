//! Runs stages 2 and 3 for one request, from the head alone: finds client and route.
//!
//! The path of requests, `explain` and `replay` call it, so all find the same client, route and key.

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use http::Method;
use http::header::CONTENT_LENGTH;
use sluicegate_base::crawler::{ClientCrawler, CrawlerRequest, CrawlerStatus};
use sluicegate_base::geo::{ClientPlace, GeoPlace};
use sluicegate_base::host;
use sluicegate_base::jwt::PresentedToken;
use sluicegate_base::path;
use sluicegate_base::path::NormalPath;
use sluicegate_base::proxy_fields::X_FORWARDED_PROTO;
use sluicegate_base::received::{FieldValue, ReceivedFields};
use sluicegate_http1::RuleViolation;
use sluicegate_limiter::Timestamp;

use super::request_head::{ASTERISK, RequestHead};
use crate::admission::{KnownBody, RequestFacts, RouteLimits};
use crate::client::{
    self, ClientAddress, ConnectionPeer, ListMatch, PeerTrust, TemporaryLists, TlsFacts,
};
use crate::config::rules::PathPattern;
use crate::request_id::RequestId;
use crate::response::template::{self, SentPath, TemplateValues};
use crate::response::{GatewayProblem, cors};
use crate::route::RequestFields;
use crate::snapshot::{ActiveRoute, Snapshot};
use crate::url_scheme::UrlScheme;

/// The facts of a client that are known before its request is located: by an earlier call for the request, or by a log.
#[derive(Clone, Debug, Default)]
pub struct KnownClient {
    /// Its place.
    pub place: Option<GeoPlace>,
    /// The crawler that it is.
    pub crawler: Option<CrawlerStatus>,
}

/// A request with its client and route.
pub struct Located<'a> {
    /// The client's address.
    pub client: ClientAddress,
    /// The route.
    pub route: &'a Arc<ActiveRoute>,
    /// The method that a CORS preflight asks about, if the route has CORS rules.
    pub preflight: Option<Method>,
    /// The place of the client, looked up when it is read first.
    pub place: ClientPlace<'a>,
    /// The crawler that the client is, found when it is read first.
    pub crawler: ClientCrawler<'a>,
    /// The list of the route, or the temporary rule, that decides about the client.
    pub list_match: ListMatch,
    /// The number of requests that it counts as: one, where nobody says otherwise.
    pub(super) hits: NonZeroU32,
    hop: PeerTrust,
    secured: Option<&'a TlsFacts>,
    /// The host in normal form.
    pub host: Cow<'a, str>,
    path: NormalPath<'a>,
    query: &'a str,
    head: RequestHead<'a>,
    pattern: Option<&'a PathPattern>,
    token: PresentedToken<'a>,
}

impl<'a> Located<'a> {
    /// Returns what was found out of the client.
    #[must_use]
    pub fn known_client(&self) -> KnownClient {
        KnownClient {
            place: self.place.known().cloned(),
            crawler: self.crawler.known().cloned(),
        }
    }

    /// Returns the fields of the request.
    pub(super) fn headers(&self) -> &'a ReceivedFields {
        self.head.headers
    }

    /// Returns whether its route needs a certificate of the client, and its connection has none.
    #[must_use]
    pub fn lacks_certificate(&self) -> bool {
        let shown = self
            .secured
            .and_then(|secured| secured.certificate.as_ref());
        self.route.needs_certificate && shown.is_none()
    }

    /// Returns the limits that apply: none for a client that is exempt.
    #[must_use]
    pub fn limits(&self) -> &'a RouteLimits {
        match &self.list_match {
            ListMatch::Allowed(_) => RouteLimits::none(),
            ListMatch::Ordinary | ListMatch::Blocked(_) => &self.route.limits,
        }
    }

    /// Returns the target that the origin gets; `None` for the one that was sent.
    ///
    /// # Errors
    /// The problem to answer with when the route's template makes no valid path of this one.
    pub fn target(&self, request_id: RequestId) -> Result<Option<String>, GatewayProblem> {
        let shape = self.route.shape.as_deref();
        let Some((shape, template)) = shape.and_then(|shape| Some((shape, shape.path.as_ref()?)))
        else {
            return Ok(None);
        };
        let values = TemplateValues {
            client: self.client.address,
            host: &self.host,
            path: self.path.as_str(),
            query: self.query,
            route: self.route.metrics.name(),
            request_id,
            groups: shape.groups.as_ref(),
        };
        let path = SentPath {
            text: self.head.path(),
            normal: &self.path,
        };
        Ok(Some(template::target(template, &values, &path)?))
    }

    /// Returns the request's facts at `now`, from which keys are made.
    #[must_use]
    pub fn facts<'s>(&'s self, body: KnownBody<'s>, now: Timestamp) -> RequestFacts<'s> {
        RequestFacts {
            client: self.client.address,
            place: &self.place,
            crawler: &self.crawler,
            hop: self.hop,
            host: &self.host,
            path: self.path.key(),
            segments: self.path.as_str(),
            method: self.head.method,
            headers: self.head.headers,
            query: self.query,
            pattern: self.pattern,
            token: &self.token,
            secured: self.secured,
            body,
            hits: self.hits,
            now,
            recorded: &[],
            reserves: &[],
        }
    }
}

/// Returns what says which crawler `client` is, of a head and its [host](RequestHead::host). The scheme is that which the client used: a
/// trusted hop names it, and what others say of it was removed.
pub(crate) fn crawler_request<'a>(
    client: IpAddr,
    peer: ConnectionPeer<'_>,
    (head, host): (&RequestHead<'a>, &'a str),
    now: Timestamp,
) -> CrawlerRequest<'a> {
    let scheme = match head.headers.get(X_FORWARDED_PROTO) {
        Some(scheme) if scheme == "https" => UrlScheme::Https,
        Some(_) => UrlScheme::Http,
        None if peer.secured.is_some() => UrlScheme::Https,
        None => UrlScheme::Http,
    };
    CrawlerRequest {
        client,
        method: head.method.as_str(),
        scheme: scheme.as_str(),
        authority: host,
        target: head.target,
        headers: head.headers,
        now: now.as_nanos() / 1_000_000_000,
    }
}

/// Finds the client and the route of a request.
///
/// # Errors
/// The problem to answer with when the head exceeds a cap, the path is malformed, or no route matches.
pub fn locate<'a>(
    snapshot: &'a Snapshot,
    peer: ConnectionPeer<'a>,
    head: &RequestHead<'a>,
    now: Timestamp,
) -> Result<Located<'a>, GatewayProblem> {
    relocate(snapshot, peer, head, now, KnownClient::default())
}

/// Finds the client and the route of a request as [`locate`] does, without looking up what is `known` of the client.
///
/// # Errors
/// Those of [`locate`].
pub fn relocate<'a>(
    snapshot: &'a Snapshot,
    peer: ConnectionPeer<'a>,
    head: &RequestHead<'a>,
    now: Timestamp,
    known: KnownClient,
) -> Result<Located<'a>, GatewayProblem> {
    check_caps(snapshot, head)?;
    let announced = announced_length(head.headers)?;
    let client = client::identify(peer.address, head.headers, &snapshot.rules.client);
    let path = normal_path(head.target)?;
    let asked_host = head.host();
    let host = match asked_host {
        "" => Cow::Borrowed(""),
        host => host::normalize(host).map_err(|_| GatewayProblem::BadHost)?,
    };
    if peer.secured.is_some_and(|secured| !secured.covers(&host)) {
        return Err(GatewayProblem::Misdirected);
    }
    if path.as_str().len() > snapshot.router.longest_path() {
        return Err(GatewayProblem::HeadTooLarge);
    }
    let place = ClientPlace::new(&snapshot.geo, client.address).with(known.place);
    let request = crawler_request(client.address, peer, (head, asked_host), now);
    let crawler = ClientCrawler::new(&snapshot.crawlers, request).with(known.crawler);
    let query = head.query();
    let asked = RequestFields {
        method: head.method,
        headers: head.headers,
        query,
        listener: snapshot.request_listener(peer.listener),
        client: client.address,
        place: Some(&place),
        crawler: Some(&crawler),
    };
    let (index, preflight) = find_route(snapshot, &host, &path, &asked)?;
    let route = snapshot.routes.get(index).ok_or(GatewayProblem::Internal)?;
    let temporary = TemporaryLists {
        rules: &snapshot.temporary.in_force(),
        networks: &snapshot.networks,
    };
    let list_match = (route.lists).list_match(client.address, &place, &crawler, temporary);
    if !matches!(list_match, ListMatch::Blocked(_)) {
        if route.reads_parameters && path.is_ambiguous()
            || route.counts_by_path && path.is_disputed()
            || !agrees_on_parameters(snapshot, index, &host, &path, &asked)
            || !agrees_on_fields(route, client.address, &host, &path)
        {
            return Err(GatewayProblem::AmbiguousPath);
        }
        // Before anything is charged. A body without a length is cut off while it passes.
        if announced.is_some_and(|bytes| bytes > route.max_body_bytes) {
            return Err(GatewayProblem::BodyTooLarge);
        }
    }
    let verifier = snapshot.rules.jwt.as_ref().map(|jwt| &*jwt.verifier);
    Ok(Located {
        preflight,
        token: PresentedToken::new(verifier, head.headers),
        client,
        route,
        place,
        crawler,
        list_match,
        hits: NonZeroU32::MIN,
        secured: peer.secured,
        hop: client::hop(peer.address, &snapshot.rules.client),
        host,
        path,
        query,
        head: *head,
        pattern: snapshot
            .rules
            .routes
            .get(index)
            .map(|rules| &rules.matches.path),
    })
}

fn normal_path(target: &str) -> Result<NormalPath<'_>, GatewayProblem> {
    NormalPath::parse(target).map_err(|_| match target {
        ASTERISK => GatewayProblem::BadRequest(RuleViolation::Asterisk.into()),
        "" => GatewayProblem::BadRequest(RuleViolation::Target.into()),
        _ => GatewayProblem::BadPath,
    })
}

/// Finds the index of the route, with the method that a preflight asks about: that belongs to the route of the request that it asks about.
///
/// # Errors
/// No route matches, or the readings of the path differ about it.
fn find_route(
    snapshot: &Snapshot,
    host: &str,
    path: &NormalPath<'_>,
    asked: &RequestFields<'_>,
) -> Result<(usize, Option<Method>), GatewayProblem> {
    let find = |asked: &RequestFields<'_>| {
        let found = snapshot.router.find(host, path, asked);
        found.map_err(|_| GatewayProblem::AmbiguousPath)
    };
    if let Some(method) = cors::preflight(asked.method, asked.headers) {
        let fields = RequestFields {
            method: &method,
            ..*asked
        };
        if let Some(index) = find(&fields)?.filter(|index| has_cors(snapshot, *index)) {
            return Ok((index, Some(method)));
        }
    }
    let index = find(asked)?.ok_or(GatewayProblem::NoRoute)?;
    Ok((index, None))
}

/// Returns whether the parameters that limits count by are the same in every reading of the path whose route has such a limit.
fn agrees_on_parameters(
    snapshot: &Snapshot,
    index: usize,
    host: &str,
    path: &NormalPath<'_>,
    asked: &RequestFields<'_>,
) -> bool {
    let counted = |index: usize| snapshot.routes.get(index).map(|route| &route.parameters);
    // The limits of the other reading's route are a subset of this route's limits.
    if counted(index).is_none_or(|names| names.is_empty()) {
        return true;
    }
    let value = |index: usize, path, name: &str| {
        let route = snapshot.rules.routes.get(index)?;
        route.matches.path.parameter(path, name)
    };
    let mut others = snapshot.router.routes_of_other_readings(host, path, asked);
    others.all(|(reading, other)| {
        let mut names = counted(other).into_iter().flatten();
        names.all(|name| {
            let values = (
                value(other, reading, name),
                value(index, path.as_str(), name),
            );
            matches!(values, (Some(one), Some(other)) if path::are_alike(one, other))
        })
    })
}

/// Returns whether the fields that the origin gets with a part of the path are the same in every reading of it.
fn agrees_on_fields(
    route: &ActiveRoute,
    client: IpAddr,
    host: &str,
    path: &NormalPath<'_>,
) -> bool {
    let Some(shape) = route.shape.as_deref() else {
        return true;
    };
    if shape.request.of_path().next().is_none() {
        return true;
    }
    let values = |path| TemplateValues {
        client,
        host,
        path,
        query: "",
        route: route.metrics.name(),
        request_id: RequestId::from_bits(0),
        groups: shape.groups.as_ref(),
    };
    path.other_readings().all(|reading| {
        let mut templates = shape.request.of_path();
        templates.all(|template| {
            let own = template::field(template, &values(path.as_str()));
            own == template::field(template, &values(reading))
        })
    })
}

fn has_cors(snapshot: &Snapshot, route: usize) -> bool {
    let shape = snapshot
        .routes
        .get(route)
        .and_then(|route| route.shape.as_ref());
    shape.is_some_and(|shape| shape.cors.is_some())
}

fn check_caps(snapshot: &Snapshot, head: &RequestHead<'_>) -> Result<(), GatewayProblem> {
    let server = &snapshot.rules.server;
    if head.target.len() > server.defence.max_uri_bytes {
        return Err(GatewayProblem::UriTooLong);
    }
    let bytes = head.headers.written_length();
    if head.headers.len() > server.max_headers
        || bytes + head.target.len() > server.max_header_bytes
    {
        return Err(GatewayProblem::HeadTooLarge);
    }
    Ok(())
}

/// Returns the length that `Content-Length` announces; `None` without one, or where no number of 64 bits holds it. RFC 9113 §8.1.1: over
/// HTTP/2 two lengths, or an invalid one, make a request malformed, and an origin that speaks HTTP/1.1 could find another end of the body
/// than the gateway. Over HTTP/1.1 the listener rejects such a head.
fn announced_length(headers: &ReceivedFields) -> Result<Option<u64>, GatewayProblem> {
    let mut lengths = headers.get_all(CONTENT_LENGTH);
    let is_length = |length: FieldValue<'_>| {
        !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit)
    };
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(length), None) if is_length(length) => {
            Ok(length.to_str().ok().and_then(|digits| digits.parse().ok()))
        }
        _ => Err(GatewayProblem::BadRequest(
            RuleViolation::ContentLength.into(),
        )),
    }
}
