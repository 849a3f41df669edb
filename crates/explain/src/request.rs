//! Explains the treatment of one request, by sending it through the stages of real requests.
//!
//! [`locate`] finds client, route and lists as for the proxy; the router lists its candidates from the same walk.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, Uri};
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_base::crawler::{
    ClientCrawler, CrawlerProof, CrawlerRequest, CrawlerStatus, NamesFault, ReverseDnsFault,
    UnverifiedReason,
};
use sluicegate_base::geo::{ClientPlace, GeoDatabases, GeoField};
use sluicegate_base::host;
use sluicegate_base::path::NormalPath;
use sluicegate_base::proxy_fields::X_FORWARDED_PROTO;
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::client::{
    AddressSource, ClientAddress, ConnectionPeer, PeerTrust, hop, identify,
};
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_decide::rfc3339;
use sluicegate_decide::route::{
    RankCriterion, RequestFields, RequestListener, RouteCandidate, RouteCondition,
};
use sluicegate_decide::temporary_rules::RuleEffect;

use super::effect::{EnforcedKeys, LimitEffect, LimitEffects, effect, effect_text};
use super::rule_text::{key_rule_text, list_text};
use super::{activation, key, tier};
use sluicegate_config::rules::{ListenerRules, RouteAction, Tier};
use sluicegate_decide::admission::{ActiveLimit, KeySeed, KnownBody, TierMatch};
use sluicegate_decide::compiled_rules::CompiledRules;
use sluicegate_decide::locate::{EarlyEnd, LocatedRequest, RequestServer, crawler_request, locate};
use sluicegate_decide::request_head::RequestHead;

/// A request to explain.
#[derive(Clone, Debug)]
pub struct RequestQuestion {
    method: Method,
    authority: Option<String>,
    target: String,
    headers: ReceivedFields,
    peer: IpAddr,
    /// The name of the listener; `None` for any.
    listener: Option<String>,
}

/// The reason for which a request cannot be explained, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub struct BadRequest(pub String);

/// The explanation of one request.
#[derive(Debug, Serialize)]
pub struct RequestExplained {
    /// The client and the source of its address.
    pub client: String,
    /// The values that databases have for that address, each with the database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<String>,
    /// The crawler that it is or claims to be, and what proves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crawler: Option<String>,
    /// The fields that are removed before any stage reads them, each with the reason.
    pub removed: Vec<String>,
    /// The path that routes and keys see.
    pub path: String,
    /// The route that takes it.
    pub route: Option<String>,
    /// The reasons for this route, and against others whose host and path fit.
    pub why: Vec<String>,
    /// The list that decides about its client.
    pub list: Option<String>,
    /// The limits that apply, each with its key.
    pub limits: Vec<String>,
    /// The result.
    pub outcome: String,
}

impl RequestQuestion {
    /// Parses `POST https://api.example.com/auth/sendOTP` or `POST /auth/sendOTP`, and headers such as `x-plan: free`.
    ///
    /// # Errors
    /// The part that is invalid, and what to write instead.
    pub fn parse(request: &str, headers: &[String], peer: IpAddr) -> Result<Self, BadRequest> {
        let wrong = || {
            BadRequest(format!(
                "{request:?} is not a request; write 'POST https://api.example.com/auth/sendOTP' or 'GET /path?query'"
            ))
        };
        let (method, url) = request
            .trim()
            .split_once(' ')
            .unwrap_or(("GET", request.trim()));
        let url = url.trim();
        let (authority, target) = match url.split_once("://") {
            Some(("http" | "https", rest)) => {
                let at = rest.find(['/', '?']).unwrap_or(rest.len());
                let (authority, target) = rest.split_at(at);
                let slash = if target.starts_with('/') { "" } else { "/" };
                (Some(authority.to_owned()), format!("{slash}{target}"))
            }
            None if url.starts_with('/') => (None, url.to_owned()),
            Some(_) | None => return Err(wrong()),
        };
        if target.parse::<Uri>().is_err() {
            return Err(wrong());
        }
        Ok(Self {
            method: Method::from_bytes(method.as_bytes()).map_err(|_| wrong())?,
            authority,
            target,
            headers: fields(headers)?,
            peer,
            listener: None,
        })
    }

    /// Returns the question about the request by the listener of this name.
    #[must_use]
    pub fn by_listener(self, name: Option<&str>) -> Self {
        Self {
            listener: name.map(str::to_owned),
            ..self
        }
    }

    /// Returns the other end of the connection.
    ///
    /// # Errors
    /// No listener has the name.
    fn connection_peer(
        &self,
        compiled: &CompiledRules,
    ) -> Result<ConnectionPeer<'static>, BadRequest> {
        let peer = ConnectionPeer::plain(self.peer);
        let Some(name) = &self.listener else {
            return Ok(peer);
        };
        let mut listeners = compiled.rules.listeners.iter();
        let found = listeners.find(|listener| listener.name.as_deref() == Some(name.as_str()));
        let found = found.ok_or_else(|| {
            BadRequest(format!(
                "there is no listener {name:?}; write the `name` of a [[listener]]"
            ))
        })?;
        Ok(ConnectionPeer {
            listener: Some(found.address),
            ..peer
        })
    }

    /// Returns the program that serves the request: another proxy, where its listener only decides.
    fn server(&self, compiled: &CompiledRules) -> RequestServer {
        let by_this = |listener: &&ListenerRules| {
            self.listener.is_none() || listener.name.as_deref() == self.listener.as_deref()
        };
        let mut listeners = compiled.rules.listeners.iter().filter(by_this);
        match listeners.any(|listener| !listener.decides_only()) {
            true => RequestServer::Gateway,
            false => RequestServer::OtherProxy,
        }
    }

    fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            target: &self.target,
            authority: self.authority.as_deref(),
            headers: &self.headers,
        }
    }
}

fn fields(written: &[String]) -> Result<ReceivedFields, BadRequest> {
    let mut headers = ReceivedFields::new();
    for field in written {
        let read = field.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let Some((name, value)) = read else {
            return Err(BadRequest(format!(
                "{field:?} is not a header field; write 'X-Plan: free'"
            )));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

impl RequestExplained {
    /// Explains the result of `question` under `compiled`, whose keys are hashed under `seed`; `enforced` says what the seed decides.
    ///
    /// # Errors
    /// The head is malformed: invalid escapes, an invalid host.
    pub fn new(
        compiled: &CompiledRules,
        seed: &KeySeed,
        enforced: EnforcedKeys,
        question: &RequestQuestion,
    ) -> Result<Self, BadRequest> {
        let mut question = question.clone();
        let removed = removed(compiled, &mut question);
        let head = question.head();
        let client = identify(question.peer, head.headers, &compiled.rules.client);
        let peer = question.connection_peer(compiled)?;
        let now = clock::now();
        let crawler = crawler_request(client.address, peer, (&head, head.host()), now);
        let path = NormalPath::parse(head.target).map_err(|error| BadRequest(error.to_string()))?;
        let listener = compiled.request_listener(peer.listener);
        let candidates = candidates(compiled, &head, &path, &crawler, listener)?;
        let mut explained = Self {
            client: client_text(client),
            place: place_text(compiled, client.address),
            crawler: crawler_text(compiled, &crawler),
            removed,
            path: path.as_str().to_owned(),
            route: None,
            why: reasons(compiled, &candidates),
            list: None,
            limits: Vec::new(),
            outcome: String::new(),
        };
        match locate(compiled, peer, &head, now) {
            Ok(located) => explained.add_route(compiled, seed, enforced, &question, &located),
            Err(problem) => explained.outcome = rejected(problem),
        }
        Ok(explained)
    }

    /// Adds the route's part: the lists, then the limits, then the action.
    fn add_route(
        &mut self,
        compiled: &CompiledRules,
        seed: &KeySeed,
        enforced: EnforcedKeys,
        question: &RequestQuestion,
        located: &LocatedRequest<'_>,
    ) {
        self.route = Some(located.route.name.to_string());
        self.list = list_text(&located.list_match, compiled);
        let end = located.early_end(question.server(compiled));
        match end {
            Some(EarlyEnd::Blocked) => {
                self.outcome = "rejected with 403, before any limit".to_owned();
                return;
            }
            Some(EarlyEnd::Preflight) => {
                self.outcome =
                    "answered by the gateway as a CORS preflight, before any limit".to_owned();
                return;
            }
            Some(EarlyEnd::NoCertificate) | None => {}
        }
        let effects = self.add_limits(compiled, seed, enforced, located);
        let action = action_text(compiled, located);
        self.outcome = effects.outcome(&action);
        if end == Some(EarlyEnd::NoCertificate) {
            let outcome = &self.outcome;
            self.outcome = format!(
                "rejected with 403 without a verified client certificate; with one {outcome}"
            );
        }
    }

    /// Adds a line for each limit of the request, and returns the effects of all.
    fn add_limits(
        &mut self,
        compiled: &CompiledRules,
        seed: &KeySeed,
        enforced: EnforcedKeys,
        located: &LocatedRequest<'_>,
    ) -> LimitEffects {
        let facts = located.facts(KnownBody::Unread, clock::now());
        let mut all = LimitEffects::default();
        for limit in located.limits().iter() {
            let tier = limit.tier_of(&facts, seed).and_then(|found| {
                let tier = tier_at(compiled, limit, found)?;
                Some((found, tier))
            });
            let rule = limit.key_rule(&facts, seed);
            let certain = match rule.map(|rule| rule.effect) {
                Some(RuleEffect::Block) => Some(LimitEffect::Blocks),
                Some(RuleEffect::Ban) => Some(LimitEffect::Bans),
                Some(RuleEffect::Exempt) => Some(LimitEffect::Exempts),
                Some(RuleEffect::Scale(_)) => None,
                None => match &tier {
                    Some((found, Tier::Blocked)) if found.activation.is_none() => {
                        Some(LimitEffect::Blocks)
                    }
                    Some((found, Tier::Unlimited)) if found.activation.is_none() => {
                        Some(LimitEffect::Exempts)
                    }
                    _ => None,
                },
            };
            let certain = certain.filter(|_| limit.activation.is_none());
            let effect = match effect(limit, &facts, seed, enforced) {
                LimitEffect::InShadow => LimitEffect::InShadow,
                other => certain.unwrap_or(other),
            };
            all.add(limit, effect, located.route.refusal.as_deref());
            let key = key::shown(&limit.key, &facts);
            let tier = tier.map(|(found, tier)| in_tier(found, tier));
            let when = limit.activation.as_ref().map(|activation| {
                format!(
                    "; only while {}",
                    activation::while_active(&activation.rules)
                )
            });
            let scaling = limit.scaling.as_ref();
            let scaling = scaling.map(|scaling| format!("; {scaling}"));
            let line = format!(
                "{}: {key}{}{}{}{}{}",
                limit.name,
                scaling.unwrap_or_default(),
                rule.map(|rule| key_rule_text(rule)).unwrap_or_default(),
                tier.unwrap_or_default(),
                when.unwrap_or_default(),
                effect_text(limit, effect, enforced)
            );
            self.limits.push(line);
        }
        all
    }
}

/// Returns the routes whose host and path match the request, the most specific first.
fn candidates(
    compiled: &CompiledRules,
    head: &RequestHead<'_>,
    path: &NormalPath<'_>,
    crawler: &CrawlerRequest<'_>,
    listener: RequestListener<'_>,
) -> Result<Vec<RouteCandidate>, BadRequest> {
    let client = crawler.client;
    let place = ClientPlace::new(&compiled.geo, client);
    let crawler = ClientCrawler::new(&compiled.crawlers, *crawler);
    let host = match head.host() {
        "" => "".into(),
        host => host::normalize(host).map_err(|error| BadRequest(error.to_string()))?,
    };
    let fields = RequestFields {
        method: head.method,
        headers: head.headers,
        query: head.query(),
        listener,
        client,
        place: Some(&place),
        crawler: Some(&crawler),
    };
    Ok(compiled.router.candidates(&host, path, &fields))
}

fn client_text(client: ClientAddress) -> String {
    match client.source {
        AddressSource::Connection => format!("{}, the peer of the connection", client.address),
        AddressSource::Forwarded => format!("{}, named by a trusted proxy", client.address),
    }
}

/// Returns what each field of the databases says of an address, with the database that decides and its age.
fn place_text(compiled: &CompiledRules, client: IpAddr) -> Vec<String> {
    let files = &compiled.rules.geo.databases;
    let databases = GeoDatabases::new(files.iter().map(|file| &file.database), &GeoField::ALL);
    let has = |field: &GeoField| {
        let mut files = files.iter();
        files.any(|file| file.database.fields().contains(field))
    };
    let place = databases.find(client);
    let line = |field: GeoField| match databases.source(client, field) {
        None => format!("{field} = {}, in no database", place.text(field)),
        Some(database) => {
            let mut files = files.iter();
            let file = files.find(|file| Arc::ptr_eq(&file.database, database));
            let path = file.map(|file| file.path.display().to_string());
            format!(
                "{field} = {}, by {} ({}, built {})",
                place.text(field),
                path.unwrap_or_default(),
                database.kind(),
                rfc3339::date(database.built_at())
            )
        }
    };
    GeoField::ALL.into_iter().filter(has).map(line).collect()
}

/// Returns the crawler of a request with its proof; `None` where no crawler is defined.
fn crawler_text(compiled: &CompiledRules, request: &CrawlerRequest<'_>) -> Option<String> {
    if compiled.rules.crawlers.is_empty() {
        return None;
    }
    let status = compiled.crawlers.identify(request);
    let why = match &status {
        CrawlerStatus::None => "it claims to be none".to_owned(),
        CrawlerStatus::Unverified(claimed, reason) => {
            let name = claimed.as_ref().map_or("one", |claimed| &claimed.name);
            match reason {
                UnverifiedReason::NoProof => {
                    format!("its user agent is that of {name}, and nothing proves it")
                }
                UnverifiedReason::ReverseDns(fault) => {
                    format!("its user agent is that of {name}, {}", names_text(*fault))
                }
                other => format!("it claims to be {name}: {}", other.as_str()),
            }
        }
        CrawlerStatus::Verified(crawler, CrawlerProof::ReverseDns(Some(name))) => {
            let of = &crawler.name;
            format!("its address has the name {name} in a domain of {of}")
        }
        CrawlerStatus::Verified(crawler, CrawlerProof::ReverseDns(None)) => {
            format!("its address has a name in a domain of {}", crawler.name)
        }
        CrawlerStatus::Verified(crawler, CrawlerProof::Signature) => {
            format!("{} has signed it", crawler.name)
        }
        CrawlerStatus::Verified(crawler, CrawlerProof::Ranges) => {
            format!("its address is in the ranges of {}", crawler.name)
        }
    };
    Some(format!("client.crawler = {}, {why}", status.value()))
}

/// Returns what is known of the names of an address that is not confirmed.
fn names_text(fault: ReverseDnsFault) -> &'static str {
    match fault {
        ReverseDnsFault::Names(NamesFault::NoName) => "and its address has no name",
        ReverseDnsFault::Names(NamesFault::OtherDomain) => {
            "and no name of its address is in a domain of it"
        }
        ReverseDnsFault::Names(NamesFault::Mismatch) => {
            "and the name of its address in a domain of it has another address"
        }
        ReverseDnsFault::Failed => "and DNS did not answer when its address was looked up",
        ReverseDnsFault::Pending => "and the name of its address is being looked up",
        ReverseDnsFault::Throttled => {
            "and its address is not looked up yet, since many others wait"
        }
        ReverseDnsFault::NotLookedUp => {
            "and a gateway would look the name of its address up, which this command does not"
        }
    }
}

/// Returns where the route sends a request that its limits admit.
fn action_text(compiled: &CompiledRules, located: &LocatedRequest<'_>) -> String {
    let route = compiled.rules.routes.get(located.index);
    match route.map(|route| &route.action) {
        None => String::new(),
        Some(RouteAction::Forward(origin)) => {
            let rewritten = match located.target(RequestId::next()) {
                Ok(None) => String::new(),
                Ok(Some(target)) => format!(" as {target}"),
                Err(problem) => format!(", but {}", problem.detail()),
            };
            format!("forwarded to the origin {origin:?}{rewritten}")
        }
        Some(RouteAction::Redirect(redirect)) => {
            format!("redirected with {}", redirect.status.as_u16())
        }
        Some(RouteAction::Respond(fixed)) => {
            format!("answered by the gateway with {}", fixed.status.as_u16())
        }
    }
}

/// Removes the fields that the gateway removes, and returns the reasons.
fn removed(compiled: &CompiledRules, question: &mut RequestQuestion) -> Vec<String> {
    let rules = &compiled.rules.client;
    let review = (compiled.field_policy).review(&question.headers, question.peer, rules);
    let mut told = Vec::new();
    if review.is_untrusted_forwarding {
        told.push(format!(
            "{peer} sends forwarding fields and is not in client.trusted_proxies, so it is the client; if it is your \
             proxy or load balancer, write [client] trusted_proxies = [\"{peer}\"]",
            peer = question.peer
        ));
    }
    let is_trusted = hop(question.peer, rules) == PeerTrust::Trusted;
    for name in review.remove {
        question.headers.remove(&name);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let why = if !name.as_str().bytes().all(plain) {
            "servers may read its name as another one; see server.underscores"
        } else if is_trusted {
            "only a proxy may set it, and client.trusted_headers does not list it"
        } else {
            "only a trusted proxy may set it"
        };
        told.push(format!("{name}: removed, {why}"));
    }
    if let Some(scheme) = review.scheme {
        question.headers.insert(X_FORWARDED_PROTO, scheme);
    }
    told
}

fn tier_at<'s>(
    compiled: &'s CompiledRules,
    limit: &ActiveLimit,
    found: TierMatch<'_>,
) -> Option<&'s Tier> {
    let rules = compiled.rules.limits.get(&limit.name)?;
    rules.tier_at(found.index)
}

/// Returns `; in the tier "pro": 600 in 1m`, where the limit's own rates do not apply.
fn in_tier(found: TierMatch<'_>, tier: &Tier) -> String {
    let means = tier::means(tier);
    let when = found.activation.map(|activation| {
        format!(
            ", only while {}",
            activation::while_active(&activation.rules)
        )
    });
    let when = when.unwrap_or_default();
    match found.name {
        Some(name) => format!("; in the tier {name:?}: {means}{when}"),
        None => format!("; by a row of its overrides: {means}"),
    }
}

fn rejected(problem: GatewayProblem) -> String {
    let why = match problem {
        GatewayProblem::NoRoute => "no route matches",
        GatewayProblem::AmbiguousPath => {
            "its path or query is ambiguous, and another reading has a route that treats it otherwise"
        }
        GatewayProblem::HeadTooLarge => "its head or path is too large",
        GatewayProblem::BodyTooLarge => "its body is larger than the route accepts",
        _ => "it is malformed",
    };
    format!("rejected with {}: {why}", problem.status().as_u16())
}

/// Returns the winner with the criterion that decided for it, and each of the others with the one that decided against it.
fn reasons(compiled: &CompiledRules, candidates: &[RouteCandidate]) -> Vec<String> {
    let mut reasons = Vec::new();
    let winner = candidates
        .iter()
        .position(|candidate| candidate.objection.is_none());
    for (at, candidate) in candidates.iter().enumerate() {
        let name = name(compiled, candidate.route);
        match (candidate.objection, winner) {
            (Some(objection), _) => {
                let what = match objection {
                    RouteCondition::Methods => "does not match the method",
                    RouteCondition::Listener => "names other listeners",
                    RouteCondition::Client => "does not match the client",
                    RouteCondition::Place => "does not match the client's country, city or network",
                    RouteCondition::Crawler => "does not match the client's crawler",
                    RouteCondition::Headers => "requires other headers",
                    RouteCondition::Query => "requires another query",
                };
                reasons.push(format!("{name:?} {what}"));
            }
            (None, Some(winner)) if at == winner => {
                reasons.push(format!("{name:?} matches and takes precedence"))
            }
            (None, Some(winner)) => {
                // The criterion that separates the winner from this one is the greatest between neighbors on the way.
                let between = candidates.get(winner..at).unwrap_or_default();
                let decided = between
                    .iter()
                    .filter_map(|candidate| candidate.wins_by)
                    .min();
                let by = decided.map_or("", criterion);
                reasons.push(format!("{name:?} matches too, but comes later: {by}"));
            }
            (None, None) => {}
        }
    }
    reasons
}

fn criterion(criterion: RankCriterion) -> &'static str {
    match criterion {
        RankCriterion::Host => "its host is less specific",
        RankCriterion::Path => "its path is less specific",
        RankCriterion::Listener => "it names no listener, or more",
        RankCriterion::Client => "its condition on the client is wider",
        RankCriterion::Place => "it has fewer conditions on country, city or network",
        RankCriterion::Crawler => "it has no condition on crawlers",
        RankCriterion::Headers => "it requires fewer headers",
        RankCriterion::Query => "it requires fewer query parameters",
        RankCriterion::Methods => "its condition on the method is less specific",
        RankCriterion::Order => "it is later in the file",
    }
}

fn name(compiled: &CompiledRules, route: usize) -> String {
    let route = compiled.rules.routes.get(route);
    route.map_or_else(String::new, |route| route.name.to_string())
}
