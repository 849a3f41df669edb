//! Stage 5, where it goes: pools of servers, their health, the choice of one, what it is told about the client.

mod budget;
mod case;
mod choice;
mod circuit;
mod connections;
mod dialer;
mod failure;
mod failure_log;
mod headers;
mod health;
mod hops;
mod names;
mod peer;
mod pool;
mod probe;
mod server;
mod standing;
mod sticky;
mod tunnel;

pub use case::{HeaderEdit, edit_request, edit_response};
pub use circuit::AttemptWait;
pub use connections::Connections;
pub use dialer::NO_CONNECTION;
pub use failure::{AttemptFailure, AttemptOutcome, FailureKind};
pub use failure_log::{FailureLog, LatestFailure};
pub use headers::{ClientHeaders, set_client_headers, strip_hop_by_hop};
pub use health::HealthChecks;
pub use hops::{CDN_LOOP, HopName};
pub use peer::for_upgrade;
pub use pool::{FailedServers, PickRequest, PickResult, Pool};
pub use server::{Server, ServerPermit};
pub use standing::{ServerState, ServerStatus};
pub use sticky::{ChannelSecurity, cookie_for, tag_in};
pub use tunnel::TunnelSocket;
