//! Implements the phases of Pingora's proxy: each phase is one call into a stage.
//!
//! `request_filter` decides once; Pingora calls `upstream_peer` again at each retry, which charges nothing.

mod answer;
mod attempts;
mod body;
mod cache;
mod cause;
mod context;
mod decide;
mod decision;
mod direct;
mod error;
mod fault;
mod head_only;
mod http_versions;
mod intercept;
mod labels;
mod locate;
mod max_forwards;
mod min_body_rate;
mod origin_request;
mod proof;
mod record;
mod redirect;
mod shape;
mod step;
mod strip;
mod unread;
mod upgrade_header;
mod wait;

use std::any::Any;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use pingora::cache::key::HashBinary;
use pingora::cache::storage::HitHandler;
use pingora::cache::{CacheKey, CacheMeta, ForcedFreshness, RespCacheable};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::protocols::Digest;
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, RangeType, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, Result};
use sluicegate_base::clock;

use crate::origin::{edit_response, strip_hop_by_hop};
use crate::process::SharedState;
use crate::record::{CacheUse, RequestDisposition};
use crate::response::GatewayProblem;
use crate::tls::secured;

pub use context::Context;
pub use direct::{AnswerHead, ConnectionFacts, ConnectionState, DecidedRequest, RequestClient};
pub use locate::{Located, RequestHead, locate};
pub(crate) use min_body_rate::worth;
pub use shape::BodyEnd;
pub(crate) use wait::closed as connection_closed;

use answer::{answered, is_final};
use attempts::AttemptRequest;
use decision::OriginHead;
use error::{ProxyFault, error_for};
use fault::answer_to_fault;
use record::ClientResponse;
use shape::Kind;
use step::{Step, carry_out};

/// The proxy's logic, one value for each listener: the shared state, and the address of the listener.
pub struct Gateway(pub Arc<SharedState>, pub SocketAddr);

/// Marks a connection whose last request was rejected by a limit or a list.
pub struct LastWasRefused;

#[async_trait]
impl ProxyHttp for Gateway {
    // On the heap at once: Pingora copies the future of a request to the heap, with all that it contains.
    type CTX = Box<Context>;

    fn new_ctx(&self) -> Self::CTX {
        Box::new(Context::new(
            self.0.snapshot(),
            self.0.recorder.metrics.in_flight(),
        ))
    }

    fn init_downstream_modules(&self, _: &mut HttpModules) {
        // The default adds a compression module that costs every request and does nothing here.
    }

    async fn request_filter(&self, session: &mut Session, context: &mut Self::CTX) -> Result<bool> {
        if cache::is_refresh(session) {
            return Ok(self.refresh(session, context));
        }
        let peer = session.client_addr().and_then(|address| address.as_inet());
        context.peer = peer.copied();
        context.secured = secured(session.digest()).cloned();
        if let Some(problem) = http_versions::check_framing_names(session.req_header()) {
            let step = decide::reject_unread(problem, context);
            return Box::pin(carry_out(step, session, context))
                .await
                .map_err(|error| error.into_down());
        }
        upgrade_header::only_to_websocket(session);
        let peer = context.peer_address();
        strip::untrusted_fields(session.req_header_mut(), peer, &context.snapshot)
            .count(peer, &self.0);
        body::set_patience(session, &context.snapshot.rules.server);
        http_versions::withhold_interim_answers(session);
        http_versions::encode_query(session.req_header_mut()).map_err(|error| error.into_down())?;
        let mut step = match proof::wanted(&self.0, session.req_header()) {
            Some(proof) => Step::Prove(proof),
            None => self.decide(session.req_header(), context),
        };
        if let Step::ReadBody { max_body_bytes } = step {
            // Boxed: only a route with keys in bodies pays for its size.
            let read = Box::pin(body::read(session, context, max_body_bytes))
                .await
                .map_err(|error| error.into_down())?;
            step = self.decide_with_body(session.req_header(), read, context);
        }
        if matches!(step, Step::AskStore) {
            // Boxed for the same reason: only a route with such limits waits for a store.
            step = Box::pin(self.decide_with_store(session.req_header(), context)).await;
        }
        if matches!(step, Step::Forward) {
            // The bytes that were read for keys are counted again on their way to the origin.
            context.received = 0;
        }
        if (context.decision.as_ref()).is_some_and(|decision| !decision.delay.is_zero()) {
            // A leaky bucket releases its requests one by one.
            step = Box::pin(self.wait_for_delay(step, wait::left(session), context)).await?;
        }
        if matches!(step, Step::Forward)
            && (context.sent_100_continue || !answer::waits_for_100_continue(session))
        {
            return Ok(false);
        }
        // Boxed: a request that just passes should not pay for the size of an answer.
        Box::pin(carry_out(step, session, context))
            .await
            .map_err(|error| error.into_down())
    }

    fn request_cache_filter(&self, session: &mut Session, context: &mut Self::CTX) -> Result<()> {
        cache::allow(session, context, self.0.cache)
    }

    fn cache_key_callback(&self, session: &Session, context: &mut Self::CTX) -> Result<CacheKey> {
        cache::key_of(session.req_header(), context)
    }

    async fn cache_hit_filter(
        &self,
        session: &mut Session,
        meta: &CacheMeta,
        _: &mut HitHandler,
        _: bool,
        context: &mut Self::CTX,
    ) -> Result<Option<ForcedFreshness>> {
        Ok(cache::judge_found(session, meta, context))
    }

    async fn proxy_upstream_filter(
        &self,
        session: &mut Session,
        context: &mut Self::CTX,
    ) -> Result<bool> {
        if !cache::forbids_asking(session, context) {
            return Ok(true);
        }
        // Boxed, since it is rare.
        Box::pin(cache::answer_not_stored(session, context)).await?;
        Ok(false)
    }

    fn response_cache_filter(
        &self,
        session: &Session,
        response: &ResponseHeader,
        context: &mut Self::CTX,
    ) -> Result<RespCacheable> {
        cache::judge_answer(session, response, context)
    }

    fn cache_vary_filter(
        &self,
        meta: &CacheMeta,
        _: &mut Self::CTX,
        request: &RequestHeader,
    ) -> Option<HashBinary> {
        cache::variance(meta, request)
    }

    fn range_header_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        _: &mut Self::CTX,
    ) -> RangeType {
        cache::cut(session, response)
    }

    fn should_serve_stale(
        &self,
        session: &mut Session,
        context: &mut Self::CTX,
        error: Option<&Error>,
    ) -> bool {
        cache::serves_stale(session, context, error)
    }

    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        context: &mut Self::CTX,
    ) -> Result<()> {
        body::keep_pace(session, body.as_ref(), context)?;
        body::put_held_first(body, context);
        if end_of_stream {
            body::omit_empty_end(body);
        }
        context.received += body.as_ref().map_or(0, |bytes| bytes.len() as u64);
        // The bytes after an upgrade are no body.
        if context.received > context.located()?.route.max_body_bytes && !session.was_upgraded() {
            return Err(error_for(GatewayProblem::BodyTooLarge));
        }
        Ok(())
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        context: &mut Self::CTX,
    ) -> Result<Box<HttpPeer>> {
        attempts::next(&self.0, AttemptRequest::of(session), context).await
    }

    async fn connected_to_upstream(
        &self,
        _: &mut Session,
        _: bool,
        _: &HttpPeer,
        socket: RawFd,
        _: Option<&Digest>,
        context: &mut Self::CTX,
    ) -> Result<()> {
        attempts::connected(context, socket)
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        context: &mut Self::CTX,
        error: Box<Error>,
    ) -> Box<Error> {
        attempts::unconnected(context, error)
    }

    fn error_while_proxy(
        &self,
        peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        context: &mut Self::CTX,
        client_reused: bool,
    ) -> Box<Error> {
        let error = error.more_context(format!("Peer: {peer}"));
        attempts::interrupted(AttemptRequest::of(session), context, error, client_reused)
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        context: &mut Self::CTX,
    ) -> Result<()> {
        http_versions::check(&context.forwarded()?.pool, request)?;
        let received = session.req_header();
        http_versions::name_host(received, request)?;
        if request.version != http::Version::HTTP_2 {
            http_versions::join_cookies(received, request)?;
        }
        self.edit_for_origin(received, request, context)
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut Self::CTX,
    ) -> Result<()> {
        if is_final(response.status) {
            context.forwarded_mut()?.attempt.answer = Some(OriginHead {
                status: response.status,
                length: cause::announced(&response.headers),
            });
            attempts::judge(AttemptRequest::of(session), context, response.status)?;
            if !cache::is_refresh(session) {
                let (method, status) = (&session.req_header().method, response.status);
                let is_content = status != StatusCode::SWITCHING_PROTOCOLS
                    && !answer::has_no_body(method, status, &response.headers);
                if is_content {
                    unread::announce(&self.0, context)?;
                }
            }
        }
        let forwarded = context.forwarded_mut()?;
        if forwarded.wait.is_none() {
            forwarded.wait = Some(clock::since(forwarded.attempt.started));
        }
        strip_hop_by_hop(response);
        self.invalidate(session.req_header(), response.status, context);
        // A confirmed answer settles as the stored answer, when that is served.
        if is_final(response.status) && !cache::notice_confirmation(session, response, context) {
            context.settle(response.status, &response.headers);
        }
        for name in context.located()?.route.limits.confidential() {
            response.remove_header(name);
        }
        Ok(())
    }

    fn upstream_response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        _: bool,
        context: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        let bytes = body.as_ref().map_or(0, Bytes::len);
        cache::watch_size(session, bytes, context);
        let forwarded = context.forwarded_mut()?;
        let attempt = &mut forwarded.attempt;
        attempt.received = attempt.received.saturating_add(bytes as u64);
        let Some(total) = forwarded.pool.rules.timeouts.total else {
            return Ok(None);
        };
        if !session.was_upgraded() && clock::since(attempt.started) > total {
            return Err(error_for(GatewayProblem::OriginTimeout));
        }
        Ok(None)
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut Self::CTX,
    ) -> Result<()> {
        cache::restore(session, context);
        cache::settle_by_stored(session, context);
        if context.holds_permits()
            && is_final(response.status)
            && answer::has_no_body(
                &session.req_header().method,
                response.status,
                &response.headers,
            )
        {
            context.finish_response();
        }
        let (status, mut compressor) = (response.status, None);
        let page = (!cache::is_refresh(session))
            .then(|| intercept::page(session.req_header(), status, context))
            .flatten();
        let header_case = context.forwarded()?.pool.rules.header_case;
        edit_response(response, header_case, |fields| {
            let mut kind = Kind::Content;
            if let Some(page) = &page {
                intercept::relabel(fields, page)?;
                kind = Kind::Intercepted;
            }
            answer::unchunk_for_http10(session, fields);
            http_versions::omit_te(session, fields);
            cache::write_status(session, fields, context)?;
            let request = session.req_header();
            shape::edit_answer(fields, kind, request, context)?;
            if is_final(status) && page.is_none() {
                compressor = shape::begin_compression(fields, status, request, context)?;
            }
            attempts::give_cookie(fields, AttemptRequest::of(session), context)?;
            answer::add_own_fields(fields, context)
        })?;
        context.compressor = compressor;
        // Boxed, since it is rare.
        match page {
            Some(page) => Box::pin(intercept::give(session, response, page, context)).await,
            None if head_only::applies(session, status) => {
                Box::pin(head_only::give(session, response, context)).await
            }
            None => Ok(()),
        }
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        context: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        let end = if end_of_stream {
            BodyEnd::Here
        } else {
            BodyEnd::NotYet
        };
        intercept::drop_piece(session, body, context)?;
        shape::compress(body, end, context)?;
        unread::pass(&self.0, session, body.as_ref(), context)?;
        if end_of_stream {
            context.finish_response();
        }
        Ok(None)
    }

    async fn response_trailer_filter(
        &self,
        _: &mut Session,
        _: &mut HeaderMap,
        context: &mut Self::CTX,
    ) -> Result<Option<Bytes>> {
        let mut rest = None;
        if context.compressor.is_some() {
            // The body ended without a last piece; the bytes returned here replace the trailers.
            shape::compress(&mut rest, BodyEnd::Here, context)?;
        }
        if context.replaced.is_some() {
            // The body that these trailers belong to was dropped, so they are dropped too.
            rest = Some(Bytes::new());
        }
        context.finish_response();
        Ok(rest)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        context: &mut Self::CTX,
    ) -> FailToProxy {
        if context.withheld.is_some() {
            Box::pin(head_only::release_after(error, session, context)).await;
        }
        if intercept::had_enough(error, context) {
            return FailToProxy {
                error_code: 0,
                can_reuse_downstream: false,
            };
        }
        // A body of HTTP/1 has a timeout for each read here.
        let waits_for_client =
            session.as_http2().is_some() && !session.is_body_empty() && !session.is_body_done();
        let fault = http_versions::blame(ProxyFault::of(error), waits_for_client, context);
        self.note_fault(fault, error, context);
        let mut error_code = 0;
        if let Some(problem) = fault.problem()
            && answered(session).is_none()
            && !cache::is_refresh(session)
        {
            error_code = problem.status().as_u16();
            session.set_keepalive(None);
            let sent = match answer_to_fault(problem, session.req_header(), context) {
                Ok(answer) => answer::send(session, context, answer).await,
                Err(error) => Err(error),
            };
            if sent.is_err() {
                context.disposition = Some(RequestDisposition::ClientGone);
            }
        }
        FailToProxy {
            error_code,
            can_reuse_downstream: false,
        }
    }

    fn suppress_error_log(&self, _: &Session, _: &Self::CTX, _: &Error) -> bool {
        // The access log has a line for each; the gateway's own errors are logged above.
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _: &Session,
        _: &Self::CTX,
        _: &Error,
        _: ProxyWarnLogContext,
    ) -> bool {
        true
    }

    async fn logging(&self, session: &mut Session, _: Option<&Error>, context: &mut Self::CTX) {
        if cache::is_refresh(session) {
            cache::let_others_fill(session);
            return self.note_refresh();
        }
        if context.withheld.is_some() {
            Box::pin(head_only::release(session, context)).await;
        }
        context.settle_unanswered();
        let used = cache::cache_use(session, context);
        if context.disposition.is_none() && used.is_some_and(CacheUse::is_without_origin) {
            context.disposition = Some(RequestDisposition::Cached);
        }
        if session.cache.lock_duration().is_some() {
            self.note_wait();
        }
        context.release_server();
        // Every failure has set its disposition by now, so a request without one passed.
        context
            .disposition
            .get_or_insert(RequestDisposition::Forwarded);
        let response = ClientResponse {
            status: answered(session).map(|response| response.status),
            body_bytes: session.body_bytes_sent() as u64,
            cache: cache::cache_use(session, context),
        };
        self.record(session.req_header(), &response, context);
        cache::let_others_fill(session);
    }

    fn persist_connection_context(
        &self,
        _: &Session,
        context: &Self::CTX,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        context
            .disposition
            .is_some_and(RequestDisposition::is_refusal)
            .then(|| Box::new(LastWasRefused) as Box<dyn Any + Send + Sync>)
    }
}
