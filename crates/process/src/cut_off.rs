//! Ends the requests that are still in flight when a drain has lasted `shutdown_timeout`.
//!
//! The tasks of their connections are woken and dropped, so that each request is recorded and settled before the process ends.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// Tells the connections of clients that their time is over.
#[derive(Default)]
pub struct CutOff {
    is_due: AtomicBool,
    due: Notify,
}

impl CutOff {
    /// Ends all connections.
    pub fn end_connections(&self) {
        self.is_due.store(true, Ordering::Release);
        self.due.notify_waiters();
    }

    /// Serves a connection until it ends, or until it is cut off. It stays where it is pinned: each future that takes another one has room
    /// for it twice.
    pub async fn connection(&self, served: Pin<&mut (impl Future + ?Sized)>) {
        let mut due = pin!(self.due.notified());
        // Registers this task, whose waker stays the same, once instead of at each wake-up.
        poll_fn(|context| Poll::Ready(due.as_mut().poll(context).is_ready())).await;
        self.stream(served).await;
    }

    /// Serves a stream until it ends, or until the end of its connection, which is cut off, wakes it.
    pub async fn stream(&self, mut served: Pin<&mut (impl Future + ?Sized)>) {
        poll_fn(|context| {
            if self.is_due.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            served.as_mut().poll(context).map(drop)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::*;

    /// Goal: a connection that waits is dropped, and one that ends by itself ends. Method: both, and one that begins afterwards.
    #[tokio::test]
    async fn what_waits_is_dropped_once_its_time_is_over() {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let cut_off = Arc::new(CutOff::default());
        cut_off.connection(pin!(async {})).await;
        let is_dropped = Arc::new(AtomicBool::new(false));
        let waits = {
            let (cut_off, held) = (Arc::clone(&cut_off), Dropped(Arc::clone(&is_dropped)));
            tokio::spawn(async move {
                let waits = async {
                    let _held = held;
                    pending::<()>().await;
                };
                cut_off.connection(pin!(waits)).await;
            })
        };
        // The other task runs on the same thread.
        tokio::task::yield_now().await;
        assert!(!waits.is_finished() && !is_dropped.load(Ordering::Relaxed));
        cut_off.end_connections();
        waits.await.unwrap();
        assert!(is_dropped.load(Ordering::Relaxed));
        cut_off.connection(pin!(pending::<()>())).await;
    }
}
