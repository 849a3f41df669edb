//! Lists the tables that are declared by their types.
//!
//! The JSON Schema takes what they say instead of asking the parser, and a test (`declared_tables_tests.rs`) writes them into
//! conf/reference.toml and compares.

use super::ban::BanTable;
use super::declaration::TableDeclaration;
use super::refusal::RefusalTable;
use super::rules::{
    AccountBinding, AcmeRules, AdaptiveConcurrencyRules, AdminRules, CacheRules, ChallengeKeyRules,
    ChallengeRules, CircuitBreakerRules, ClientRules, CompressRules, CorsRules, CrawlerRules,
    FixedResponse, GeoRules, HealthRules, Http2Rules, ListRules, ListenerRules, LogRules,
    OriginRules, OriginTimeouts, OriginTls, OtlpRules, OutlierDetectionRules, RequireRules,
    RetryRules, RouteCacheRules, ServerRules, StickyRules, StoreRules, TlsRules, TracingRules,
};
use super::tables::servers::ServerEntry;

/// Every table that its type declares.
pub(super) fn declared_tables() -> Vec<TableDeclaration> {
    vec![
        ServerRules::declaration(),
        Http2Rules::declaration(),
        ListenerRules::declaration(),
        TlsRules::declaration(),
        AdminRules::declaration(),
        LogRules::declaration(),
        TracingRules::declaration(),
        OtlpRules::declaration(),
        OriginTls::declaration(),
        StoreRules::declaration(),
        AcmeRules::declaration(),
        AccountBinding::declaration(),
        ClientRules::declaration(),
        GeoRules::declaration(),
        CrawlerRules::declaration(),
        ListRules::declaration(),
        CacheRules::declaration(),
        RouteCacheRules::declaration(),
        RequireRules::declaration(),
        CorsRules::declaration(),
        CompressRules::declaration(),
        FixedResponse::declaration(),
        RefusalTable::declaration(),
        BanTable::declaration(),
        ChallengeRules::declaration(),
        ChallengeKeyRules::declaration(),
        ServerEntry::declaration(),
        OriginRules::declaration(),
        OriginTimeouts::declaration(),
        HealthRules::declaration(),
        OutlierDetectionRules::declaration(),
        RetryRules::declaration(),
        CircuitBreakerRules::declaration(),
        AdaptiveConcurrencyRules::declaration(),
        StickyRules::declaration(),
    ]
}

/// Declared tables that stand in another place too, where the reference does not explain them again: the path, and the first place.
pub(super) const OTHER_PLACES: [(&str, &str); 3] = [
    ("route[].refusal", "limit.NAME.refusal"),
    ("route[].cors", "cors"),
    ("route[].compress", "compress"),
];

#[cfg(test)]
#[path = "declared_tables_tests.rs"]
mod tests;
