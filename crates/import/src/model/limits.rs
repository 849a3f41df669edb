//! Limits in the words of Sluicegate.

use super::TableRemarks;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// `client.ip`.
    ClientIp,
    /// `client.ip/V4,/V6`.
    ClientNetwork(u8, u8),
    /// `host`.
    Host,
    /// `path`.
    Path,
    /// `method`.
    Method,
    /// `header.NAME`.
    Header(String),
    /// `cookie.NAME`.
    Cookie(String),
    /// `query.NAME`.
    Query(String),
    /// `tls.client.subject`.
    CertificateSubject,
    /// `tls.client.fingerprint`.
    CertificateFingerprint,
}

impl KeyPart {
    /// Returns true if a request can lack it.
    #[must_use]
    pub fn can_be_absent(&self) -> bool {
        match self {
            Self::ClientIp | Self::ClientNetwork(..) | Self::Host | Self::Path | Self::Method => {
                false
            }
            Self::Header(_)
            | Self::Cookie(_)
            | Self::Query(_)
            | Self::CertificateSubject
            | Self::CertificateFingerprint => true,
        }
    }

    /// Returns the part as the configuration writes it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::ClientIp => "client.ip".to_owned(),
            Self::ClientNetwork(v4, v6) => format!("client.ip/{v4},/{v6}"),
            Self::Host => "host".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Method => "method".to_owned(),
            Self::Header(name) => format!("header.{name}"),
            Self::Cookie(name) => format!("cookie.{name}"),
            Self::Query(name) => format!("query.{name}"),
            Self::CertificateSubject => "tls.client.subject".to_owned(),
            Self::CertificateFingerprint => "tls.client.fingerprint".to_owned(),
        }
    }
}

/// The algorithm of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAlgorithm {
    /// `gcra` with this burst.
    Gcra(u64),
    /// `token-bucket` with this burst.
    TokenBucket(u64),
    /// `leaky-bucket` with this queue and, where the default is too short, this longest wait in milliseconds.
    LeakyBucket(u64, Option<u64>),
    /// `sliding-window`.
    SlidingWindow,
    /// `exact`.
    Exact,
}

/// The action for a request that a limit has no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitAction {
    /// The request is refused.
    Reject,
    /// It is counted and reported.
    Shadow,
    /// It passes to the limit of this name.
    Mark(String),
}

/// `[limit.NAME]`.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// Comments.
    pub remarks: TableRemarks,
    /// Its key; empty for one counter.
    pub key: Vec<KeyPart>,
    /// `on_missing`, where a part can be absent.
    pub on_missing: Option<&'static str>,
    /// Count and period.
    pub rate: (u64, String),
    /// The algorithm.
    pub algorithm: LimitAlgorithm,
    /// The action for a request without room.
    pub action: LimitAction,
    /// `capacity`, where it is not the default.
    pub capacity: Option<u64>,
    /// Requests in flight. The rate of such a limit is out of reach.
    pub concurrency: Option<u64>,
    /// The status of refusals, where it is not 429.
    pub status: Option<u16>,
    /// `count_if`, where not every request counts.
    pub count_if: Option<&'static str>,
}
