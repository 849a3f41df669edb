//! Wakes the one task that waits for an event, in whatever runtime it runs.
//!
//! # Concurrency
//! A lock is held for the change of one word. An event before the wait ends the next wait at once, so none is missed; events in a row
//! end one wait.

use std::future::poll_fn;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The events that one task waits for. A second task that waits takes the place of the first.
#[derive(Debug, Default)]
pub struct TaskWakeup(Mutex<WakeupState>);

#[derive(Debug, Default)]
enum WakeupState {
    #[default]
    Idle,
    /// The task waits.
    Awaited(Waker),
    /// An event has come since the last wait.
    Notified,
}

impl TaskWakeup {
    /// Ends the wait of the task; the next one if it does not wait now.
    pub fn notify(&self) {
        let before = replace(&mut *self.lock(), WakeupState::Notified);
        if let WakeupState::Awaited(waker) = before {
            waker.wake();
        }
    }

    /// Completes when an event has come since the last call.
    pub async fn notified(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if matches!(*state, WakeupState::Notified) {
                *state = WakeupState::Idle;
                return Poll::Ready(());
            }
            *state = WakeupState::Awaited(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, WakeupState> {
        // Each state is whole, so a poisoned lock still holds one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Goal: no event is missed, whether it comes before, during or between waits, and a wait that is given up loses none. Method: waits
    /// that are polled by hand, with a waker that counts.
    #[test]
    fn an_event_ends_one_wait() {
        let wakeup = TaskWakeup::default();
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let wakes = || count.0.load(Ordering::Relaxed);

        // Two events before the wait end it, and nothing is left of them.
        wakeup.notify();
        wakeup.notify();
        assert!(pin!(wakeup.notified()).poll(&mut context).is_ready());
        {
            let mut wait = pin!(wakeup.notified());
            assert!(wait.as_mut().poll(&mut context).is_pending());
            assert_eq!(wakes(), 0);
            wakeup.notify();
            assert_eq!(wakes(), 1);
            assert!(wait.as_mut().poll(&mut context).is_ready());
        }
        // An event during a wait that is dropped then ends the next one.
        assert!(pin!(wakeup.notified()).poll(&mut context).is_pending());
        wakeup.notify();
        assert_eq!(wakes(), 2);
        assert!(pin!(wakeup.notified()).poll(&mut context).is_ready());
        assert!(pin!(wakeup.notified()).poll(&mut context).is_pending());
    }
}
