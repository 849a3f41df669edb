//! Owns the waker of a task that waits for an event.

use std::task::{Context, Waker};

/// The waker of the task that waits, if one does.
#[derive(Debug, Default)]
pub struct TaskWaker(Option<Waker>);

impl TaskWaker {
    /// Notes the task that waits from now on.
    pub fn wait(&mut self, context: &Context<'_>) {
        let waker = context.waker();
        if !self.0.as_ref().is_some_and(|own| own.will_wake(waker)) {
            self.0 = Some(waker.clone());
        }
    }

    /// Wakes the task, which then waits no longer.
    pub fn wake(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }

    /// Wakes the task, which still waits.
    pub fn wake_again(&self) {
        if let Some(waker) = &self.0 {
            waker.wake_by_ref();
        }
    }
}
