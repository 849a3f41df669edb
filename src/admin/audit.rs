//! Writes a line to the process log for each change by an operator: the object, the operator, and the change.

use std::fmt::Display;

use http::StatusCode;
use http::request::Parts;
use tracing::{info, warn};

use super::{AdminPage, Operator};

/// Logs a change.
pub(super) fn note(subject: &dyn Display, operator: &Operator, act: &dyn Display) {
    info!("audit: {subject}: {} {act}", operator);
}

/// Logs a change that failed, in the infinitive, with the reason.
pub(super) fn note_failed(
    subject: &dyn Display,
    operator: &Operator,
    act: &dyn Display,
    why: &str,
) {
    warn!("audit: {subject}: {} could not {act}: {why}", operator);
}

/// Returns the page that refuses a change to a token that may only read, and logs the attempt.
pub(super) fn refuse(request: &Parts, operator: &Operator) -> AdminPage {
    let method = &request.method;
    // A query may have the values of a key.
    let path = request.uri.path();
    warn!("audit: {operator} may not {method} {path}: the role of the token is read");
    AdminPage::error(
        StatusCode::FORBIDDEN,
        "this token has the role read in [admin] token_file, and a change needs the role act",
    )
}
