//! The stages of the gateway that decide a request, without sockets and without a runtime.
//!
//! A request is what its bytes, its connection and the time say, and all of these are arguments: [`client`] finds who asks, [`route`] finds
//! the route, [`admission`] evaluates its limits and [`store`] those that several nodes count, [`activation`] says which apply under the
//! load that [`load_monitor`] reads, [`challenge`] makes and checks what a browser over a limit solves, and [`temporary_rules`] has what an
//! operator set for a time. [`compiled_rules`] has one configuration in the form that requests are decided by, and [`locate`] finds client
//! and route of a [`request_head`]. [`state`] opens the tables that limits count in. [`rejection`] has the reasons why a request is not
//! forwarded, [`outcome`] the names of results, [`own_failure`] the failures for which no origin is to blame. [`response`] makes the
//! answers and edits those of origins; [`policy_items`] and [`retry_after`] write what an answer says of a limit. [`trace_fields`] has the
//! names of a trace's fields.
//!
//! The crate opens no connection, and depends on neither tokio nor Pingora. Its only files are those of temporary rules and of counters,
//! and it reads no clock for a request: [`state`] reads the one that such files are kept by.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod activation;
pub mod admission;
pub mod challenge;
pub mod client;
pub mod compiled_rules;
pub mod in_force;
pub mod load_monitor;
pub mod locate;
pub mod outcome;
pub mod own_failure;
pub mod policy_items;
pub mod reading_window;
pub mod rejection;
pub mod replaced_file;
pub mod request_head;
pub mod request_id;
pub mod response;
pub mod retry_after;
pub mod rfc3339;
pub mod route;
pub mod state;
pub mod store;
pub mod temporary_rules;
pub mod trace_fields;
pub mod url_scheme;
