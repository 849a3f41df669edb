//! Finds HTTP-01 challenges, by which an ACME server checks that a name is this gateway's: RFC 8555 §8.3.
//!
//! It runs before lists, routes and limits, and before the redirect to https: the check comes from addresses that are not known
//! beforehand, and no rule of the operator may reject it. Only pending challenges are answered here; every other path below
//! `/.well-known/acme-challenge/` goes to an origin, which may have an ACME client too.

use std::sync::Arc;

use http::Method;
use sluicegate_base::received::ReceivedHead;

use sluicegate_process::SharedState;

/// Returns the proof that a request asks for; `None` for all but challenges of an ACME server.
pub(super) fn wanted(shared: &SharedState, head: &ReceivedHead) -> Option<Arc<str>> {
    if head.method != Method::GET {
        return None;
    }
    shared.acme.answers.answer(head.uri.path())
}
