//! Ends a wait on a connection at its timeout.
//!
//! A kept connection waits once a request. Registering a timer each time costs more than the decision about the request, so the
//! timer lives as long as the connection; a wait that ends in time only moves the deadline, and the timer that fires early is
//! set again. A timer that is set and will wake the task that waits is not polled.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::timer;

/// A reusable timeout for the waits of one connection.
#[derive(Default)]
pub struct ReusableTimeout {
    timer: Option<Pin<Box<Sleep>>>,
    /// The waker of the task that the timer wakes.
    waker: Option<Waker>,
}

impl ReusableTimeout {
    /// Returns the output of `read`; `None` when it takes longer than `patience`.
    pub async fn wait<F: Future>(
        &mut self,
        read: Pin<&mut F>,
        patience: Duration,
    ) -> Option<F::Output> {
        self.wait_until(read, patience, &mut None).await
    }

    /// Waits as [`wait`](Self::wait) does. Sets `deadline` to the end of the wait if the future has to wait, so that another wait may have
    /// the same end.
    pub async fn wait_until<F: Future>(
        &mut self,
        mut read: Pin<&mut F>,
        patience: Duration,
        deadline: &mut Option<Instant>,
    ) -> Option<F::Output> {
        std::future::poll_fn(move |context| {
            if let Poll::Ready(output) = read.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // The clock is read only if the future has to wait.
            let deadline = *deadline.get_or_insert_with(|| timer::deadline(patience));
            if self.is_over(deadline, context) {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// Returns whether this deadline has passed. Before that the task that asks is woken at the deadline.
    pub fn is_over(&mut self, deadline: Instant, context: &mut Context<'_>) -> bool {
        if self.is_set(deadline, context.waker()) {
            return false;
        }
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
        self.waker = Some(context.waker().clone());
        false
    }

    /// Returns whether the timer wakes this task, at the deadline or before.
    fn is_set(&self, deadline: Instant, waker: &Waker) -> bool {
        let is_pending =
            |timer: &Pin<Box<Sleep>>| timer.deadline() <= deadline && !timer.is_elapsed();
        self.timer.as_ref().is_some_and(is_pending)
            && self.waker.as_ref().is_some_and(|own| own.will_wake(waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a wait ends at its timeout in whichever task it waits, after an earlier wait with a longer or shorter one. Method: waits in
    /// tasks of their own, for a future that never ends; without a wake-up the test would not end.
    #[tokio::test]
    async fn a_wait_ends_in_every_task() {
        let mut reusable = ReusableTimeout::default();
        for milliseconds in [20, 5, 5, 20] {
            let waiting = async move {
                let patience = Duration::from_millis(milliseconds);
                let begun = Instant::now();
                let never = std::pin::pin!(std::future::pending::<()>());
                assert_eq!(reusable.wait(never, patience).await, None);
                assert!(begun.elapsed() >= patience);
                // A wait that another one follows in the same task, and that ends before its timeout.
                let yielding = std::pin::pin!(tokio::task::yield_now());
                assert_eq!(reusable.wait(yielding, patience).await, Some(()));
                reusable
            };
            reusable = tokio::spawn(waiting).await.unwrap();
        }
    }
}
