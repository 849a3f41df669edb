//! Acquires a permit for the head of a request that waits ([`ClientBytes`]), where it is larger than most.
//!
//! A head stays in memory until its request ends, so an origin that hangs would let one client hold as many large heads as it may have
//! requests. It takes room among the bytes that the gateway has received, of the client that the head names.
//!
//! # Limits
//! Heads of at most [`HEAD_READ`] bytes count nowhere: the bounds on connections and streams are bounds on them.
//!
//! [`ClientBytes`]: sluicegate_budgets::ClientBytes

use std::borrow::Cow;

use sluicegate_base::bounds::HEAD_READ;
use sluicegate_base::received::ReceivedHead;

use super::context::Context;
use sluicegate_budgets::{BytesPermit, ClientAccount};
use sluicegate_origin::request_failure::{GatewayFailure, Result};
use sluicegate_process::SharedState;

/// Acquires a permit for this head, from the account of its client; `None` for one that needs none.
///
/// # Errors
/// No permit is free.
pub(super) fn reserve<'a>(
    shared: &SharedState,
    head: &ReceivedHead,
    account: impl FnOnce() -> Cow<'a, ClientAccount>,
    context: &Context,
) -> Result<Option<BytesPermit>> {
    let held = head.held_bytes();
    if held <= HEAD_READ {
        return Ok(None);
    }
    let configured = context
        .snapshot
        .compiled
        .rules
        .server
        .defence
        .max_received_bytes;
    let budget = &shared.received;
    let bytes = held.next_multiple_of(HEAD_READ) as u64;
    let permit = budget
        .enter(&account(), bytes, configured)
        .map_err(|cap| GatewayFailure::LargeHeads(cap, budget.most(configured)))?;
    Ok(Some(permit))
}
