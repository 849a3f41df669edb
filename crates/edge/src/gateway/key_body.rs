//! Acquires a permit for the bytes of a body that is read for the keys of limits ([`ClientBytes`]), before they are read.
//!
//! The body comes as slowly as its client sends it, before any limit has decided, and stays until its request ends. So a request reserves
//! what its body may hold, with the buffer that it is read into: what is announced, or else the maximum that is read; once the body is
//! here, what it holds.
//!
//! [`ClientBytes`]: sluicegate_budgets::ClientBytes

use super::body::with_read_buffer;
use super::context::Context;
use sluicegate_budgets::ClientAccount;
use sluicegate_origin::request_failure::{GatewayFailure, Result};
use sluicegate_process::SharedState;

/// Copies of a body that are held: one for the keys, one for the origin.
const COPIES: u64 = 2;

/// Acquires a permit for a body of at most so many bytes, from this account.
///
/// # Errors
/// No permit is free.
pub(super) fn reserve(
    shared: &SharedState,
    account: &ClientAccount,
    bytes: u64,
    context: &mut Context,
) -> Result<()> {
    let defence = &context.snapshot.compiled.rules.server.defence;
    let budget = &shared.key_bodies;
    let configured = defence.max_key_bodies_bytes;
    let held = with_read_buffer(COPIES, bytes);
    let permit = budget
        .enter(account, held, configured)
        .map_err(|cap| GatewayFailure::KeyBodies(cap, budget.most(configured)))?;
    context.key_body = Some(permit);
    Ok(())
}

/// Releases what a body of so many bytes does not hold.
pub(super) fn shrink_to(bytes: u64, context: &mut Context) {
    if let Some(permit) = &mut context.key_body {
        permit.shrink(with_read_buffer(COPIES, bytes));
    }
}
