//! Passes the bytes of a WebSocket both ways, after the origin has switched protocols.
//!
//! Both directions are independent: a peer that does not read holds up its own direction alone. A tunnel that waits holds no buffer.
//!
//! # Limits
//! A tunnel ends when one side ends its direction and the other side has had [`LINGER_TIME`](bounds::LINGER_TIME) to send the rest, or when
//! no byte has passed either way for the origin's `tunnel` timeout, at most an eighth of it later. Both are ordinary ends: neither the
//! origin nor the client has failed.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use sluicegate_base::bounds;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::client::RequestClient;
use super::session::ProxySession;
use sluicegate_origin::OriginChannel;
use sluicegate_origin::request_failure::{ClientFailure, OriginFailure, RequestFailure, Result};
use sluicegate_transport::thread_buffer::read_through;

/// Bytes asked for in one read.
const TUNNEL_READ: usize = 16 * 1024;

/// Looks at a silent tunnel before it ends.
const SILENCE_CHECKS: u32 = 8;

/// The error of one direction.
enum DirectionError {
    Read(io::Error),
    Write(io::Error),
}

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Passes bytes both ways until the tunnel ends.
    ///
    /// # Errors
    /// One side broke.
    pub(super) async fn run_tunnel(&mut self, origin: &mut OriginChannel) -> Result<()> {
        let timeouts = &self.forwarded.pool.rules.timeouts;
        let longest_silence = timeouts.longest_tunnel_silence();
        let to_origin = self.exchange.client.received().split();
        let to_client = origin.read.split();
        // Relaxed: one task reads and writes both.
        let sent = AtomicU64::new(0);
        let received = AtomicU64::new(0);
        let ended = {
            let client = self.exchange.client.stream().ok_or_else(no_stream)?;
            let (mut client_read, mut client_write) = tokio::io::split(client);
            let origin = origin.stream().ok_or_else(no_stream)?;
            let (mut origin_read, mut origin_write) = tokio::io::split(origin);
            let mut up =
                std::pin::pin!(pass(to_origin, &mut client_read, &mut origin_write, &sent));
            let mut down = std::pin::pin!(pass(
                to_client,
                &mut origin_read,
                &mut client_write,
                &received
            ));
            // A timeout is the expected end of a side that sends no more.
            tokio::select! {
                up = &mut up => match up {
                    Ok(()) => timeout(bounds::LINGER_TIME, down).await.unwrap_or(Ok(())).map_err(of_origin),
                    Err(error) => Err(of_client(error)),
                },
                down = &mut down => match down {
                    Ok(()) => timeout(bounds::LINGER_TIME, up).await.unwrap_or(Ok(())).map_err(of_client),
                    Err(error) => Err(of_origin(error)),
                },
                () = silent(longest_silence, [&sent, &received]) => Ok(()),
            }
        };
        let sent = sent.into_inner();
        let received = received.into_inner();
        self.context.received = self.context.received.saturating_add(sent);
        self.exchange.body_bytes = self.exchange.body_bytes.saturating_add(received);
        let attempt = &mut self.forwarded.attempt;
        attempt.received = attempt.received.saturating_add(received);
        ended
    }
}

/// Passes `bytes`, then all that is read, and ends the direction where the reader ended it. Counts the bytes.
async fn pass(
    mut bytes: BytesMut,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    passed: &AtomicU64,
) -> Result<(), DirectionError> {
    loop {
        if !bytes.is_empty() {
            to.write_all(&bytes).await.map_err(DirectionError::Write)?;
            to.flush().await.map_err(DirectionError::Write)?;
            passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            bytes = BytesMut::new();
        }
        let read = read_through(from, &mut bytes, TUNNEL_READ).await;
        if read.map_err(DirectionError::Read)? == 0 {
            return to.shutdown().await.map_err(DirectionError::Write);
        }
    }
}

/// Returns once no byte has passed for this time, at most one check later.
async fn silent(time: Duration, passed: [&AtomicU64; 2]) {
    let passed = || passed.map(|direction| direction.load(Ordering::Relaxed));
    let mut before = passed();
    let mut silent_checks = 0;
    while silent_checks < SILENCE_CHECKS {
        sleep(time / SILENCE_CHECKS).await;
        let now = passed();
        silent_checks = if now == before { silent_checks + 1 } else { 0 };
        before = now;
    }
}

/// Returns the failure of the direction from the client.
fn of_client(error: DirectionError) -> Box<RequestFailure> {
    match error {
        DirectionError::Read(error) => ClientFailure::Broken(error).into(),
        DirectionError::Write(error) => OriginFailure::Broken(error).into(),
    }
}

/// Returns the failure of the direction from the origin.
fn of_origin(error: DirectionError) -> Box<RequestFailure> {
    match error {
        DirectionError::Read(error) => OriginFailure::Broken(error).into(),
        DirectionError::Write(error) => ClientFailure::Broken(error).into(),
    }
}

/// Returns the failure of a tunnel to an origin that speaks HTTP/2.
fn no_stream() -> Box<RequestFailure> {
    RequestFailure::internal("a stream of HTTP/2 carries no other protocol")
}
