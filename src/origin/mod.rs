//! Stage 5, where it goes: pools of servers, their health, the choice of one, what it is told about the client.

mod case;
mod complaint;
mod headers;
mod health;
mod peer;
mod pool;
mod probe;

pub use case::{Fields, edit_request, edit_response};
pub use complaint::Complaints;
pub use headers::{Introduction, introduce, strip_hop_by_hop};
pub use health::HealthChecks;
pub use peer::for_upgrade;
pub use pool::{Pool, Server};
