//! Answers who comes to check that a name is this gateway's: HTTP-01 of RFC 8555 §8.3.
//!
//! Before lists, routes and limits, and before clear text is sent on to https: the check comes from addresses that nobody knows beforehand,
//! and none of the operator's rules may turn it away. Only what is pending is answered here; every other path below
//! `/.well-known/acme-challenge/` is an origin's own, which may have an ACME client too.

use std::sync::Arc;

use http::Method;
use pingora::Result;
use pingora::proxy::Session;

use super::answer;
use super::context::Context;
use crate::client::AddressSource;
use crate::process::SharedState;
use crate::record::Disposition;

/// The proof that a request asks for; `None` for every request that is none of an ACME server's.
pub(super) fn wanted(shared: &SharedState, session: &Session) -> Option<Arc<str>> {
    let head = session.req_header();
    if head.method != Method::GET {
        return None;
    }
    shared.acme.answers.answer(head.uri.path())
}

/// Shows it.
pub(super) async fn show(session: &mut Session, context: &mut Context, proof: &str) -> Result<()> {
    let peer = session.client_addr().and_then(|address| address.as_inet());
    context.peer = peer.copied();
    context.client = Some((context.peer_address(), AddressSource::Connection));
    context.disposition = Some(Disposition::Responded);
    answer::prove(session, context, proof).await
}
