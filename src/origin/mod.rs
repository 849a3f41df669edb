//! Stage 5, where it goes: pools of servers, their health, the choice of one, what it is told about the client.

mod budget;
mod case;
mod choice;
mod circuit;
mod complaint;
mod connections;
mod dialer;
mod disguise;
mod failure;
mod headers;
mod health;
mod names;
mod peer;
mod pool;
mod probe;
mod server;
mod standing;
mod sticky;

pub use case::{Fields, edit_request, edit_response};
pub use complaint::Complaints;
pub use connections::{Connections, Refusal};
pub use dialer::NO_CONNECTION;
pub use disguise::OVERRIDES;
pub use failure::{Failure, TryOutcome};
pub use headers::{Introduction, introduce, strip_hop_by_hop};
pub use health::HealthChecks;
pub use peer::for_upgrade;
pub use pool::{Choice, Pool, Tried, Wish};
pub use server::{Held, Server};
pub use standing::{ServerState, Standing};
pub use sticky::{Channel, cookie_for, tag_in};
