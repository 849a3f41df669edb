//! The turn of a test that starts `sluicegate demo`: each demo prefers the same ports, and tries them before it listens there.

use tokio::sync::{Mutex, MutexGuard};

static TURN: Mutex<()> = Mutex::const_new(());

/// Waits until no other test has a demo.
pub async fn demo_turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}
