//! Stage 6, what is answered: RateLimit fields, problem bodies.
//!
//! Everything here is pure and mostly made before a request comes; a refusal formats two numbers and a short list.

mod fields;
mod problem;
mod refusal;

pub use fields::{PolicyItems, rate_limit, rate_limit_policy};
pub use problem::{PROBLEM_JSON, Problem, key_missing};
pub use refusal::{Refusal, TOO_MANY_REQUESTS};
