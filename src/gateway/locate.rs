//! Stages 2 and 3 for one request: who asks and what for, from the head alone.
//!
//! It serves the proxy and the listener's repeated refusals alike, so both see the same client, route and key.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Method};
use pingora::http::RequestHeader;
use sluicegate_limiter::Timestamp;

use crate::admission::{KnownBody, RequestFacts, RouteLimits};
use crate::client::{self, ClientAddress, ConnectionPeer, ListMatch, PeerTrust, TlsFacts};
use crate::config::rules::PathPattern;
use crate::host;
use crate::jwt::PresentedToken;
use crate::path;
use crate::path::NormalPath;
use crate::request_id::RequestId;
use crate::response::template::{self, TemplateValues};
use crate::response::{GatewayProblem, HttpViolation, cors};
use crate::route::RequestFields;
use crate::snapshot::{ActiveRoute, Snapshot};

/// The head of a request, as far as the stages up to admission read it.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query as sent.
    pub target: &'a str,
    /// The authority of the target, which outranks `Host` (RFC 9112 §3.2.2).
    pub authority: Option<&'a str>,
    /// The fields.
    pub headers: &'a HeaderMap,
}

impl<'a> From<&'a RequestHeader> for RequestHead<'a> {
    fn from(head: &'a RequestHeader) -> Self {
        Self {
            method: &head.method,
            target: target(head),
            authority: head.uri.authority().map(http::uri::Authority::as_str),
            headers: &head.headers,
        }
    }
}

/// RFC 9112 §3.2.4: the server itself.
const ASTERISK: &str = "*";

/// The target as the origin will get it, RFC 9112 §3.2. The listener writes absolute targets as paths. Any other has no path that both
/// sides agree on, and none that a route takes: `%2Fauth` parses as `/`, yet its bytes would be forwarded.
fn target(head: &RequestHeader) -> &str {
    match std::str::from_utf8(head.raw_path()) {
        Ok(raw) if raw.starts_with('/') || raw == ASTERISK => raw,
        Ok(_) | Err(_) => "",
    }
}

impl<'a> RequestHead<'a> {
    /// What follows the `?` of the target; empty where nothing does.
    #[must_use]
    pub fn query(&self) -> &'a str {
        // This is asked for more than once a request, and most targets have neither mark.
        let bytes = self.target.as_bytes();
        match memchr::memchr2(b'?', b'#', bytes) {
            Some(mark) if bytes[mark] == b'?' => {
                let end = memchr::memchr(b'#', bytes).unwrap_or(bytes.len());
                &self.target[mark + 1..end]
            }
            _ => "",
        }
    }

    /// The authority or `Host` as sent, empty when absent. One that is not text is told as a text that is no host either.
    #[must_use]
    pub fn host(&self) -> &'a str {
        const NOT_TEXT: &str = "\u{fffd}";
        self.authority.unwrap_or_else(|| {
            let host = self.headers.get(http::header::HOST);
            host.map_or("", |host| {
                std::str::from_utf8(host.as_bytes()).unwrap_or(NOT_TEXT)
            })
        })
    }
}

/// A request whose client and route are known.
pub struct Located<'a> {
    /// Who asks.
    pub client: ClientAddress,
    /// Its route.
    pub route: &'a Arc<ActiveRoute>,
    /// The method that it asks about, where it is the preflight of a page that the route has rules for.
    pub preflight: Option<Method>,
    /// How its client stands to the route's lists.
    pub standing: ListMatch<'a>,
    hop: PeerTrust,
    secured: Option<&'a TlsFacts>,
    /// Its host in normal form.
    pub host: Cow<'a, str>,
    path: NormalPath<'a>,
    head: RequestHead<'a>,
    pattern: Option<&'a PathPattern>,
    token: PresentedToken<'a>,
}

impl Located<'_> {
    /// The limits that it faces: none for a client that a list allows.
    #[must_use]
    pub fn limits(&self) -> &RouteLimits {
        match self.standing {
            ListMatch::Allowed(_) => RouteLimits::none(),
            ListMatch::Ordinary | ListMatch::Blocked(_) => &self.route.limits,
        }
    }

    /// The target that the origin gets; `None`: the one that was sent.
    ///
    /// # Errors
    /// What to answer when the route's template makes no path of this one.
    pub fn target(&self, request_id: RequestId) -> Result<Option<String>, GatewayProblem> {
        let shape = self.route.shape.as_deref();
        let Some((shape, template)) = shape.and_then(|shape| Some((shape, shape.path.as_ref()?)))
        else {
            return Ok(None);
        };
        let told = TemplateValues {
            client: self.client.address,
            host: &self.host,
            path: self.path.as_str(),
            query: self.head.query(),
            route: self.route.metrics.name(),
            request_id,
            groups: shape.groups.as_ref(),
        };
        Ok(Some(template::target(template, &told)?))
    }

    /// What keys can be made of at `now`.
    #[must_use]
    pub fn facts<'s>(&'s self, body: KnownBody<'s>, now: Timestamp) -> RequestFacts<'s> {
        RequestFacts {
            client: self.client.address,
            hop: self.hop,
            host: &self.host,
            path: self.path.key(),
            segments: self.path.as_str(),
            method: self.head.method,
            headers: self.head.headers,
            query: self.head.query(),
            pattern: self.pattern,
            token: &self.token,
            secured: self.secured,
            body,
            now,
        }
    }
}

/// Finds out who asks and which route takes the request.
///
/// # Errors
/// What to answer when the head breaks a cap, the path makes no sense, or no route takes it.
pub fn locate<'a>(
    snapshot: &'a Snapshot,
    peer: ConnectionPeer<'a>,
    head: &RequestHead<'a>,
) -> Result<Located<'a>, GatewayProblem> {
    check_caps(snapshot, head)?;
    check_length(head.headers)?;
    let client = client::identify(peer.address, head.headers, &snapshot.rules.client);
    let path = NormalPath::parse(head.target).map_err(|_| match head.target {
        ASTERISK => GatewayProblem::BadRequest(HttpViolation::Asterisk),
        "" => GatewayProblem::BadRequest(HttpViolation::Target),
        _ => GatewayProblem::BadPath,
    })?;
    let host = match head.host() {
        "" => Cow::Borrowed(""),
        host => host::normalise(host).map_err(|_| GatewayProblem::BadHost)?,
    };
    if peer.secured.is_some_and(|secured| !secured.covers(&host)) {
        return Err(GatewayProblem::Misdirected);
    }
    if path.as_str().len() > snapshot.router.longest_path() {
        return Err(GatewayProblem::HeadTooLarge);
    }
    let asked = RequestFields {
        method: head.method,
        headers: head.headers,
        query: head.query(),
        client: client.address,
    };
    let find = |asked: &RequestFields<'_>| {
        let found = snapshot.router.find(&host, &path, asked);
        found.map_err(|_| GatewayProblem::AmbiguousPath)
    };
    // A preflight belongs to the route of the request that it asks about.
    let mut preflight = cors::preflight(head.method, head.headers);
    let of_preflight = match &preflight {
        Some(method) => find(&RequestFields { method, ..asked })?,
        None => None,
    };
    let index = match of_preflight.filter(|index| has_cors(snapshot, *index)) {
        Some(index) => index,
        None => {
            preflight = None;
            find(&asked)?.ok_or(GatewayProblem::NoRoute)?
        }
    };
    let route = snapshot.routes.get(index).ok_or(GatewayProblem::Internal)?;
    let standing = route.lists.standing(client.address);
    if !matches!(standing, ListMatch::Blocked(_)) {
        if route.reads_parameters && path.is_ambiguous()
            || route.counts_by_path && path.is_disputed()
            || !agrees_on_parameters(snapshot, index, &host, &path, &asked)
        {
            return Err(GatewayProblem::AmbiguousPath);
        }
        check_body(route, head.headers)?;
    }
    let verifier = snapshot.rules.jwt.as_ref().map(|jwt| &*jwt.verifier);
    Ok(Located {
        preflight,
        token: PresentedToken::new(verifier, head.headers),
        client,
        route,
        standing,
        secured: peer.secured,
        hop: client::hop(peer.address, &snapshot.rules.client),
        host,
        path,
        head: *head,
        pattern: snapshot
            .rules
            .routes
            .get(index)
            .map(|rules| &rules.matches.path),
    })
}

/// Whether the parameters that limits count by are the same in every reading of the path whose route has such a limit.
fn agrees_on_parameters(
    snapshot: &Snapshot,
    index: usize,
    host: &str,
    path: &NormalPath<'_>,
    asked: &RequestFields<'_>,
) -> bool {
    let counted = |index: usize| snapshot.routes.get(index).map(|route| &route.parameters);
    // The limits of another reading's route are among those of this one.
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
    let bytes: usize = head
        .headers
        .iter()
        // RFC 9112 §2.1: a field line is its name, a colon and a space, its value and the line end.
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    if head.headers.len() > server.max_headers
        || bytes + head.target.len() > server.max_header_bytes
    {
        return Err(GatewayProblem::HeadTooLarge);
    }
    Ok(())
}

/// RFC 9113 §8.1.1: over HTTP/2 two lengths, or one that is none, are a malformed request, and an origin that speaks HTTP/1.1 could find
/// another end of the body than the gateway. Over HTTP/1.1 such a head does not get here.
fn check_length(headers: &HeaderMap) -> Result<(), GatewayProblem> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let is_length = |length: &HeaderValue| {
        !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit)
    };
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(()),
        (Some(length), None) if is_length(length) => Ok(()),
        _ => Err(GatewayProblem::BadRequest(HttpViolation::ContentLength)),
    }
}

/// A body that says it is too large is refused before anything is charged; one that does not say so is cut off on its way.
fn check_body(route: &ActiveRoute, headers: &HeaderMap) -> Result<(), GatewayProblem> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    match announced {
        Some(bytes) if bytes > route.max_body_bytes => Err(GatewayProblem::BodyTooLarge),
        _ => Ok(()),
    }
}
