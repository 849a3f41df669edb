//! What the studies share: traffic, those who judge it, pictures and the place in the documents where results go.
#![allow(dead_code, reason = "each study uses its part")]

pub(crate) mod contender;
pub(crate) mod document;
pub(crate) mod model;
pub(crate) mod picture;
pub(crate) mod random;
pub(crate) mod rounded;
pub(crate) mod traffic;
