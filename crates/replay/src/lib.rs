//! Replays logged requests under a configuration: who would have been rejected, by which limit, and when.
//!
//! Requests run through the stages of live ones, from [`locate`](sluicegate_decide::locate::locate) to
//! [`evaluate`](sluicegate_decide::admission::evaluate), at the times of the log. There is no second limiter: `ReplayEngine` compiles the
//! rules as a gateway would, and only leaves out what no log can judge (`LogCoverage` says what, and why). Stores are not
//! asked: a limit that counts with other gateways counts as if one gateway had served the whole log.
//!
//! # Limits
//! The tables of the limits have the size that the configuration gives them. Each limit's counts by key are exact for
//! `MAX_KEYS` keys; later keys are counted together. At most
//! `MAX_IN_FLIGHT` requests wait for their end.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod compare;
mod conditions;
mod coverage;
mod decision_log;
mod engine;
mod html;
mod in_flight;
mod key_counts;
mod key_text;
mod limit_counts;
mod logged_client;
mod logged_costs;
mod logged_head;
mod prepare;
mod recorded_templates;
mod report;
mod route_decisions;
mod route_tallies;
mod run;
mod skipped_lines;
mod suggest;
mod text;
mod timeline;

pub use decision_log::DecisionLog;
pub use html::HtmlReport;
pub use report::ReplayReport;
pub use run::{ReplayConfig, ReplayRun};
pub use suggest::{
    ConfigSuggestion, LimitSuggestion, NoSuggestion, PeriodSuggestion, SampleConfidence,
    SuggestError, SuggestLogs, SuggestQuestion, SuggestReport, SuggestedLimit, UsedPeriod, suggest,
    suggest_config,
};
