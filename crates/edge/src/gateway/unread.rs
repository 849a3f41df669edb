//! Acquires a permit for the unread bytes of an answer ([`ClientBytes`]), as soon as it may need one.
//!
//! An answer with an announced length acquires it with its head, so that its client gets 503 when there is none. An answer of
//! unknown length may be large, or a stream of small events that is always read at once; it acquires a permit while its pieces
//! come faster than the client reads, and is cut off where there is none. An encoder acquires one of its own, of whatever answer; without
//! one the answer is sent uncompressed. A small answer, a stored one and one of the gateway's own acquire a permit while a piece of them
//! waits.
//!
//! [`ClientBytes`]: sluicegate_budgets::ClientBytes

use std::net::IpAddr;

use http::Version;
use sluicegate_base::bounds::{
    ANSWER_OVERHEAD, ANSWER_STREAM, CLIENT_TLS, ORIGIN_TLS, PENDING_ANSWER, SMALL_ANSWER,
    UNTAKEN_PIECE,
};

use super::context::Context;
use super::forwarded::ForwardedRequest;
use super::http_versions::has_streams;
use sluicegate_budgets::BytesPermit;
use sluicegate_origin::request_failure::{GatewayFailure, Result};
use sluicegate_process::SharedState;

/// Acquires the permit of an origin's answer that has content, for a client of this version, if it announces its length.
///
/// # Errors
/// No permit is free.
pub(super) fn reserve_announced(
    shared: &SharedState,
    client: Version,
    forwarded: &mut ForwardedRequest,
    context: &Context,
) -> Result<()> {
    match forwarded.attempt.announced_length() {
        Some(bytes) => enter(shared, (client, Some(bytes)), forwarded, context),
        None => Ok(()),
    }
}

/// A piece of an answer that its client does not take at once.
#[derive(Clone, Copy)]
pub(super) struct UntakenPiece {
    /// The version of the client.
    pub(super) client: Version,
    pub(super) bytes: usize,
    /// Bytes that may come behind it meanwhile.
    pub(super) behind: usize,
}

/// Acquires a permit for an answer that has none, of which this piece waits. A small one needs none, unless more may come behind it.
///
/// # Errors
/// No permit is free.
pub(super) fn reserve_piece(
    shared: &SharedState,
    piece: UntakenPiece,
    forwarded: &mut ForwardedRequest,
    context: &Context,
) -> Result<()> {
    if forwarded.unread.is_some() {
        return Ok(());
    }
    match forwarded.attempt.announced_length() {
        None if piece.bytes + piece.behind >= UNTAKEN_PIECE => {
            enter(shared, (piece.client, None), forwarded, context)
        }
        // A small answer.
        Some(_) if piece.bytes >= UNTAKEN_PIECE => {
            let bytes = piece.bytes as u64 + PENDING_ANSWER;
            reserve(shared, bytes, forwarded, context)
        }
        None | Some(_) => Ok(()),
    }
}

/// Releases the permit of an answer that needs one only while its client does not take a piece, once the client took it.
pub(super) fn release_piece(forwarded: &mut ForwardedRequest) {
    let is_reserved = |bytes| bytes > SMALL_ANSWER;
    if !(forwarded.attempt.announced_length()).is_some_and(is_reserved) {
        forwarded.unread = None;
    }
}

/// Acquires a permit for an answer of the gateway's own, or a stored one, of which the client at `address` does not take so many bytes at
/// once; `None` for a small piece.
///
/// # Errors
/// No permit is free.
pub(super) fn reserve_pending(
    shared: &SharedState,
    address: IpAddr,
    bytes: usize,
) -> Result<Option<BytesPermit>> {
    if bytes < UNTAKEN_PIECE {
        return Ok(None);
    }
    let snapshot = shared.snapshot();
    let rules = &snapshot.compiled.rules;
    let account = shared.accounts.find(address, &rules.client);
    let budget = &shared.unread_answers;
    let defence = &rules.server.defence;
    let bytes = bytes as u64 + PENDING_ANSWER;
    let configured = defence.max_unread_bytes;
    let permit = budget
        .enter(&account, bytes, configured)
        .map_err(|cap| GatewayFailure::UnreadAnswers(cap, budget.most(configured)))?;
    Ok(Some(permit))
}

/// Acquires a permit for an encoder of so many bytes; `None` where none is free, which is counted.
pub(super) fn reserve_encoder(
    shared: &SharedState,
    bytes: u64,
    forwarded: &ForwardedRequest,
    context: &Context,
) -> Option<BytesPermit> {
    let budget = &shared.unread_answers;
    let most = budget.most(
        context
            .snapshot
            .compiled
            .rules
            .server
            .defence
            .max_unread_bytes,
    );
    // Half of the room is for the answers themselves: without an encoder an answer is sent all the same.
    let entered = budget.try_enter(&forwarded.account, bytes, Some(most / 2));
    entered
        .inspect_err(|cap| shared.uncompressed.count(*cap))
        .ok()
}

fn enter(
    shared: &SharedState,
    (client, body): (Version, Option<u64>),
    forwarded: &mut ForwardedRequest,
    context: &Context,
) -> Result<()> {
    let way = AnswerWay {
        ahead: forwarded.attempt.ahead(),
        stream: has_streams(client),
        client_tls: context.secured.is_some(),
        origin_tls: forwarded.pool.rules.transport.tls.is_some(),
    };
    let bytes = held_by(body, &way);
    if bytes == 0 {
        forwarded.unread = None;
        return Ok(());
    }
    reserve(shared, bytes, forwarded, context)
}

fn reserve(
    shared: &SharedState,
    bytes: u64,
    forwarded: &mut ForwardedRequest,
    context: &Context,
) -> Result<()> {
    let defence = &context.snapshot.compiled.rules.server.defence;
    let budget = &shared.unread_answers;
    let configured = defence.max_unread_bytes;
    let permit = budget
        .enter(&forwarded.account, bytes, configured)
        .map_err(|cap| GatewayFailure::UnreadAnswers(cap, budget.most(configured)))?;
    forwarded.unread = Some(permit);
    Ok(())
}

/// The parts of the way of an answer in which bytes of it are while its client does not read.
#[derive(Clone, Copy)]
struct AnswerWay {
    /// Bytes of memory for what comes before the client has taken it.
    ahead: u64,
    /// True if it waits in a stream to the client.
    stream: bool,
    /// True if the client has TLS.
    client_tls: bool,
    /// True if the origin has TLS.
    origin_tls: bool,
}

impl AnswerWay {
    /// Returns how many bytes of the answer they hold at most.
    fn most(&self) -> u64 {
        let part = |is_there, bytes| if is_there { bytes } else { 0 };
        self.ahead
            + part(self.stream, ANSWER_STREAM)
            + part(self.client_tls, CLIENT_TLS)
            + part(self.origin_tls, ORIGIN_TLS)
    }
}

/// Returns how many bytes an answer with such a body may come to hold on its way; `None` for a body of unknown length. A small answer holds
/// none. An encoder has a permit of its own.
fn held_by(body: Option<u64>, way: &AnswerWay) -> u64 {
    let most = way.most();
    match body {
        Some(body) if body <= SMALL_ANSWER => 0,
        Some(body) => body.min(most) + ANSWER_OVERHEAD,
        None => most + ANSWER_OVERHEAD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an answer reserves its maximum, in clear text over HTTP/1.1 less than 128 KiB. Method: lengths around the bounds, and ways of
    /// all kinds.
    #[test]
    fn an_answer_takes_what_it_may_hold() {
        let plain = AnswerWay {
            ahead: 64 * 1024,
            stream: false,
            client_tls: false,
            origin_tls: false,
        };
        let stream = AnswerWay {
            stream: true,
            ..plain
        };
        let secured = AnswerWay {
            client_tls: true,
            origin_tls: true,
            ..stream
        };
        for (way, most) in [(plain, 110), (stream, 142), (secured, 240)] {
            let most = most * 1024;
            assert_eq!(held_by(Some(SMALL_ANSWER), &way), 0);
            assert_eq!(held_by(Some(30_000), &way), 30_000 + ANSWER_OVERHEAD);
            assert_eq!(held_by(Some(u64::MAX), &way), most);
            assert_eq!(held_by(None, &way), most);
        }
    }
}
