//! Holds both sides of one forwarded request, which all steps from the forwarding on read and change.

use super::exchange::ClientExchange;
use crate::gateway::Gateway;
use crate::gateway::context::Context;
use crate::gateway::forwarded::ForwardedRequest;

/// A request on its way between its client and its origin, or the cache in the origin's place.
///
/// Its methods are the steps of the forwarding, in the files of those steps.
pub(super) struct ProxySession<'s, 'a, C> {
    pub(super) gateway: &'s Gateway,
    /// The client's side.
    pub(super) exchange: &'s mut ClientExchange<'a, C>,
    /// The origin's side.
    pub(super) forwarded: &'s mut ForwardedRequest,
    /// The facts that the stages before the forwarding share with it.
    pub(super) context: &'s mut Context,
}
