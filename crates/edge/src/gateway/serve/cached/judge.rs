//! Judges the head of the origin's response: whether it confirms the stored response, fails, or is stored itself.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};
use pingora::http::ResponseHeader;
use sluicegate_base::clock;

use super::super::client::RequestClient;
use super::super::head_writer::ResponseParts;
use super::super::session::ProxySession;
use super::tap::BodyFill;
use super::transaction::{CacheProgress, CacheTransaction};
use crate::gateway::context::Context;
use crate::gateway::{Gateway, cache};
use sluicegate_cache::freshness::BodyState;
use sluicegate_cache::name_case::ReceivedNames;
use sluicegate_cache::status::ForwardReason;
use sluicegate_cache::{moment, vary};
use sluicegate_origin::request_failure::Result;
use sluicegate_process::snapshot::ActiveRoute;

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Decides whether the stored response is sent instead of the origin's, whose status, fields and names these are: after a 304, or
    /// after a failure, RFC 5861 §4.
    pub(in super::super) fn sends_stored(
        &mut self,
        status: StatusCode,
        (fields, names): (&HeaderMap, &ReceivedNames),
    ) -> Result<bool> {
        let forwarded = &mut *self.forwarded;
        let Some(transaction) = &mut forwarded.cached else {
            return Ok(false);
        };
        let Some(stored) = transaction.revalidated() else {
            return Ok(false);
        };
        if status == StatusCode::NOT_MODIFIED {
            let gateway = self.gateway;
            let route = &forwarded.route;
            return gateway.confirm((fields, names), transaction, route, self.context);
        }
        let now = moment(clock::wall());
        let is_replaced = cache::is_failure(status.as_u16())
            && stored.head.serves_on_error(now)
            && self.exchange.status.is_none();
        if is_replaced {
            transaction.progress = CacheProgress::Stale;
            transaction.permit = None;
        }
        Ok(is_replaced)
    }

    /// Decides whether the origin's response is stored, and begins to store it.
    pub(in super::super) fn begin_fill(
        &mut self,
        (head, names): (&ResponseParts<'_>, &ReceivedNames),
        body: BodyState,
    ) -> Result<Option<Box<BodyFill>>> {
        let request = self.exchange.head;
        let forwarded = &mut *self.forwarded;
        let context = &*self.context;
        let cache = self.gateway.0.cache;
        let Some(transaction) = &mut forwarded.cached else {
            return Ok(None);
        };
        let audience = transaction.audience;
        let progress = transaction.progress;
        let reason = match progress {
            CacheProgress::Asking(reason) => reason,
            CacheProgress::Skipped => ForwardReason::Bypass,
            _ => return Ok(None),
        };
        let route = &forwarded.route;
        let judged = cache::storable_head((header_of(head)?, body), audience, route, context);
        let room = cache::max_object(route, context);
        let predictor = cache.predictor(audience);
        let Some(key) = &transaction.key else {
            return Ok(None);
        };
        let mut head = match judged {
            Ok(head) => head,
            Err(_) if progress == CacheProgress::Skipped => return Ok(None),
            Err(why) => {
                let _ = predictor.mark_uncacheable(key, why);
                if let Some(permit) = transaction.permit.take() {
                    permit.not_storable();
                }
                transaction.progress = CacheProgress::NotStored(reason);
                return Ok(None);
            }
        };
        if progress == CacheProgress::Skipped {
            let _ = predictor.mark_cacheable(key);
            // The origin got the request as it was sent, so this may be less than the whole.
            if request.method != Method::GET || head.status() != StatusCode::OK {
                return Ok(None);
            }
        }
        head.set_names(names.clone());
        let site = (context.snapshot.compiled.challenge_cookies).site_fields(&request.headers);
        let variance = vary::variance(head.fields(), &site);
        head.set_variance(variance);
        let mut key = key.clone();
        if key.get_variance_key().copied() != variance {
            // Its `Vary` is another one than before, so it becomes the first variant of its URL.
            key.remove_variance_key();
        }
        let replaced = transaction.stored.take();
        if let Some(replaced) = replaced.filter(|replaced| replaced.head.variance() == variance) {
            head.replace(&replaced.head);
        }
        transaction.progress = CacheProgress::Storing(reason);
        Ok(Some(Box::new(BodyFill {
            writer: cache.storage.write(&key, head),
            permit: transaction.permit.take(),
            room,
            key,
            predictor,
        })))
    }
}

impl Gateway {
    /// Updates the stored response by the fields of a 304, RFC 9111 §4.3.4. Returns whether there is one.
    fn confirm(
        &self,
        (fields, names): (&HeaderMap, &ReceivedNames),
        transaction: &mut CacheTransaction,
        route: &ActiveRoute,
        context: &Context,
    ) -> Result<bool> {
        let audience = transaction.audience;
        let (Some(stored), Some(key)) = (&mut transaction.stored, &transaction.key) else {
            return Ok(false);
        };
        let mut fields = fields.clone();
        for name in route.compiled.limits.confidential() {
            fields.remove(name);
        }
        let old = Arc::clone(&stored.head);
        let mut header = old.header().clone();
        cache::update(&mut header, &fields)?;
        let names = old.names().updated(names, &header.headers);
        let updated = header.clone();
        let body = BodyState::Stored;
        let judged = cache::storable_head((updated, body), audience, route, context);
        let permit = transaction.permit.take();
        match judged {
            Ok(mut head) => {
                head.succeed(&old);
                head.set_names(names);
                stored.head = Arc::new(head);
                // Where it was evicted or purged meanwhile, this client alone gets it.
                let _ = self.0.cache.storage.update(key, Arc::clone(&stored.head));
                if let Some(permit) = permit {
                    permit.stored();
                }
            }
            Err(reason) => {
                // The origin has confirmed it for this client, and the update says that it may not be stored.
                let mut head = old.with_header(header);
                head.set_names(names);
                stored.head = Arc::new(head);
                let _ = self
                    .0
                    .cache
                    .predictor(audience)
                    .mark_uncacheable(key, reason);
                if let Some(permit) = permit {
                    permit.not_storable();
                }
            }
        }
        transaction.progress = CacheProgress::Confirmed;
        Ok(true)
    }
}

/// Returns the head to store.
fn header_of(head: &ResponseParts<'_>) -> Result<ResponseHeader> {
    let fields = &head.fields;
    let mut header = ResponseHeader::build_no_case(head.status, Some(fields.len()))?;
    for (name, value) in fields {
        header.append_header(name.clone(), value.clone())?;
    }
    if head.status == StatusCode::NO_CONTENT {
        // RFC 9110 §8.6: it must not have one, and no body would be as long.
        header.remove_header(&CONTENT_LENGTH);
    }
    if let Ok(reason) = str::from_utf8(head.reason) {
        header.set_reason_phrase(Some(reason))?;
    }
    Ok(header)
}
