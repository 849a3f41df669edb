//! Decides which crawler a client is: one that proves it, one that only claims it by its user agent, or none.
//!
//! [`CrawlerRegistry`] are those of one configuration with their proofs, [`CrawlerStatus`] is the answer for one request, and
//! [`ClientCrawler`] finds that answer when it is first read and then keeps it. A user agent alone proves nothing, since every client
//! can send it; so one that names a crawler without a proof has a value of its own, [`UNVERIFIED`], for which limits can be as strict
//! as the operator likes. [`ReverseDns`] has the names of addresses that were looked up for such claims.
//!
//! # Limits
//! A look at a request reads [`USER_AGENT_BYTES`](crate::bounds::USER_AGENT_BYTES) of each of
//! [`USER_AGENT_FIELDS`](crate::bounds::USER_AGENT_FIELDS) fields at most, once for each user agent that crawlers have, and
//! verifies at most [`MOST_SIGNATURES`](sluicegate_message_signatures::MOST_SIGNATURES).

mod client;
mod condition;
mod known_crawler;
mod network_failures;
mod registry;
mod request;
mod reverse_dns;
mod signatures;
mod status;

pub use self::client::ClientCrawler;
pub use self::condition::CrawlerCondition;
pub use self::known_crawler::KnownCrawler;
pub use self::registry::CrawlerRegistry;
pub use self::request::CrawlerRequest;
pub use self::reverse_dns::{
    ConfirmedNames, HostDomain, LookUp, LookUpCounts, LookUpResult, NamesFault, ReverseDns,
    ReverseDnsFault,
};
pub use self::signatures::SignedHosts;
pub use self::status::{
    CrawlerIdentity, CrawlerProof, CrawlerStatus, NONE, UNVERIFIED, UnverifiedReason,
};
pub use sluicegate_message_signatures::KeySet;
