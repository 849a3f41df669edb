//! End to end: the real gateway process, real sockets, real origins.
//!
//! One binary, so that it links once. A test starts what it needs through [`harness`], states its goal and its method in its
//! first comment, and waits only with deadlines: nothing here sleeps so that something may have happened meanwhile.
//! Limits under test use a period of an hour wherever the passing of time is not the subject. Their windows end with the hour of
//! the clock, so a test whose gateway would start in the last minute of one waits for the next.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test says what is wrong by panicking, and this crate exports nothing"
)]

mod harness;

mod accepting;
mod access_lines;
mod accounts;
mod acme;
mod actions;
mod activation;
mod administering;
mod algorithms;
mod answers;
mod bans;
mod beside;
mod bodies;
mod caching;
mod caps;
mod causes;
mod challenges;
mod chart;
mod clients;
mod command_line;
mod concurrency;
mod conditions;
mod costs;
mod crawlers;
mod crowded;
mod delays;
mod demonstration;
mod departing;
mod descriptors;
mod encoders;
mod explain;
mod fails_alone;
mod fleet;
mod forwarded_fields;
mod forwarding;
mod frameworks;
mod geo;
mod heavy_keys;
mod history;
mod http3;
mod identity;
mod importing;
mod includes;
mod inspection;
mod keys;
mod kits;
mod limits;
mod link;
mod lists;
mod load_testing;
mod matching;
mod memory;
mod monitoring;
mod names;
mod normal_forms;
mod operating;
mod operators;
mod origin_pools;
mod origins;
#[cfg(feature = "otlp")]
mod otlp;
mod overflow;
mod overrides;
mod packaging;
mod page;
mod page_forms;
mod page_incidents;
mod page_speech;
mod playground;
mod prefixes;
mod pressure;
mod process_log;
mod proxy_protocol;
mod proxying;
mod readme;
mod refusals;
mod reload;
mod replay;
mod restart;
mod secrets;
mod sent_ahead;
mod settling;
mod shaping;
mod shutdown;
mod smuggling;
#[cfg(feature = "otlp")]
mod spans;
mod spellings;
mod starting;
mod store;
mod survival;
mod syslog;
mod temporary_rule_file;
mod temporary_rule_keys;
mod temporary_rule_verdicts;
mod temporary_rules;
mod tiers;
mod tls;
mod tokens;
mod told;
mod top;
mod unread;
mod upgrade;
mod upstream;
mod usage;
mod watching;
mod who_is_it;
mod windows_by_key;
mod wire;
