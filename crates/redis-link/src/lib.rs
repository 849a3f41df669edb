//! An at-most-once link to Redis or Valkey: one server, a master that Sentinels name, or a Cluster.
//!
//! A [`Link`] runs calls of one Lua script. A call uses a connection that already exists, is sent once, and ends within its timeout
//! with a [`Reply`] or with a [`StoreError`] that says whether the server may have executed it. Connecting, TLS, Sentinels, the map of a
//! Cluster and the recovery of a lost server happen on threads of the link, so that no caller ever waits for them.
//!
//! Processes that share a server also share three facts over their links: the number of processes ([`Link::nodes`]), one random seed
//! under which all of them hash keys ([`Link::seed`]), and a marker that shows that the server has lost its data ([`Link::new_epochs`]).
//!
//! - [`LinkSettings`] name the servers ([`Topology`]), the [`Login`], TLS and the timeouts.
//! - A [`LinkObserver`] counts calls and events. A [`LinkEnvironment`] gives time, random numbers and sockets: the crate reads no clock.
//! - [`check`] tests a server for an operator.
//!
//! # Example
//! ```
//! use sluicegate_redis_link::{Call, Link, Reply, StoreError};
//!
//! /// Runs the script of the link for one key. `None`: the script returned no number.
//! async fn visits(link: &Link) -> Result<Option<i64>, StoreError> {
//!     let keys = vec![b"visits".to_vec()];
//!     match link.run(Call { keys, args: Vec::new() }).await? {
//!         Reply::Integer(count) => Ok(Some(count)),
//!         _ => Ok(None),
//!     }
//! }
//! ```
//! The README makes a link, too.
//!
//! # Limits
//! The link opens one connection to each server with keys. `bounds.rs` bounds what waits for it.
#![forbid(unsafe_code)]

/// The target of process logs: the module of the gateway that the link was part of, so that filters on it or a module above it go on.
pub(crate) const LOG_TARGET: &str = "sluicegate::store::link";

mod address;
mod batches;
mod bounds;
mod breaker;
mod call;
pub mod check;
mod connect;
mod connection;
mod environment;
mod epoch;
mod error;
mod link;
mod link_state;
mod membership;
mod observer;
mod recovery;
mod redirection;
mod script_batch;
mod seed;
mod sentinel;
mod server_status;
mod settings;
mod slots;
mod time;
mod topology;

pub use self::address::{HostPort, ServerAddress};
pub use self::bounds::BATCH;
pub use self::call::{Call, LinkScript, Reply};
pub use self::environment::{ByteStream, LinkEnvironment, OpeningStream};
pub use self::epoch::NewEpoch;
pub use self::error::{RefusalReason, StoreError};
pub use self::link::{Link, LinkStatus};
pub use self::observer::{CallResult, LinkEvent, LinkObserver};
pub use self::recovery::{RecoveryBarrier, RecoveryStage};
pub use self::server_status::{ConnectionState, ServerStatus};
pub use self::settings::{
    HashSeed, LibraryName, LinkSettings, Login, Password, TlsSettings, Topology,
};
pub use self::time::Moment;

/// The README's example, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
