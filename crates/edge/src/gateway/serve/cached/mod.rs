//! Serves the requests of a route with a cache: looks the response up, serves it, or asks the origin and stores what it answers.
//!
//! The limits come first: a rejected request never gets here. The flow is [`ProxySession::serve_cached`]:
//!
//! 1. Look up ([`lookup`]). Of several requests for a response that is missing, one gets a permit to fetch it; the others wait for it.
//! 2. A stored response that is fresh, or may be stale, is sent ([`send`]), cut to the part that the client asked for ([`part`]). While a
//!    stale one is sent, a task of its own asks the origin again ([`refresh`]).
//! 3. Otherwise the origin is asked for the whole response ([`question`]), whose head is judged ([`judge`]): it confirms the stored
//!    response, is a failure in whose place the stale one is sent, or passes to the client while its body is stored ([`tap`]).
//!
//! Charges are settled by the response that the client gets, with its source, before its head is written.
//!
//! # Invariants
//! 1. The permit to fetch is in the transaction, then in the fill of the body. Dropped with either, it lets another request fetch.

mod judge;
mod lookup;
mod part;
mod question;
mod refresh;
mod send;
mod tap;
mod transaction;

use sluicegate_base::clock;

use super::client::RequestClient;
use super::session::ProxySession;
use crate::gateway::cache;
use sluicegate_cache::memory_storage::StoredResponse;
use sluicegate_cache::moment;
use sluicegate_decide::admission::ResponseSource;
use sluicegate_origin::request_failure::{RequestFailure, Result};

pub(super) use part::ClientPart;
pub(super) use question::{ask_for_whole, sent_method};
pub(super) use tap::{BodyFill, BodyTap};
pub(crate) use transaction::CacheTransaction;

use transaction::{CacheProgress, StoredValidation};

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Serves an admitted request of a route with a cache.
    pub(super) async fn serve_cached(&mut self) -> Result<()> {
        let served = self.serve_or_fetch().await;
        if let Some(transaction) = &mut self.forwarded.cached {
            // Nobody waits while a failure is answered.
            transaction.permit = None;
        }
        served
    }

    async fn serve_or_fetch(&mut self) -> Result<()> {
        self.look_up().await?;
        if let Some(stored) = self.stored_to_send() {
            return self.send_stored(ResponseSource::Cache, stored).await;
        }
        if let Some(transaction) = &mut self.forwarded.cached
            && transaction.forbids_asking()
        {
            transaction.progress = CacheProgress::Refused;
            let answer = cache::not_stored(self.exchange.head, self.context);
            return self.exchange.answer(answer, self.context).await;
        }
        if let Err(failure) = self.forward().await
            && !self.turns_stale(&failure)
        {
            return Err(failure);
        }
        match self.stored_to_send() {
            Some(stored) => self.send_stored(ResponseSource::Origin, stored).await,
            None => Ok(()),
        }
    }

    /// Returns the stored response that the client gets, and how it was validated; `None` where the client gets that of the origin.
    fn stored_to_send(&self) -> Option<(StoredResponse, StoredValidation)> {
        self.forwarded.cached.as_deref()?.stored_to_send()
    }

    /// Decides whether a stale response is sent instead of this failure: RFC 5861 §4.
    fn turns_stale(&mut self, failure: &RequestFailure) -> bool {
        let Some(transaction) = &mut self.forwarded.cached else {
            return false;
        };
        let stored = transaction.revalidated().map(|stored| &stored.head);
        let is_allowed = stored.is_some_and(|head| head.serves_on_error(moment(clock::wall())));
        let is_unanswered = self.exchange.status.is_none();
        let turns = is_allowed && is_unanswered && matches!(failure, RequestFailure::Origin(_));
        if turns {
            transaction.progress = CacheProgress::Stale;
            transaction.permit = None;
        }
        turns
    }
}
