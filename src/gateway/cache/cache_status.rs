//! Reports how the cache was used for an answer: to the client in `Cache-Status` (RFC 9211), and to the record.

use std::time::Duration;

use pingora::Result;
use pingora::cache::{CachePhase, HttpCache, NoCacheReason};
use pingora::proxy::Session;
use sluicegate_base::clock;

use super::Lookup;
use crate::cache::moment;
use crate::cache::status::{CACHE_STATUS, CacheState, Coalescing, ForwardReason, StoreResult};
use crate::gateway::Context;
use crate::origin::HeaderEdit;
use crate::record::CacheUse;

/// Adds `Cache-Status` to the answer.
pub(in crate::gateway) fn write_status(
    session: &Session,
    fields: &mut dyn HeaderEdit,
    context: &Context,
) -> Result<()> {
    let Some(dealings) = &context.cache else {
        return Ok(());
    };
    let status = status(&session.cache, dealings.lookup);
    fields.append(CACHE_STATUS, status.value())
}

fn status(cache: &HttpCache, lookup: Lookup) -> CacheState {
    let waited = cache.lock_duration().is_some();
    let company = if waited {
        Coalescing::InVain
    } else {
        Coalescing::Alone
    };
    let fetched = |why, fate| CacheState::Fetched(why, fate, company);
    match cache.phase() {
        CachePhase::Hit if waited => CacheState::Collapsed,
        CachePhase::Hit | CachePhase::Stale | CachePhase::StaleUpdating => {
            let now = moment(clock::wall());
            let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
            CacheState::Hit(match cache.cache_meta().fresh_until().duration_since(now) {
                Ok(left) => seconds(left),
                Err(over) => -seconds(over.duration()).max(1),
            })
        }
        CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => CacheState::Confirmed,
        CachePhase::Miss if lookup == Lookup::Skipped => {
            fetched(ForwardReason::Bypass, StoreResult::Stored)
        }
        CachePhase::Miss => fetched(ForwardReason::Miss, StoreResult::Stored),
        CachePhase::Expired => fetched(ForwardReason::Stale, StoreResult::Stored),
        CachePhase::Disabled(NoCacheReason::NeverEnabled) | CachePhase::Bypass => {
            fetched(ForwardReason::Bypass, StoreResult::Passed)
        }
        _ if lookup == Lookup::Skipped => fetched(ForwardReason::Bypass, StoreResult::Passed),
        _ => fetched(ForwardReason::Miss, StoreResult::Passed),
    }
}

/// Returns how the cache was used, for the record; `None` where the route has no cache.
pub(in crate::gateway) fn cache_use(session: &Session, context: &Context) -> Option<CacheUse> {
    context.cache.as_ref()?;
    Some(match session.cache.phase() {
        CachePhase::Hit => CacheUse::Hit,
        CachePhase::Stale | CachePhase::StaleUpdating => CacheUse::Stale,
        CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => CacheUse::Revalidated,
        CachePhase::Miss | CachePhase::Expired => CacheUse::Miss,
        CachePhase::Disabled(NoCacheReason::DeclinedToUpstream) => CacheUse::Miss,
        _ => CacheUse::Bypass,
    })
}
