//! Implements stage 5, the origin: pools of servers, their health, the choice of a server, and the fields that describe the
//! client to it.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod adaptive_limit;
mod admitted_pool;
mod balancer;
mod channel;
mod client_counts;
mod client_headers;
mod connect_error;
mod connections;
mod connector;
mod dialer;
mod due_time;
mod failure;
mod failure_log;
mod field_changes;
mod gradient;
mod header_edit;
mod health;
mod hops;
mod http2_connection;
mod http2_connections;
mod idle;
mod interim;
mod latency;
mod origin_stream;
mod origin_streams;
mod peer;
mod pending_queue;
mod pick_request;
mod pick_result;
mod pool;
mod probe;
mod recent_attempts;
pub mod request_failure;
mod resolver;
mod retry_budget;
mod server;
mod server_state;
mod server_status;
mod sticky;
mod stream_window;
mod unverified_tls;
mod waiting_order;

pub use adaptive_limit::LimitRefusal;
pub use admitted_pool::AdmittedPool;
pub use channel::{OriginChannel, OriginEvent, OriginPatience, OriginWait};
pub use client_counts::ClientTag;
pub use client_headers::{
    ClientHeaders, named_by_connection, passes_upgrade, remove_hop_by_hop, set_client_headers,
    strip_hop_by_hop,
};
pub use connect_error::ConnectError;
pub use connections::{ConnectionClosing, Connections};
pub use connector::{AttemptExcuse, OriginConnector, ProtocolNeed};
pub use failure::{AttemptFailure, AttemptOutcome};
pub use failure_log::{FailureLog, LatestFailure};
pub use field_changes::FieldChanges;
pub use header_edit::FieldEdit;
pub use health::HealthChecks;
pub use hops::{CDN_LOOP, HopName};
pub use idle::IdleCheck;
pub use interim::InterimHeads;
pub use latency::{LatencyCounts, OriginLatency};
pub use pending_queue::AttemptWait;
pub use pick_request::{FailedServers, PickRequest};
pub use pick_result::PickResult;
pub use pool::ServerPool;
pub use recent_attempts::{AttemptCounts, ServerSilence};
pub use server::{OriginServer, ServerPermit, UploadPart};
pub use server_state::ServerState;
pub use server_status::ServerStatus;
pub use sticky::{ChannelSecurity, cookie_for, tag_in};
