//! Serves requests: the limits first, then the origin, the cache or an answer of the gateway's own.
//!
//! Each module is a step of a request, or a part of one; `serve` leads a request through them.

mod answer;
mod attempts;
mod body;
mod cache;
mod cause;
mod context;
mod decide;
mod decision;
mod extended_connect;
mod failed_request;
mod forward_auth;
mod forwarded;
mod http_versions;
mod intercept;
mod key_body;
mod labels;
mod large_head;
mod max_forwards;
mod min_body_rate;
mod origin_request;
mod proof;
mod record;
mod redirect;
mod replay_bytes;
mod rls;
mod serve;
mod shape;
mod stalled_upload;
mod step;
mod strip;
mod unread;
mod upgrade_header;
mod wait;

use std::net::SocketAddr;
use std::sync::Arc;

use sluicegate_process::SharedState;

pub use context::Context;
pub use extended_connect::become_upgrade;
pub use min_body_rate::worth;
pub use rls::CallFault;
pub use serve::CHUNK_LIMITS;
pub use serve::{
    AnswerHead, AnsweredRequest, ConnectionFacts, ConnectionState, DecidedRequest, FieldSink,
    RequestClient, ServingCourse, UnreadableHead,
};
pub use wait::closed as connection_closed;

/// The gateway behind one listener: the shared state, and the address of the listener.
pub struct Gateway(pub Arc<SharedState>, pub SocketAddr);
