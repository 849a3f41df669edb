//! Owns the typed rules: what the operator wrote, once every impossible state is gone.
//!
//! [`super::parse`] is the only producer; everything behind it takes these types and checks nothing again.
//! They hold no compiled state: the gateway's snapshot turns them into tables, tries and pools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use sluicegate_base::crawler::CrawlerCondition;
use sluicegate_base::geo::{GeoField, PlaceCondition};
use sluicegate_base::path::{PathCase, PathRegex};

use super::written::WrittenConfig;

pub use super::activation::ActivationRules;
pub use super::admin_tokens::{AdminRole, AdminToken, AdminTokens, TokenFileError, TokenSecret};
pub use super::override_rows::{OverrideRows, TierIndex};
pub use super::tables::acme::{AccountBinding, AcmeRules};
pub use super::tables::adaptive_concurrency::AdaptiveConcurrencyRules;
pub use super::tables::admin::AdminRules;
pub use super::tables::balance::StickyRules;
pub use super::tables::cache::{
    CacheRules, ClientNoCache, CookieMeaning, CountedRequests, RouteCacheRules,
};
pub use super::tables::challenge::{ChallengeKeyRules, ChallengeMethods, ChallengeRules};
pub use super::tables::client::{ClientRules, ForwardedSource};
pub use super::tables::compress::{CompressRules, CompressionLevel, ContentCoding};
pub use super::tables::cors::{AllowedFields, CorsRules, Credentials, PageOrigin, PageOrigins};
pub use super::tables::crawler::{CrawlerKeys, CrawlerRules, RangeFile};
pub use super::tables::defence::{DefenceRules, OverrideFields, UnderscoreFields};
pub use super::tables::geo::{GeoFile, GeoRules};
pub use super::tables::jwt::JwtRules;
pub use super::tables::list::{ListFile, ListRules, ListUse};
pub use super::tables::listener::ListenerRules;
pub use super::tables::listener_tls::TlsRules;
pub use super::tables::log::LogRules;
pub use super::tables::origin::{HeaderCase, HostPolicy, OriginRules, OriginTransport};
pub use super::tables::origin_steps::{HealthRules, OriginTimeouts};
pub use super::tables::origin_tls::OriginTls;
pub use super::tables::otlp::{OtlpPlace, OtlpRules, OtlpSignal};
pub use super::tables::require::{CertificateNeed, RequireRules};
pub use super::tables::resilience::{CircuitBreakerRules, OutlierDetectionRules, RetryRules};
pub use super::tables::respond::FixedResponse;
pub use super::tables::server::{Http2Rules, ServerRules};
pub use super::tables::store::{StoreAccess, StoreRules};
pub use super::tables::syslog::{SyslogAddress, SyslogRules};
pub use super::tables::tracing::TracingRules;

mod acme;
mod changes;
mod cost;
mod defence;
mod file_state;
mod key;
mod known;
mod limit;
mod listener;
mod log;
mod name;
mod origin_address;
mod pages;
mod pool;
mod refusal;
mod shape;
mod store;
mod tier;
mod wire;

pub use self::acme::{AcmeChallenge, NameSet};
pub use self::cost::{
    AbsentPart, AnnouncedReserve, CostRules, CostSource, MeasuredCost, ReportedPart, ReportedSum,
    ReservePart, ReserveRules,
};
pub use self::defence::TrustedHeader;
pub use self::file_state::{BrokenFile, FileState};
pub use self::key::{KeyPart, KeyTemplate, OnMissing, Pointer, ValuePart, ValueSource};
pub use self::limit::{FieldStyle, LimitRules};
pub use self::listener::{Http2, ListenerProtocol, MinVersion, ProxyProtocol, UnknownName};
pub use self::log::{AccessLogTarget, AuditLogTarget, LogFormat, LoggedKeys, RefusedLines};
pub use self::name::Name;
pub use self::origin_address::{OriginAddress, OriginAddressError, SocketPath, SocketPathError};
pub use self::pages::{ErrorPages, Failing, Page, PageBody, PagePiece};
pub use self::pool::{Balance, FailureClass, Percent, PoolServer, QueueOrder, Role, Weight};
pub use self::refusal::{Escape, Piece, RefusalRules, Wording};
pub use self::shape::{
    FieldEdits, RedirectPlace, RedirectQuery, RedirectRules, ShapeRules, Slot, Template,
};
pub use self::store::{
    OnStoreFailure, ReadyWhen, SharedMode, SharedRules, StoreAddress, StoreLogin, StoreNode,
    StoreSeed, StoreTopology,
};
pub use self::tier::{NamedTier, OverrideRules, Tier, TierRules, TierSource};
pub use self::wire::{Certificate, Identity, Protocol, Verify};

/// One whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// `[server]`
    pub server: ServerRules,
    /// `[[listener]]`, at least one, addresses distinct.
    pub listeners: Vec<ListenerRules>,
    /// `[client]`
    pub client: ClientRules,
    /// `[geo]`
    pub geo: GeoRules,
    /// `[crawler.NAME]`, by name.
    pub crawlers: BTreeMap<Name, CrawlerRules>,
    /// `[admin]`
    pub admin: AdminRules,
    /// `[log]`
    pub log: LogRules,
    /// `[jwt]`; `None` where no token is believed.
    pub jwt: Option<JwtRules>,
    /// `[challenge]`
    pub challenge: ChallengeKeyRules,
    /// `[store]`; `None` where every limit counts by itself.
    pub store: Option<StoreRules>,
    /// `[cache]`
    pub cache: CacheRules,
    /// `[acme]`; `None` where no certificate is ordered.
    pub acme: Option<AcmeRules>,
    /// `[origin.NAME]`
    pub origins: BTreeMap<Name, OriginRules>,
    /// `[list.NAME]`
    pub lists: BTreeMap<Name, ListRules>,
    /// `[limit.NAME]`
    pub limits: BTreeMap<Name, LimitRules>,
    /// `[[route]]` in file order.
    pub routes: Vec<RouteRules>,
    /// `[tracing]`; `None` where traces pass as they are.
    pub tracing: Option<TracingRules>,
    /// `[tracing.otlp]`; `None` where nothing is exported. It may send logs and metrics without `[tracing] propagate`.
    pub collector: Option<Arc<OtlpRules>>,
    /// The shape of responses that no route gives; `None` where they go as they are.
    pub shape: Option<Arc<ShapeRules>>,
    /// The configuration as it was written.
    pub written: Arc<WrittenConfig>,
    /// The patterns of `include`.
    pub patterns: Vec<PathBuf>,
    /// The files that are included.
    pub included: Vec<PathBuf>,
    /// The files beside them that were read: certificates, keys, lists, pages.
    pub read_files: Vec<PathBuf>,
}

/// `[[route]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRules {
    /// `name`, or made from the match: `POST example.com/auth/sendOTP`. Distinct; a label of metrics and a field of the log.
    pub name: Name,
    /// Which requests.
    pub matches: RouteMatch,
    /// Names of limits, at most 8, each defined.
    pub limits: Vec<Name>,
    /// The action for an admitted request.
    pub action: RouteAction,
    /// The lists that apply to it, beside those of `[client]`.
    pub lists: ListUse,
    /// `require`: what clients must have shown.
    pub require: RequireRules,
    /// Largest request body on this route; default: the server's.
    pub max_body_bytes: Option<u64>,
    /// The response to rejections here, whatever limit rejects; `None` leaves that to the limit.
    pub refusal: Option<Arc<RefusalRules>>,
    /// The rules by which its responses are stored; `None`: not at all.
    pub cache: Option<RouteCacheRules>,
    /// The shape of requests and responses, of this route and of every route; `None` where they pass as they are.
    pub shape: Option<Arc<ShapeRules>>,
}

/// Which requests a route takes; all conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteMatch {
    /// `host`; any when absent.
    pub host: Option<HostMatch>,
    /// `path`; `/*` where `regex` says it.
    pub path: PathPattern,
    /// `path = "~ ^/v[0-9]+/otp$"`: what the whole path must match.
    pub regex: Option<PathRegex>,
    /// `ignore_case`
    pub case: PathCase,
    /// `listeners`, by name; any when empty.
    pub listeners: Vec<Name>,
    /// `client`; any when it names nobody.
    pub client: ClientCondition,
    /// `countries`, `cities` and `asns`.
    pub place: PlaceCondition,
    /// `crawlers`
    pub crawler: CrawlerCondition,
    /// `query = { page = "2" }`, by name.
    pub query: Vec<QueryCondition>,
    /// `methods`, by name; any when empty.
    pub methods: Vec<Method>,
    /// `headers = { x-plan = "free" }`: each present with exactly this value; by name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// `host` of a route: lower case, without port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostMatch {
    /// This one.
    Exact(Arc<str>),
    /// `*.example.com`: every name that ends in a dot and this one, at any depth.
    Under(Arc<str>),
}

/// `client` of a route: the longest block that holds the address decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientCondition {
    /// The addresses that match; everybody when there are only exceptions.
    pub of: Vec<IpNet>,
    /// `"!10.1.0.0/16"`: who is not.
    pub except: Vec<IpNet>,
}

/// One parameter of the query that must be there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueryCondition {
    /// Decoded.
    pub name: Arc<str>,
    /// Decoded; `None` takes any.
    pub value: Option<Arc<str>>,
}

/// `path`: exact, `/prefix/*` or with `{name}` segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// The pattern as it was written.
    pub text: Arc<str>,
    /// The segments between slashes, without the final `*`; empty text is the end of `/a/`, and the whole of `/`.
    pub segments: Vec<Segment>,
    /// Says whether anything may follow: `/a/*` takes `/a/`, `/a/b` and `/a/b/c`, but not `/a`; `/*` takes everything.
    pub tail: Tail,
}

impl PathPattern {
    /// Returns whether `{name}` is one of its segments.
    #[must_use]
    pub fn has_parameter(&self, name: &str) -> bool {
        self.parameter_position(name).is_some()
    }

    /// Which of its segments, from 0, is `{name}`.
    #[must_use]
    pub fn parameter_position(&self, name: &str) -> Option<usize> {
        self.segments.iter().position(
            |segment| matches!(segment, Segment::Parameter(parameter) if **parameter == *name),
        )
    }

    /// The segment of `path`, which fits and is in normal form, that is `{name}`.
    #[must_use]
    pub fn parameter<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        path.split('/').nth(self.parameter_position(name)? + 1)
    }
}

/// One segment of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This text, in the normal form that requests are compared in.
    Literal(Arc<str>),
    /// `{name}`: any one segment that is not empty.
    Parameter(Arc<str>),
}

/// The paths that may follow the segments of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Exact,
    /// Anything.
    Any,
}

/// The action for an admitted request of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteAction {
    /// `origin = "app"`.
    Forward(Name),
    /// `respond = { status = 204 }`.
    Respond(FixedResponse),
    /// `redirect = { to = "/new" }`.
    Redirect(Arc<RedirectRules>),
}

impl Rules {
    /// Returns the fields of clients' places that something reads: keys of limits, conditions of routes, lists.
    #[must_use]
    pub fn geo_fields(&self) -> Vec<GeoField> {
        let limits = self.limits.values().flat_map(LimitRules::places_read);
        let routes = self.routes.iter();
        let routes = routes.flat_map(|route| route.matches.place.fields());
        let lists = self
            .lists
            .values()
            .flat_map(|list| list.places().fields().collect::<Vec<_>>());
        let mut fields: Vec<GeoField> = limits.chain(routes).chain(lists).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// Returns whether something reads the crawlers of clients: a key of a limit, a condition of a route, a list.
    #[must_use]
    pub fn reads_crawlers(&self) -> bool {
        let mut limits = self.limits.values();
        let mut lists = self.lists.values();
        let mut routes = self.routes.iter();
        limits.any(|limit| limit.key.reads_crawler())
            || routes.any(|route| !route.matches.crawler.is_any())
            || lists.any(|list| !list.crawlers.is_empty())
    }

    /// The certificates that listeners ask `[acme]` for, each once.
    #[must_use]
    pub fn ordered_names(&self) -> Vec<NameSet> {
        let tls = self.listeners.iter().filter_map(|each| each.tls.as_ref());
        let mut sets: Vec<_> = tls.filter_map(|tls| tls.acme.clone()).collect();
        sets.sort();
        sets.dedup();
        sets
    }

    /// The files beside the configuration whose change is a change of it, each once.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = [&*self.included, &*self.read_files].concat();
        files.sort();
        files.dedup();
        files
    }
}

impl ClientCondition {
    /// Returns whether every client matches.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.of.is_empty() && self.except.is_empty()
    }
}

impl std::fmt::Display for HostMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Under(parent) => write!(f, "*.{parent}"),
        }
    }
}

impl std::fmt::Display for ClientCondition {
    /// `10.0.0.0/8,!10.1.0.0/16`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.of.iter().map(|block| ("", block));
        let except = self.except.iter().map(|block| ("!", block));
        for (at, (mark, block)) in of.chain(except).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{mark}{block}")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for QueryCondition {
    /// `page=2`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value.as_deref().unwrap_or("*"))
    }
}
