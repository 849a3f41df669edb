//! Defines why a request has no proper answer.

mod kind;

pub use kind::FailureKind;
