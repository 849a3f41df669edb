//! Asks the origin again for a stale response while a client gets it: a request of the gateway's own, whose answer goes into the cache.
//!
//! No client sent the request, so no limit counts it, and it is not recorded. It takes a permit of a request in flight, as every
//! request to an origin does.
//!
//! # Limits
//! A refresh holds the permit to fetch its response, so there is at most one for each stored response.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pingora::cache::CacheKey;
use pingora::server::ShutdownWatch;
use sluicegate_base::received::ReceivedHead;
use sluicegate_http1::BodyFraming;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::super::client::RequestClient;
use super::super::exchange::ClientExchange;
use super::super::head_writer::{AnswerHead, ConnectionPersistence};
use super::super::received::RequestWire;
use super::super::session::ProxySession;
use super::transaction::{CacheTransaction, RequestSender};
use crate::gateway::Gateway;
use crate::gateway::context::Context;
use crate::gateway::forwarded::{ForwardedRequest, OriginRoute};
use sluicegate_budgets::ClientAccount;
use sluicegate_cache::fill_lock::FillPermit;
use sluicegate_cache::request_directives::RequestCacheControl;
use sluicegate_decide::admission::Admitted;
use sluicegate_origin::AdmittedPool;
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_transport::body_end::BodyEnd;

/// The client of a refresh, which gets nothing.
struct DiscardingClient {
    account: ClientAccount,
    received: BytesMut,
}

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Begins to fetch the stale response of the transaction again, in a task of its own.
    pub(super) fn refresh_in_background(
        &self,
        key: CacheKey,
        permit: FillPermit,
        transaction: &CacheTransaction,
    ) {
        let gateway = self.gateway;
        let forwarded = &*self.forwarded;
        let context = &*self.context;
        let in_flight = gateway.0.recorder.metrics.in_flight();
        let mut own = Box::new(Context::new(Arc::clone(&context.snapshot), in_flight));
        own.peer.clone_from(&context.peer);
        own.secured.clone_from(&context.secured);
        own.client = context.client;
        own.located.clone_from(&context.located);
        let origin = OriginRoute {
            route: Arc::clone(&forwarded.route),
            pool: AdmittedPool::new(Arc::clone(&forwarded.pool), &Admitted::exempt()),
            target: forwarded.target.clone(),
        };
        let account = forwarded.account.clone();
        let mut request = ForwardedRequest::new(origin, account.clone(), own.decided_at);
        let directives = RequestCacheControl::default();
        let mut refresh = CacheTransaction::new(transaction.audience, directives);
        refresh.sender = RequestSender::Gateway;
        refresh.permit = Some(permit);
        refresh.ask(key, transaction.stored.clone());
        request.cached = Some(Box::new(refresh));
        let head = self.exchange.head.clone();
        let client = DiscardingClient {
            account,
            received: BytesMut::new(),
        };
        let shutdown = self.exchange.shutdown().clone();
        let gateway = Gateway(Arc::clone(&gateway.0), gateway.1);
        let refreshed = gateway.refresh_stored(client, head, (request, own), shutdown);
        tokio::spawn(refreshed);
    }
}

impl Gateway {
    async fn refresh_stored(
        self,
        mut client: DiscardingClient,
        head: ReceivedHead,
        (mut forwarded, mut context): (ForwardedRequest, Box<Context>),
        shutdown: ShutdownWatch,
    ) {
        let wire = RequestWire {
            method: head.method.clone(),
            framing: BodyFraming::None,
            persistence: ConnectionPersistence::Keep,
            expects_continue: false,
            is_upgrade: false,
        };
        let mut exchange =
            ClientExchange::new(&mut client, &head, &wire, (&self.0, &shutdown), &context);
        // A failure is in the failure log of its server; the stored response stays as it is.
        let mut session = ProxySession {
            gateway: &self,
            exchange: &mut exchange,
            forwarded: &mut forwarded,
            context: &mut context,
        };
        let _ = session.forward().await;
        // The permit first: a request that comes now looks the new response up.
        drop(forwarded);
        self.note_refresh();
    }
}

impl RequestClient for DiscardingClient {
    fn account(&self) -> &ClientAccount {
        &self.account
    }

    fn received(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    async fn read_more(&mut self, _: Option<Duration>) -> Result<usize, ClientFailure> {
        std::future::pending().await
    }

    fn begin_answer(&mut self, _: &mut Vec<u8>, _: AnswerHead<'_>) -> io::Result<()> {
        Ok(())
    }

    async fn write(&mut self, _: [&[u8]; 2], _: BodyEnd) -> Result<(), ClientFailure> {
        Ok(())
    }

    async fn left(&mut self) {
        std::future::pending().await
    }

    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)> {
        None::<&mut TcpStream>
    }
}
