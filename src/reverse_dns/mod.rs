//! Looks up the names of addresses that claim to be crawlers, in the background.
//!
//! [`sluicegate_base::crawler::ReverseDns`] holds the answers, and queues the addresses that requests need. [`LookUpService`] takes them
//! out at a bounded pace; `confirm.rs` decides what the answers of DNS mean, `message.rs` reads and writes its messages, `transport.rs`
//! carries them, and `system_servers.rs` finds the servers.
//! docs/decisions/0048-a-crawler-is-who-proves-it.md says why this is not a resolver library.

mod confirm;
mod message;
mod service;
mod system_servers;
mod transport;

pub use self::service::{CrawlerNames, LookUpService};
