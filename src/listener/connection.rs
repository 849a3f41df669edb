//! Reads the heads of one HTTP/1 connection, each within its time and size, and keeps the bytes that a client sends ahead.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use pingora::prelude::timeout;
use pingora::protocols::{Ssl, Stream};
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_http1::{
    Body, ChunkLimits, Chunks, Head, HeadForm, RuleViolation, leading_line_end, respell,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::guarded_stream::{GuardedStream, ReadPace};
use super::reusable_timeout::ReusableTimeout;
use crate::config::rules::ServerRules;
use crate::process::SharedState;
use crate::record::Outcome;
use crate::request_id::RequestId;
use crate::response::GatewayProblem;

/// The bounds of what a chunked request body has beside its data.
const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    overhead: bounds::CHUNK_OVERHEAD,
    trailer: bounds::TRAILER_BYTES,
};

/// The next event of a connection.
pub(super) enum NextHead {
    /// A whole head of so many bytes, and its body's framing.
    Head(usize, Body),
    /// A head that is answered with a problem, after which the connection ends.
    Problem(GatewayProblem),
    /// The client has left, or was idle for too long.
    End,
}

/// The result of one read.
enum Wait {
    Read,
    /// The client left.
    Gone,
    /// The timeout has passed.
    Over,
}

/// One HTTP/1 connection between two requests.
pub(super) struct Http1Connection {
    pub(super) stream: Box<GuardedStream>,
    /// Bytes that were read and not yet served.
    pub(super) read: BytesMut,
    vigil: ReusableTimeout,
}

impl Http1Connection {
    /// Returns a connection from which nothing has been read.
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream: GuardedStream::new(stream),
            read: BytesMut::new(),
            vigil: ReusableTimeout::default(),
        }
    }

    /// Returns the next head. Checks bytes that are already here before it waits for others.
    pub(super) async fn next(&mut self, rules: &ServerRules) -> NextHead {
        let defence = &rules.defence;
        let mut began = None;
        self.stream.begin(None, read_pace(rules));
        loop {
            let head = Head::find(&self.read);
            // Only a head that is longer can have such a target.
            if self.read.len() > defence.max_uri_bytes
                && !matches!(head, Head::Malformed(_))
                && words(&self.read).1.len() > defence.max_uri_bytes
            {
                return NextHead::Problem(GatewayProblem::UriTooLong);
            }
            match head {
                Head::Whole { bytes, fields, .. }
                    if bytes > rules.max_header_bytes || fields > rules.max_headers =>
                {
                    return NextHead::Problem(GatewayProblem::HeadTooLarge);
                }
                Head::Whole {
                    bytes,
                    body,
                    spelling: HeadForm::AsSent,
                    ..
                } => return self.begin(bytes, body, rules),
                Head::Whole { bytes, body, .. } => {
                    let bytes = self.respell(bytes);
                    if words(&self.read).1.len() > defence.max_uri_bytes {
                        return NextHead::Problem(GatewayProblem::UriTooLong);
                    }
                    return self.begin(bytes, body, rules);
                }
                Head::Malformed(rule) => {
                    return NextHead::Problem(GatewayProblem::BadRequest(rule.into()));
                }
                Head::Partial if self.read.len() > rules.max_header_bytes => {
                    return NextHead::Problem(GatewayProblem::HeadTooLarge);
                }
                Head::Partial => {}
            }
            // An empty line after the previous request does not begin the next one, which may never come.
            let is_idle = leading_line_end(&self.read) == self.read.len();
            let patience = if is_idle {
                rules.keepalive_timeout
            } else {
                // The whole head has one deadline, so that a field every few seconds does not hold a connection forever.
                let began = *began.get_or_insert_with(clock::now);
                defence
                    .client_header_timeout
                    .saturating_sub(clock::since(began))
            };
            match self.read_more(patience).await {
                Wait::Read => {}
                Wait::Gone => return NextHead::End,
                Wait::Over if is_idle => return NextHead::End,
                Wait::Over => return NextHead::Problem(GatewayProblem::HeadTimeout),
            }
        }
    }

    /// Rewrites the head of so many bytes into its canonical form, and returns its new length.
    fn respell(&mut self, head_bytes: usize) -> usize {
        let behind = self.read.split_off(head_bytes);
        let head = respell(&self.read);
        self.read.clear();
        self.read.extend_from_slice(&head);
        self.read.unsplit(behind);
        head.len()
    }

    /// Begins a request whose head is here.
    fn begin(&mut self, head_bytes: usize, body: Body, rules: &ServerRules) -> NextHead {
        let chunks = match body {
            Body::Length(_) => None,
            Body::Chunked => {
                let mut chunks = Chunks::new(CHUNK_LIMITS);
                if chunks.take(&self.read[head_bytes..]).is_err() {
                    return NextHead::Problem(GatewayProblem::BadRequest(
                        RuleViolation::Chunks.into(),
                    ));
                }
                Some(chunks)
            }
        };
        self.stream.begin(chunks, read_pace(rules));
        NextHead::Head(head_bytes, body)
    }

    /// Reads once.
    async fn read_more(&mut self, patience: Duration) -> Wait {
        if patience.is_zero() {
            return Wait::Over;
        }
        self.read.reserve(bounds::HEAD_READ);
        let read = pin!(self.stream.read_buf(&mut self.read));
        match self.vigil.over(read, patience).await {
            Some(Ok(0) | Err(_)) => Wait::Gone,
            Some(Ok(_)) => Wait::Read,
            None => Wait::Over,
        }
    }

    /// Takes the bytes of the next request that are here: its head, and the part of its body that was sent along. Bytes of later
    /// requests stay, unless chunks hide where this request ends. Bytes that arrive while the proxy waits for the origin end the
    /// connection.
    pub(super) fn take_request(&mut self, head_bytes: usize, body: Body) -> BytesMut {
        let end = match body {
            Body::Length(bytes) => head_bytes.saturating_add(bytes).min(self.read.len()),
            Body::Chunked => self.read.len(),
        };
        self.read.split_to(end)
    }

    /// Ends a connection without a further answer. With TLS it sends close_notify, RFC 8446 §6.1: otherwise the end could be an
    /// attacker's truncation.
    pub(super) async fn end(mut self) {
        if self.stream.get_ssl_digest().is_some() {
            // A client that reads nothing any more does not need close_notify.
            let _ = timeout(bounds::LINGER_TIME, self.stream.shutdown()).await;
        }
    }

    /// Answers a head that cannot be served and ends the connection.
    pub(super) async fn end_with(mut self, problem: GatewayProblem, shared: &SharedState) {
        let arrived = clock::now();
        let request_id = RequestId::next();
        let (method, target) = words(&self.read);
        let length = problem.body().len();
        // RFC 9110 §9.3.2: an answer to HEAD has no body, whatever else is wrong with the request.
        let body = if method == b"HEAD" {
            Bytes::new()
        } else {
            problem.body()
        };
        let secured = super::secured_of(&*self.stream);
        let hsts = secured.as_ref().and_then(|secured| {
            let value = secured.strict_transport.as_ref()?.to_str().ok()?;
            Some(format!("\r\nstrict-transport-security: {value}"))
        });
        let head = format!(
            "HTTP/1.1 {status}\r\nx-request-id: {request_id}\r\ncontent-type: application/problem+json\r\n\
             content-length: {length}\r\ndate: {date}{hsts}\r\nconnection: close\r\n\r\n",
            status = problem.status(),
            date = String::from_utf8_lossy(super::http_date().as_bytes()),
            hsts = hsts.unwrap_or_default(),
        );
        let patience = shared.snapshot().rules.server.client_write_timeout;
        let answer = [head.as_bytes(), &body].concat();
        let written = self.stream.write_within(&answer, patience).await;
        let peer = super::peer_address(&*self.stream);
        shared.record(&Outcome {
            client: peer.map(|peer| self.client(peer, shared)),
            peer,
            secured: secured.as_deref(),
            method,
            target,
            status: written.map_or(0, |()| problem.status().as_u16()),
            bytes_sent: body.len() as u64,
            total: clock::since(arrived),
            reason: Some(problem.detail()),
            ..Outcome::rejected(arrived, request_id, "HTTP/1.1")
        });
        self.linger().await;
    }

    /// Returns the client of a head whose fields cannot be trusted: the peer.
    fn client(&self, peer: IpAddr, shared: &SharedState) -> IpAddr {
        crate::client::identify(peer, &HeaderMap::new(), &shared.snapshot().rules.client).address
    }

    /// Reads and drops some bytes before it closes: a close with unread bytes makes the kernel send a reset that can overtake
    /// the answer.
    async fn linger(mut self) {
        // The client may have left; then there is nothing to wait for.
        let _ = self.stream.shutdown().await;
        let mut scrap = BytesMut::with_capacity(bounds::HEAD_READ);
        let drop_rest = async {
            let mut dropped = 0;
            while dropped < bounds::LINGER_BYTES {
                scrap.clear();
                match self.stream.read_buf(&mut scrap).await {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => dropped += bytes,
                }
            }
        };
        // A timeout is the expected end for a client that keeps sending.
        let _ = timeout(bounds::LINGER_TIME, drop_rest).await;
    }
}

/// Returns the first two words of a head that may be malformed.
fn words(read: &[u8]) -> (&[u8], &[u8]) {
    let read = &read[leading_line_end(read)..];
    let line = read.split(|&byte| matches!(byte, b'\r' | b'\n')).next();
    let mut words = line.unwrap_or_default().split(|&byte| byte == b' ');
    (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    )
}

/// Returns the minimum rate and the timeout for a client that reads an answer.
pub(super) fn read_pace(rules: &ServerRules) -> ReadPace {
    ReadPace {
        patience: rules.client_write_timeout,
        rate: rules.defence.client_min_read_rate,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_http1::Authority;

    use sluicegate_base::host;

    proptest! {
        /// Goal: an authority passes where its host has a normal form, and two are the same where it is. Method: arbitrary short ones.
        #[test]
        fn authorities_are_hosts(texts in prop::array::uniform2("[abAB.:1\\[\\]~@-]{0,8}")) {
            let normal = |text: &str| host::normalize(text).ok().map(|name| name.into_owned());
            let [one, other] = texts.each_ref().map(|text| Authority::parse(text.as_bytes(), 80));
            prop_assert_eq!(one.is_some(), normal(&texts[0]).is_some());
            if one.is_some() && one == other {
                prop_assert_eq!(normal(&texts[0]), normal(&texts[1]));
            }
        }
    }
}
