//! Implements stage 6, the gateway's answers: RateLimit fields, problem bodies, rejections in the operator's own words.
//!
//! All of it is pure and mostly computed before a request arrives; a rejection formats two numbers and a short list.

pub mod cors;
pub mod encoding;
mod fields;
mod forward_auth_fault;
mod grpc;
mod http_violation;
mod merge;
mod negotiate;
pub mod pages;
mod problem;
mod refusal;
pub mod template;
mod wording;
mod x_rate_limit;

pub use fields::{LimitFields, RATE_LIMIT, RATE_LIMIT_POLICY, rate_limit, rate_limit_policy};
pub use forward_auth_fault::{ForwardAuthFault, OriginalPart};
pub use grpc::{GrpcDialect, GrpcStatus};
pub use http_violation::HttpViolation;
pub use merge::{MergeRule, MergedField, merge};
pub use problem::{GatewayProblem, PROBLEM_JSON, key_missing, problem_of_origin};
pub use refusal::{RefusalContext, RefusalResponse, varies};
pub use x_rate_limit::XRateLimit;
