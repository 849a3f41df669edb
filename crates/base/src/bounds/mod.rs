//! Owns every hard cap of the process: the resources that a client or an origin can grow, their maximum, and the policy at the
//! maximum.
//!
//! Each constant names its unit, the reason for its size, and the policy at the bound. Caps that an operator may set are in the
//! configuration; these are the ones that no operator needs to change. Each module has the caps of one subject, and this one re-exports
//! all of them.

mod connections;
mod crawlers;
mod limits;
mod operators;
mod origins;
mod process;
mod requests;
mod responses;

pub use connections::*;
pub use crawlers::*;
pub use limits::*;
pub use operators::*;
pub use origins::*;
pub use process::*;
pub use requests::*;
pub use responses::*;
