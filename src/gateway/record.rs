//! Stage 7's one call: what every stage learned of a request becomes its [`Outcome`].

use pingora::proxy::Session;

use super::context::Context;
use super::locate::RequestHead;
use super::{Gateway, answered, cache};
use crate::clock;
use crate::record::{Disposition, Outcome};

impl Gateway {
    /// Records a request that is over.
    pub(super) fn record(&self, session: &Session, context: &Context) {
        let head = session.req_header();
        let request = RequestHead::from(head);
        self.0.record(&Outcome {
            arrived: context.arrived,
            request_id: context.request_id,
            trace: context.trace,
            client: context.client.map(|(address, _)| address),
            peer: context.peer.map(|peer| peer.ip()),
            secured: context.secured.as_deref(),
            method: head.method.as_str().as_bytes(),
            host: without_port(request.host()).as_bytes(),
            target: request.target.as_bytes(),
            protocol: protocol(head.version),
            route: context.route.as_ref().map(|route| &route.metrics),
            verdict: context.judged.as_ref().map(|judged| &judged.verdict),
            beside: context
                .judged
                .as_ref()
                .and_then(|judged| judged.beside.as_deref()),
            list: context.list.as_deref(),
            gaps: &context.gaps.0,
            barred: context.barred.as_ref(),
            disposition: context.disposition.unwrap_or(Disposition::Internal),
            status: answered(session).map_or(0, |response| response.status.as_u16()),
            bytes_received: context.received,
            bytes_sent: session.body_bytes_sent() as u64,
            total: clock::since(context.arrived),
            decision: context.decision,
            cache: cache::cache_use(session, context),
            origin: context.origin_use(),
        });
    }
}

/// `a.test:80` and `[::1]:80` without their port.
fn without_port(host: &str) -> &str {
    match memchr::memrchr2(b':', b']', host.as_bytes()) {
        Some(colon) if host.as_bytes()[colon] == b':' => &host[..colon],
        _ => host,
    }
}

fn protocol(version: http::Version) -> &'static str {
    match version {
        http::Version::HTTP_2 => "HTTP/2",
        http::Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}
