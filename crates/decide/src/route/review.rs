//! Reviews the routes of a file together, while the file is read.

use sluicegate_config::RouteReport;

use super::{loopholes, overlap};

/// Reports routes that no request reaches, routes whose limits a request escapes, and more expressions than one automaton has room for.
pub fn review(report: &RouteReport<'_>) {
    overlap::check(report);
    loopholes::check(report);
    overlap::check_regexes(report);
}
