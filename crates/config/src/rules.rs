//! Owns the typed rules: what the operator wrote, once every impossible state is gone.
//!
//! [`super::parse`] is the only producer; everything behind it takes these types and checks nothing again.
//! They hold no compiled state: the gateway's snapshot turns them into tables, tries and pools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_base::geo::GeoField;

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
mod route;
mod route_match;
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
pub use self::listener::{Http2, Http3, ListenerProtocol, MinVersion, ProxyProtocol, UnknownName};
pub use self::log::{AccessLogTarget, AuditLogTarget, LogFormat, LoggedKeys, RefusedLines};
pub use self::name::Name;
pub use self::origin_address::{OriginAddress, OriginAddressError, SocketPath, SocketPathError};
pub use self::pages::{ErrorPages, Failing, Page, PageBody, PagePiece};
pub use self::pool::{Balance, FailureClass, Percent, PoolServer, QueueOrder, Role, Weight};
pub use self::refusal::{Escape, Piece, RefusalRules, Wording};
pub use self::route::{RouteAction, RouteRules};
pub use self::route_match::{
    ClientCondition, HostMatch, PathPattern, QueryCondition, RouteMatch, Segment, Tail,
};
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
