//! Passes the response of an origin on: its body, or another protocol, follows the head that [`response_start`](super::response_start)
//! wrote.

use bytes::Buf;
use http::{HeaderMap, Method};

use super::after_response::{AfterAttempt, after_response, drop_rest};
use super::attempt_io::AttemptEvent;
use super::client::RequestClient;
use super::exchange::ClientExchange;
use super::response_body::{JOINED_PIECE, TakenPiece};
use super::response_head::FinalHead;
use super::response_start::{JudgedResponse, PassedResponse};
use super::session::ProxySession;
use super::trailers;
use crate::gateway::intercept::ReplacementPage;
use crate::gateway::unread::{self, UntakenPiece};
use sluicegate_origin::request_failure::Result;
use sluicegate_origin::{OriginChannel, OriginEvent};
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Judges the head, whose bytes were read, and passes the response on.
    pub(super) async fn relay(
        &mut self,
        origin: &mut OriginChannel,
        head: FinalHead,
    ) -> Result<AfterAttempt> {
        self.take_received(origin).await?;
        let mut response = match self.begin_response(origin, head)? {
            JudgedResponse::Stored(after) => return Ok(after),
            JudgedResponse::Repeat => return Ok(AfterAttempt::Repeat),
            JudgedResponse::Tunnel(out) => {
                self.exchange.write(&out, BodyEnd::NotYet).await?;
                // Boxed: few requests become tunnels.
                Box::pin(self.run_tunnel(origin)).await?;
                return Ok(AfterAttempt::Close);
            }
            JudgedResponse::Passed(response) => response,
        };
        let mut passed = self.pass_answer(origin, &mut response).await;
        let body = &mut response.body;
        if passed.is_ok() && !body.is_over() {
            // The client has its part of a body that goes on.
            self.exchange.end_output().await;
            passed = Box::pin(drop_rest(origin, body, self.forwarded)).await;
        }
        self.forwarded.reported = body.take_costs();
        self.forwarded.is_whole = passed.is_ok() && body.is_over();
        self.forwarded.has_large_trailer = body.has_large_trailer();
        passed?;
        if !self.exchange.body.is_over() {
            // The origin answered before it got the whole request.
            self.exchange.drain().await;
            return Ok(AfterAttempt::Close);
        }
        Ok(after_response(origin, body, response.by_head))
    }

    /// Passes the answer on to its end. The request holds its permits for as long as the body is needed for something else.
    async fn pass_answer(
        &mut self,
        origin: &mut OriginChannel,
        response: &mut PassedResponse,
    ) -> Result<()> {
        let trailers = match response.page.take() {
            Some(page) => {
                write_page(&mut response.out, *page, self.exchange).await?;
                None
            }
            None => self.pass_body(origin, response).await?,
        };
        if !response.body.needs_rest() {
            self.exchange.release_permits(self.context).await?;
        }
        self.exchange.end_answer(trailers).await
    }

    /// Passes the body on, whose first bytes are written with the head. Returns the trailers for the client.
    async fn pass_body(
        &mut self,
        origin: &mut OriginChannel,
        PassedResponse { out, body, .. }: &mut PassedResponse,
    ) -> Result<Option<HeaderMap>> {
        loop {
            let TakenPiece { data, as_read } = body.take(&mut origin.read, out)?;
            self.forwarded.attempt.count_received(data);
            if as_read == 0 && data > JOINED_PIECE {
                origin.release_read();
            }
            if origin.is_ended() && !body.is_over() {
                body.end_of_stream(out)?;
            }
            let mut end = BodyEnd::NotYet;
            let mut trailers = None;
            if body.is_client_served() {
                let takes_trailers = self.exchange.has_stream() && body.keeps_trailers();
                let confidential = self.forwarded.route.compiled.limits.confidential();
                trailers = (origin.take_trailers().filter(|_| takes_trailers))
                    .and_then(|trailers| trailers::for_client(trailers, confidential));
                if trailers.is_none() {
                    end = BodyEnd::Here;
                }
            }
            let pieces = [&out[..], &origin.read[..as_read]];
            self.pass_pieces((pieces, end), origin.behind()).await?;
            origin.read.advance(as_read);
            out.clear();
            out.shrink_to(JOINED_PIECE);
            self.exchange.body_bytes = body.content();
            if body.is_client_served() {
                return Ok(trailers);
            }
            match self.next_event(origin).await? {
                AttemptEvent::Origin(OriginEvent::Bytes(0)) => body.end_of_stream(out)?,
                // A final head of HTTP/2 is followed by no other.
                AttemptEvent::Origin(_) => {}
                AttemptEvent::Client(read) => self.take_from_client(read, origin).await?,
            }
        }
    }

    /// Writes two pieces of the answer; what the client does not take at once takes room among unread answers, with the bytes that may come
    /// behind it.
    async fn pass_pieces(
        &mut self,
        (pieces, end): ([&[u8]; 2], BodyEnd),
        behind: usize,
    ) -> Result<()> {
        let piece = UntakenPiece {
            client: self.exchange.head.version,
            bytes: pieces.iter().map(|piece| piece.len()).sum(),
            behind,
        };
        let shared = &self.gateway.0;
        let reserve = || unread::reserve_piece(shared, piece, self.forwarded, self.context);
        (self.exchange.write_or_wait((pieces, end), reserve)).await?;
        unread::release_piece(self.forwarded);
        Ok(())
    }
}

/// Writes the head and the page in place of the body.
async fn write_page<C: RequestClient>(
    out: &mut WriteBuffer,
    page: ReplacementPage,
    exchange: &mut ClientExchange<'_, C>,
) -> Result<()> {
    if exchange.head.method != Method::HEAD {
        out.extend_from_slice(&page.body);
        exchange.body_bytes = page.body.len() as u64;
    }
    exchange.write(out, BodyEnd::Here).await
}
