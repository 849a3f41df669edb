//! Keeps a timer that is due soon in each thread's runtime, so that setting a later one takes no system call.
//!
//! tokio wakes its event loop, by a write to an eventfd, whenever a timer is set that is due before all others, even if the
//! thread of the loop sets it. Every request that waits for an origin sets one, seconds ahead, and mostly no other was due
//! before it: that took one or two system calls a request, and one more turn of the loop. Beside a timer that is due within a
//! second none of them comes first.

use std::cell::Cell;
use std::time::Duration;

/// The interval: shorter than the timeouts of waiting requests, and long for an idle thread.
const BEAT: Duration = Duration::from_secs(1);

thread_local! {
    static BEATS: Cell<bool> = const { Cell::new(false) };
}

/// Starts the timer of this thread's runtime, once. Each of the gateway's threads has a runtime of its own.
pub(super) fn keep() {
    if BEATS.replace(true) {
        return;
    }
    tokio::spawn(async {
        loop {
            tokio::time::sleep(BEAT).await;
        }
    });
}
