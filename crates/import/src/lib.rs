//! Translates configurations of other proxies into a configuration of Sluicegate.
#![forbid(unsafe_code)]

pub mod bounds;
