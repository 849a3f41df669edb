//! Notices a client that leaves while nothing is read from it: its request waits for a server, or the server takes no more of its body.
//!
//! HTTP/2 reports the end of a stream. For HTTP/1 the kernel is asked for the state of the connection, since the bytes that a read would
//! take belong to a body or to a later request.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use sluicegate_base::bounds;

use super::client::RequestClient;
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_transport::timer;

/// Returns the output of `work`.
///
/// # Errors
/// The client left before that.
pub(super) async fn unless_left<C: RequestClient, T>(
    client: &mut C,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, ClientFailure> {
    let mut client = Some(client);
    let mut leaving = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        // Most work is done at once, and pays for no look at the client.
        if let Some(client) = client.take() {
            leaving = Some(Box::pin(left(client)));
        }
        match leaving.as_mut().map(|left| left.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(ClientFailure::LeftWait)),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    })
    .await
}

/// Returns once the client has left. The first look is made after [`bounds::WAITER_LOOKS`], since most waits are shorter.
pub(super) async fn left<C: RequestClient>(client: &mut C) {
    tokio::time::sleep_until(timer::deadline(bounds::WAITER_LOOKS)).await;
    client.left().await;
}
