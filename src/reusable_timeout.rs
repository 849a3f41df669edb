//! Ends a wait on a connection at its timeout.
//!
//! A kept connection waits once a request. Registering a timer each time costs more than the decision about the request, so the
//! timer lives as long as the connection; a wait that ends in time only moves the deadline, and the timer that fires early is
//! set again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_base::clock;
use tokio::time::{Instant, Sleep};

/// A reusable timeout for the waits of one connection.
#[derive(Default)]
pub(crate) struct ReusableTimeout {
    timer: Option<Pin<Box<Sleep>>>,
}

impl ReusableTimeout {
    /// Returns the output of `read`; `None` when it takes longer than `patience`.
    pub(crate) async fn over<F: Future>(
        &mut self,
        mut read: Pin<&mut F>,
        patience: Duration,
    ) -> Option<F::Output> {
        let mut deadline = None;
        std::future::poll_fn(move |context| {
            if let Poll::Ready(output) = read.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // The clock is read only if the future has to wait.
            let deadline = *deadline.get_or_insert_with(|| clock::deadline(patience));
            if self.is_over(deadline, context) {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    fn is_over(&mut self, deadline: Instant, context: &mut Context<'_>) -> bool {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            if timer.deadline() >= deadline {
                return true;
            }
            // The timer was set for an earlier wait.
            timer.as_mut().reset(deadline);
        }
        false
    }
}
