//! Stage 5, where it goes: pools of servers, their health, the choice of one, what it is told about the client.

mod headers;
mod health;
mod pool;

pub use headers::{Introduction, introduce, strip_response};
pub use health::HealthChecks;
pub use pool::{Pool, Server};
