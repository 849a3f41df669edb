//! Runs stages 2 and 3 for one request, from the head alone: finds client and route.
//!
//! The path of requests, `explain` and `replay` call it, so all find the same client, route and key. A request is located once: a body, a
//! store and the record go on with its [`RequestRoute`].

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
use sluicegate_config::rules::{Name, PathPattern};
use sluicegate_http1::RuleViolation;
use sluicegate_limiter::Timestamp;

use crate::admission::{KnownBody, RequestFacts, RouteLimits};
use crate::client::{
    self, ClientAddress, ConnectionPeer, ListMatch, ListSource, PeerTrust, TemporaryLists, TlsFacts,
};
use crate::compiled_rules::{CompiledRoute, CompiledRules};
use crate::request_head::{ASTERISK, RequestHead};
use crate::request_id::RequestId;
use crate::response::template::{self, SentPath, TemplateValues};
use crate::response::{GatewayProblem, cors};
use crate::route::{RequestFields, RequestListener};
use crate::url_scheme::UrlScheme;

/// The facts of a client that are known before its request is located: by an earlier look at the request, or by a log.
#[derive(Clone, Debug, Default)]
pub struct KnownClient {
    /// Its address.
    pub address: Option<ClientAddress>,
    /// Its place.
    pub place: Option<GeoPlace>,
    /// The crawler that it is.
    pub crawler: Option<CrawlerStatus>,
}

/// Host and path of a request in normal form.
pub struct NormalForms<'a> {
    host: Cow<'a, str>,
    path: NormalPath<'a>,
}

/// The client and the route of a request, which it keeps to its end.
#[derive(Clone)]
pub struct RequestRoute {
    /// The route.
    pub route: Arc<CompiledRoute>,
    /// Its index among the routes.
    pub index: usize,
    /// The method of the request that a CORS preflight asks about.
    pub preflight: Option<Method>,
    list_match: ListMatch,
}

/// A request in the forms by which its route is found and its keys are made.
pub struct RequestView<'a> {
    client: ClientAddress,
    place: ClientPlace<'a>,
    crawler: ClientCrawler<'a>,
    hop: PeerTrust,
    secured: Option<&'a TlsFacts>,
    forms: NormalForms<'a>,
    query: &'a str,
    head: RequestHead<'a>,
    token: PresentedToken<'a>,
}

/// A request with its client and route.
pub struct LocatedRequest<'a> {
    view: RequestView<'a>,
    /// The route.
    pub route: &'a Arc<CompiledRoute>,
    /// Its index among the routes.
    pub index: usize,
    /// The method that a CORS preflight asks about, if the route has CORS rules.
    pub preflight: Option<Method>,
    /// The list of the route, or the temporary rule, that decides about the client.
    pub list_match: ListMatch,
    /// The number of requests that it counts as: one, where nobody says otherwise.
    pub hits: NonZeroU32,
    pattern: Option<&'a PathPattern>,
}

/// The program that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestServer {
    /// This gateway.
    Gateway,
    /// Another proxy, which asks whether it may.
    OtherProxy,
}

/// The end of a request before its limits, which count nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyEnd {
    /// A list or a temporary rule blocks its client.
    Blocked,
    /// It is a CORS preflight, which the gateway answers.
    Preflight,
    /// Its route needs a certificate of the client, and its connection has none.
    NoCertificate,
}

impl<'a> NormalForms<'a> {
    /// Parses host and path of a head.
    ///
    /// # Errors
    /// One of them has no normal form.
    pub fn parse(head: &RequestHead<'a>) -> Result<Self, GatewayProblem> {
        let path = normal_path(head.target)?;
        let host = match head.host() {
            "" => Cow::Borrowed(""),
            host => host::normalize(host).map_err(|_| GatewayProblem::BadHost)?,
        };
        Ok(Self { host, path })
    }

    /// Returns the forms that keys are made of, so that a request that waits holds no more than its head.
    fn without_readings(&self) -> NormalForms<'static> {
        NormalForms {
            host: Cow::Owned(self.host.clone().into_owned()),
            path: self.path.without_readings(),
        }
    }
}

impl RequestRoute {
    /// Returns the list or temporary rule that blocks the client or exempts it from the limits.
    pub fn list(&self) -> Option<&Name> {
        self.list_match.source().map(ListSource::name)
    }
}

impl<'a> RequestView<'a> {
    /// Returns the view of a request that `peer` sent; `known` is not looked up again.
    pub fn new(
        compiled: &'a CompiledRules,
        peer: ConnectionPeer<'a>,
        head: &RequestHead<'a>,
        forms: NormalForms<'a>,
        known: KnownClient,
        now: Timestamp,
    ) -> Self {
        let rules = &compiled.rules.client;
        let identify = || client::identify(peer.address, head.headers, rules);
        let client = known.address.unwrap_or_else(identify);
        let asked = crawler_request(client.address, peer, (head, head.host()), now);
        let verifier = compiled.rules.jwt.as_ref().map(|jwt| &*jwt.verifier);
        Self {
            client,
            place: ClientPlace::new(&compiled.geo, client.address).with(known.place),
            crawler: ClientCrawler::new(&compiled.crawlers, asked).with(known.crawler),
            hop: client::hop(peer.address, rules),
            secured: peer.secured,
            forms,
            query: head.query(),
            head: *head,
            token: PresentedToken::new(verifier, head.headers),
        }
    }

    /// Returns the fields by which the route is found.
    fn fields<'s>(&'s self, listener: RequestListener<'s>) -> RequestFields<'s> {
        RequestFields {
            method: self.head.method,
            headers: self.head.headers,
            query: self.query,
            listener,
            client: self.client.address,
            place: Some(&self.place),
            crawler: Some(&self.crawler),
        }
    }
}

impl<'a> LocatedRequest<'a> {
    /// Returns a request whose `route` was found before.
    pub fn again(
        route: &'a RequestRoute,
        view: RequestView<'a>,
        compiled: &'a CompiledRules,
    ) -> Self {
        Self {
            view,
            route: &route.route,
            index: route.index,
            preflight: route.preflight.clone(),
            list_match: route.list_match.clone(),
            hits: NonZeroU32::MIN,
            pattern: pattern(compiled, route.index),
        }
    }

    /// Returns what the request keeps to its end.
    pub fn request_route(&self) -> RequestRoute {
        RequestRoute {
            route: Arc::clone(self.route),
            index: self.index,
            preflight: self.preflight.clone(),
            list_match: self.list_match.clone(),
        }
    }

    /// Returns host and path, for a later look at the request.
    pub fn normal_forms(&self) -> NormalForms<'static> {
        self.view.forms.without_readings()
    }

    /// Returns the client's address.
    #[must_use]
    pub fn client(&self) -> ClientAddress {
        self.view.client
    }

    /// Returns what was found out of the client.
    pub fn known_client(&self) -> KnownClient {
        KnownClient {
            address: Some(self.view.client),
            place: self.view.place.known().cloned(),
            crawler: self.view.crawler.known().cloned(),
        }
    }

    /// Returns the fields of the request.
    pub fn headers(&self) -> &'a ReceivedFields {
        self.view.head.headers
    }

    /// Returns how the request ends before its limits; `None` where they decide. Only the request that a preflight asks about counts. A
    /// proxy that asks about a preflight forwards it, so it counts.
    #[must_use]
    pub fn early_end(&self, server: RequestServer) -> Option<EarlyEnd> {
        if let ListMatch::Blocked(_) = self.list_match {
            Some(EarlyEnd::Blocked)
        } else if self.preflight.is_some() && server == RequestServer::Gateway {
            Some(EarlyEnd::Preflight)
        } else if self.lacks_certificate() {
            // After a preflight, for which browsers show no certificate.
            Some(EarlyEnd::NoCertificate)
        } else {
            None
        }
    }

    fn lacks_certificate(&self) -> bool {
        let shown = self
            .view
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
            client: self.view.client.address,
            host: &self.view.forms.host,
            path: self.view.forms.path.as_str(),
            query: self.view.query,
            route: &self.route.name,
            request_id,
            groups: shape.groups.as_ref(),
        };
        let path = SentPath {
            text: self.view.head.path(),
            normal: &self.view.forms.path,
        };
        Ok(Some(template::target(template, &values, &path)?))
    }

    /// Returns the request's facts at `now`, from which keys are made.
    #[must_use]
    pub fn facts<'s>(&'s self, body: KnownBody<'s>, now: Timestamp) -> RequestFacts<'s> {
        let view = &self.view;
        RequestFacts {
            client: view.client.address,
            place: &view.place,
            crawler: &view.crawler,
            hop: view.hop,
            host: &view.forms.host,
            path: view.forms.path.key(),
            segments: view.forms.path.as_str(),
            method: view.head.method,
            headers: view.head.headers,
            query: view.query,
            pattern: self.pattern,
            token: &view.token,
            secured: view.secured,
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
pub fn crawler_request<'a>(
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
    compiled: &'a CompiledRules,
    peer: ConnectionPeer<'a>,
    head: &RequestHead<'a>,
    now: Timestamp,
) -> Result<LocatedRequest<'a>, GatewayProblem> {
    locate_known(compiled, peer, head, now, KnownClient::default())
}

/// Finds the client and the route of a request as [`locate`] does, without looking up what is `known` of the client.
///
/// # Errors
/// Those of [`locate`].
pub fn locate_known<'a>(
    compiled: &'a CompiledRules,
    peer: ConnectionPeer<'a>,
    head: &RequestHead<'a>,
    now: Timestamp,
    known: KnownClient,
) -> Result<LocatedRequest<'a>, GatewayProblem> {
    check_caps(compiled, head)?;
    let announced = announced_length(head.headers)?;
    let forms = NormalForms::parse(head)?;
    if (peer.secured).is_some_and(|secured| !secured.covers(&forms.host)) {
        return Err(GatewayProblem::Misdirected);
    }
    if forms.path.as_str().len() > compiled.router.longest_path() {
        return Err(GatewayProblem::HeadTooLarge);
    }
    let view = RequestView::new(compiled, peer, head, forms, known, now);
    let NormalForms { host, path } = &view.forms;
    let asked = view.fields(compiled.request_listener(peer.listener));
    let (index, preflight) = find_route(compiled, host, path, &asked)?;
    let route = compiled.routes.get(index).ok_or(GatewayProblem::Internal)?;
    let temporary = TemporaryLists {
        rules: &compiled.temporary.in_force(),
        networks: &compiled.networks,
    };
    let client = view.client.address;
    let list_match = (route.lists).list_match(client, &view.place, &view.crawler, temporary);
    if !matches!(list_match, ListMatch::Blocked(_)) {
        if route.reads_parameters && path.is_ambiguous()
            || route.counts_by_path && path.is_disputed()
            || !agrees_on_parameters(compiled, index, host, path, &asked)
            || !agrees_on_fields(route, client, host, path)
        {
            return Err(GatewayProblem::AmbiguousPath);
        }
        // Before anything is charged. A body without a length is cut off while it passes.
        if announced.is_some_and(|bytes| bytes > route.max_body_bytes) {
            return Err(GatewayProblem::BodyTooLarge);
        }
    }
    Ok(LocatedRequest {
        view,
        route,
        index,
        preflight,
        list_match,
        hits: NonZeroU32::MIN,
        pattern: pattern(compiled, index),
    })
}

/// Returns the pattern of the route at this index.
fn pattern(compiled: &CompiledRules, index: usize) -> Option<&PathPattern> {
    let rules = compiled.rules.routes.get(index);
    rules.map(|rules| &rules.matches.path)
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
    compiled: &CompiledRules,
    host: &str,
    path: &NormalPath<'_>,
    asked: &RequestFields<'_>,
) -> Result<(usize, Option<Method>), GatewayProblem> {
    let find = |asked: &RequestFields<'_>| {
        let found = compiled.router.find(host, path, asked);
        found.map_err(|_| GatewayProblem::AmbiguousPath)
    };
    if let Some(method) = cors::preflight(asked.method, asked.headers) {
        let fields = RequestFields {
            method: &method,
            ..*asked
        };
        if let Some(index) = find(&fields)?.filter(|index| has_cors(compiled, *index)) {
            return Ok((index, Some(method)));
        }
    }
    let index = find(asked)?.ok_or(GatewayProblem::NoRoute)?;
    Ok((index, None))
}

/// Returns whether the parameters that limits count by are the same in every reading of the path whose route has such a limit.
fn agrees_on_parameters(
    compiled: &CompiledRules,
    index: usize,
    host: &str,
    path: &NormalPath<'_>,
    asked: &RequestFields<'_>,
) -> bool {
    let counted = |index: usize| compiled.routes.get(index).map(|route| &route.parameters);
    // The limits of the other reading's route are a subset of this route's limits.
    if counted(index).is_none_or(|names| names.is_empty()) {
        return true;
    }
    let value = |index: usize, path, name: &str| {
        let route = compiled.rules.routes.get(index)?;
        route.matches.path.parameter(path, name)
    };
    let mut others = compiled.router.routes_of_other_readings(host, path, asked);
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
    route: &CompiledRoute,
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
        route: &route.name,
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

fn has_cors(compiled: &CompiledRules, route: usize) -> bool {
    let shape = compiled
        .routes
        .get(route)
        .and_then(|route| route.shape.as_ref());
    shape.is_some_and(|shape| shape.cors.is_some())
}

fn check_caps(compiled: &CompiledRules, head: &RequestHead<'_>) -> Result<(), GatewayProblem> {
    let server = &compiled.rules.server;
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
