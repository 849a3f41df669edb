//! Looks a response up: finds the variant of the request, decides whether it may be sent, and waits for another request that fetches it.
//!
//! # Limits
//! A request waits for at most [`FILL_PATIENCE`](bounds::FILL_PATIENCE) in all, and looks at most [`LOOKS`] times; then it goes to the
//! origin, and stores nothing.

use std::ops::ControlFlow;

use pingora::cache::CacheKey;
use sluicegate_base::received::ReceivedFields;
use sluicegate_base::{bounds, clock};
use sluicegate_http1::BodyFraming;

use super::super::client::RequestClient;
use super::super::session::ProxySession;
use super::transaction::{CacheProgress, CacheTransaction, OriginQuestion};
use crate::gateway::cache;
use sluicegate_cache::fill_lock::{FillReason, FillTurn, FillWaitEnd};
use sluicegate_cache::freshness::CacheAudience;
use sluicegate_cache::memory_storage::{MemoryStorage, StoredResponse};
use sluicegate_cache::request_directives::{FreshnessLeft, RequestCacheControl, StoredUse};
use sluicegate_cache::status::ForwardReason;
use sluicegate_cache::{moment, vary};
use sluicegate_origin::request_failure::{ClientFailure, Result};

/// Lookups of one request: the first one, and one after each of two waits.
const LOOKS: usize = 3;

/// The use of what was found.
enum FoundUse {
    /// It is sent.
    Send(StoredResponse),
    /// It is stale, or the request wants it confirmed.
    Confirm(StoredResponse),
    /// There is none.
    Fetch,
    /// There is one that is not shared with this request, so no other request waits for its response either.
    FetchAlone,
}

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Looks up the response to a request, and begins the transaction.
    ///
    /// # Errors
    /// The client left while its request waited for another one.
    pub(super) async fn look_up(&mut self) -> Result<()> {
        let Some(rules) = &self.forwarded.route.cache else {
            return Ok(());
        };
        let request = self.exchange.head;
        let fields = &request.headers;
        let challenges = &self.context.snapshot.compiled.challenge_cookies;
        let audience = CacheAudience::from_fields(fields, rules.cookies, challenges);
        let directives = RequestCacheControl::new(fields, rules.ignore_client_no_cache);
        let mut transaction = Box::new(CacheTransaction::new(audience, directives));
        let has_body = !matches!(
            self.exchange.body.framing,
            BodyFraming::None | BodyFraming::Length(0)
        );
        let is_looked_up =
            !has_body && cache::is_storable(request) && !directives.forbids_storing();
        if is_looked_up {
            let key = cache::key_of(request, (&self.forwarded.route, rules), self.context);
            if self
                .gateway
                .0
                .cache
                .predictor(audience)
                .cacheable_prediction(&key)
            {
                self.look_until_decided(key, &mut transaction).await?;
            } else {
                transaction.progress = CacheProgress::Skipped;
                transaction.key = Some(key);
            }
        }
        self.forwarded.cached = Some(transaction);
        Ok(())
    }

    /// Looks up, and waits for other requests that fetch the same response, until the course of the request is decided.
    async fn look_until_decided(
        &mut self,
        mut key: CacheKey,
        transaction: &mut CacheTransaction,
    ) -> Result<()> {
        let cache = self.gateway.0.cache;
        let challenges = &self.context.snapshot.compiled.challenge_cookies;
        let fields = &*challenges.site_fields(&self.exchange.head.headers);
        let mut patience = bounds::FILL_PATIENCE;
        for _ in 0..LOOKS {
            let stale = match look(&cache.storage, &mut key, transaction, fields) {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(stale) => stale,
            };
            let reason = stale
                .as_ref()
                .map_or(FillReason::Missing, |_| FillReason::Stale);
            let turn = cache.take_turn(&key, reason);
            let stale = match &turn {
                // The request that had the turn before may have stored the response since the lookup.
                FillTurn::Fetch(_) => match look(&cache.storage, &mut key, transaction, fields) {
                    ControlFlow::Break(()) => return Ok(()),
                    ControlFlow::Continue(stale) => stale,
                },
                FillTurn::Wait(_) => stale,
            };
            if let Some(stored) = stale
                .as_ref()
                .filter(|stored| transaction.may_send_stale(stored))
            {
                transaction.progress = CacheProgress::Stale;
                transaction.stored = Some(stored.clone());
                if let FillTurn::Fetch(permit) = turn {
                    self.refresh_in_background(key, permit, transaction);
                }
                return Ok(());
            }
            match turn {
                FillTurn::Fetch(permit) => {
                    transaction.permit = Some(permit);
                    transaction.ask(key, stale);
                    return Ok(());
                }
                FillTurn::Wait(wait) => {
                    transaction.has_waited = true;
                    let began = clock::now();
                    let end = tokio::select! {
                        end = wait.end(patience) => end,
                        () = self.exchange.client.left() => return Err(ClientFailure::LeftFetch.into()),
                    };
                    patience = patience.saturating_sub(clock::since(began));
                    if end == FillWaitEnd::GiveUp {
                        break;
                    }
                }
            }
        }
        transaction.progress = CacheProgress::GaveUp;
        Ok(())
    }
}

impl CacheTransaction {
    /// Asks the origin for the whole response, or to confirm the stored one.
    pub(super) fn ask(&mut self, key: CacheKey, stored: Option<StoredResponse>) {
        let reason = match stored {
            Some(_) => ForwardReason::Stale,
            None => ForwardReason::Miss,
        };
        self.progress = CacheProgress::Asking(reason);
        self.question = OriginQuestion::Whole;
        self.key = Some(key);
        self.stored = stored;
    }

    /// Returns whether a stale response may be sent while the origin is asked again.
    fn may_send_stale(&self, stored: &StoredResponse) -> bool {
        let now = moment(clock::wall());
        stored.head.serves_while_revalidated(now) && !self.directives.is_strict()
    }
}

/// Looks once. Breaks where the request needs no turn, else continues with the stored response that is to be confirmed, if
/// there is one.
fn look(
    storage: &MemoryStorage,
    key: &mut CacheKey,
    transaction: &mut CacheTransaction,
    request: &ReceivedFields,
) -> ControlFlow<(), Option<StoredResponse>> {
    let found = find(storage, key, request);
    match use_of(found, transaction) {
        FoundUse::Send(stored) => {
            transaction.progress = CacheProgress::Hit;
            transaction.stored = Some(stored);
            ControlFlow::Break(())
        }
        FoundUse::FetchAlone => {
            transaction.ask(key.clone(), None);
            ControlFlow::Break(())
        }
        FoundUse::Confirm(stored) => ControlFlow::Continue(Some(stored)),
        FoundUse::Fetch => ControlFlow::Continue(None),
    }
}

/// Finds the stored response of the variant that these fields, without cookies of challenges, ask for, and sets that variant in the key.
fn find(
    storage: &MemoryStorage,
    key: &mut CacheKey,
    request: &ReceivedFields,
) -> Option<StoredResponse> {
    key.remove_variance_key();
    let first = storage.get(key)?;
    let variance = vary::variance(first.head.fields(), request);
    if variance.is_none() || first.head.variance() == variance {
        return Some(first);
    }
    key.set_variance_key(variance?);
    let variant = storage.get(key)?;
    (!variant.head.is_before(&first.head)).then_some(variant)
}

/// Decides by the request's directives how the stored response is used.
fn use_of(found: Option<StoredResponse>, transaction: &CacheTransaction) -> FoundUse {
    let Some(stored) = found else {
        return FoundUse::Fetch;
    };
    let head = &stored.head;
    if !transaction.audience.shares(head.fields()) {
        return FoundUse::FetchAlone;
    }
    let age = cache::age_of((head.born(), head.fresh_until()), head.fields());
    match transaction.directives.fit(age) {
        StoredUse::Enough => FoundUse::Send(stored),
        StoredUse::AsStored if matches!(age.freshness, FreshnessLeft::Left(_)) => {
            FoundUse::Send(stored)
        }
        StoredUse::AsStored | StoredUse::Confirm => FoundUse::Confirm(stored),
    }
}
