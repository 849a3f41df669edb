//! Queues the requests of an origin whose servers are at their bound on requests: a bounded number waits for a bounded time.
//!
//! A server that is slow under load gets slower with every further request, so requests above the bound wait here, where waiting
//! costs nothing. A released place wakes the one that is next by `queue_order` ([`WaitingOrder`]); a request that comes does not look for a
//! place while others wait, and one that was woken too early keeps its ticket, and with it its rank.
//!
//! # Invariants
//! 1. A [`QueueTurn`] is used, or it wakes the next request when it is dropped. So no wake-up is lost when a request ends that
//!    was just woken.
//! 2. Every release of a place wakes a request of each configuration of the origin that has one: after a reload the requests of
//!    the old one still wait for the same servers.
//! 3. A request that waits has a [`QueueSlot`], of which there are `max_pending`. Where connections have a bound, the request
//!    keeps its slot until it has its connection, because it waits again if its server has none for it.
//! 4. A request that gives way to another has left the order; its slot is released when its task runs next, so for that long there
//!    is one more.
//!
//! # Concurrency
//! A place is released before the count of waiting requests is read, and a request is counted before it looks for a place. A
//! full fence between the two, on both sides, makes at least one of them see the other. A request that found no place lines up
//! only if no place was released since it looked (`WaitingLine::wakes`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sluicegate_base::address::AddressPrefix;
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::Instant;

use super::pick_result::PickResult;
use super::waiting_order::{QueueTicket, WaitingOrder};
use sluicegate_config::rules::CircuitBreakerRules;
use sluicegate_transport::timer;

/// The queues of one origin: one for each configuration whose requests are in flight.
#[derive(Debug, Default)]
pub(super) struct OriginQueues {
    queues: Mutex<Vec<Weak<PendingQueue>>>,
    /// Requests that wait in all of them.
    waiting: AtomicU32,
}

/// Requests of one origin that wait for a place at a server.
#[derive(Debug)]
pub struct PendingQueue {
    /// The bounds on waiting requests, their wait, and requests and connections per server.
    pub rules: CircuitBreakerRules,
    origin: Arc<OriginQueues>,
    line: Mutex<WaitingLine>,
    /// Number of slots that are taken.
    taken: AtomicU32,
    /// Number of waiting requests.
    waiting: AtomicU32,
    refused: AtomicU64,
    displaced: AtomicU64,
}

#[derive(Debug)]
struct WaitingLine {
    waiters: WaitingOrder<Sender<QueueTurn>>,
    /// Counts the events that wake a request, even if none was waiting.
    wakes: u64,
}

/// All waits of one attempt.
#[derive(Debug, Default)]
pub struct AttemptWait {
    ticket: Option<QueueTicket>,
    slot: Option<QueueSlot>,
    end: Option<Instant>,
    /// True if the chosen server had no connection for it.
    pub refused: bool,
    /// True if it waited once for a connection that is being released at its server.
    pub(super) settled: bool,
}

/// A permit to wait in a queue.
#[derive(Debug)]
struct QueueSlot(Arc<PendingQueue>);

/// A permit of one request to look for a place before all other waiting requests.
#[derive(Debug)]
struct QueueTurn(Option<Arc<PendingQueue>>);

/// Counts a waiting request until it is dropped.
struct CountedWaiter<'q>(&'q PendingQueue);

/// An entry in the order of waiting requests, removed on drop.
struct OrderedWaiter<'q> {
    queue: &'q PendingQueue,
    ticket: QueueTicket,
    turn: Receiver<QueueTurn>,
}

impl OriginQueues {
    /// Adds a queue.
    pub(super) fn add(self: &Arc<Self>, rules: CircuitBreakerRules) -> Arc<PendingQueue> {
        let queue = Arc::new(PendingQueue {
            rules,
            origin: Arc::clone(self),
            line: Mutex::new(WaitingLine {
                waiters: WaitingOrder::new(rules.queue_order),
                wakes: 0,
            }),
            taken: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            refused: AtomicU64::new(0),
            displaced: AtomicU64::new(0),
        });
        let mut queues = self.queues();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        queue
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Weak<PendingQueue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the next request of each queue after a place was freed.
    pub(super) fn wake(&self) {
        // Pairs with the fence of `PendingQueue::enter`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let queues: Vec<Arc<PendingQueue>> =
            self.queues().iter().filter_map(Weak::upgrade).collect();
        for queue in queues.iter().filter(|queue| queue.waiting() > 0) {
            queue.wake();
        }
    }
}

impl PendingQueue {
    fn line(&self) -> MutexGuard<'_, WaitingLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is the turn of this request of `client` and `choose` finds a place, or no server at all. Returns
    /// [`PickResult::Full`] where too many wait already, where it gives way to another request, or at the end of `wait`. `has_room`
    /// returns whether there is a place for one more.
    pub async fn wait<P>(
        self: &Arc<Self>,
        wait: &mut AttemptWait,
        client: AddressPrefix,
        has_room: impl Fn() -> bool,
        choose: impl FnMut() -> PickResult<P>,
    ) -> PickResult<P> {
        let (chosen, turn) = self.wait_in_order(wait, client, choose).await;
        if matches!(chosen, PickResult::Full) {
            self.refuse();
        }
        if !matches!(chosen, PickResult::Server(_)) || self.rules.max_connections.is_none() {
            wait.slot = None;
        }
        // Wakes the next request if it may find a place too. This one is not counted any more, so a request that arrives from
        // now on and is alone looks for itself.
        if let (PickResult::Server(_), Some(turn)) = (&chosen, turn)
            && !has_room()
        {
            turn.end();
        }
        chosen
    }

    async fn wait_in_order<P>(
        self: &Arc<Self>,
        wait: &mut AttemptWait,
        client: AddressPrefix,
        mut choose: impl FnMut() -> PickResult<P>,
    ) -> (PickResult<P>, Option<QueueTurn>) {
        let end = wait.end(self);
        let mut wakes = self.line().wakes;
        if wait.slot.is_none() {
            wait.slot = self.take_slot(client);
        }
        if wait.slot.is_none() {
            return (PickResult::Full, None);
        }
        // Before it is counted: whoever sees the count and sends another request knows that the other one ranks behind.
        let ticket = wait.ticket();
        let (counted, ahead) = self.enter();
        let mut turn = (ahead == 0).then(|| QueueTurn::new(self));
        loop {
            if let Some(own) = turn.take() {
                wakes = self.line().wakes;
                match choose() {
                    PickResult::Full => own.end(),
                    chosen => {
                        drop(counted);
                        return (chosen, Some(own));
                    }
                }
            }
            turn = match self.join_order((ticket, client), wakes) {
                None => Some(QueueTurn::new(self)),
                Some(mut lined) => match tokio::time::timeout_at(end, &mut lined.turn).await {
                    Ok(Ok(turn)) => Some(turn),
                    Ok(Err(_)) | Err(_) => return (PickResult::Full, None),
                },
            };
        }
    }

    /// Takes one of the `max_pending` slots. Where all are taken, a request that gives way to one of `client` is told to go; `None` where
    /// none does.
    fn take_slot(self: &Arc<Self>, client: AddressPrefix) -> Option<QueueSlot> {
        let take = |taken: u32| (taken < self.rules.max_pending).then(|| taken + 1);
        // Relaxed: the number publishes nothing. Each failed round is a slot that was taken or released by another request.
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_err() {
            // Without its sender, the wait of a request ends.
            drop(self.line().waiters.displace(client)?);
            self.displaced.fetch_add(1, Ordering::Relaxed);
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        Some(QueueSlot(Arc::clone(self)))
    }

    /// Counts a request that waits from now on, and returns the number before it.
    fn enter(&self) -> (CountedWaiter<'_>, u32) {
        let ahead = self.waiting.fetch_add(1, Ordering::Relaxed);
        self.origin.waiting.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence of `OriginQueues::wake`: a place that is released from here on sees the count, and one that was
        // released before is found.
        fence(Ordering::SeqCst);
        (CountedWaiter(self), ahead)
    }

    /// Enters the order, unless a place was freed since `wakes` was read.
    fn join_order(
        &self,
        (ticket, client): (QueueTicket, AddressPrefix),
        wakes: u64,
    ) -> Option<OrderedWaiter<'_>> {
        let mut line = self.line();
        if line.wakes != wakes {
            return None;
        }
        let (sender, turn) = oneshot::channel();
        line.waiters.insert(ticket, client, sender);
        Some(OrderedWaiter {
            queue: self,
            ticket,
            turn,
        })
    }

    /// Wakes the next request.
    fn wake(self: &Arc<Self>) {
        let next = {
            let mut line = self.line();
            line.wakes += 1;
            line.waiters.pop()
        };
        if let Some(next) = next {
            // A turn that is not received wakes the next request (invariant 1).
            let _ = next.send(QueueTurn::new(self));
        }
    }

    /// Counts a request that was refused a place.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that were refused a place.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of those that had waited and gave way to another request.
    #[must_use]
    pub fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }
}

impl QueueTurn {
    fn new(queue: &Arc<PendingQueue>) -> Self {
        Self(Some(Arc::clone(queue)))
    }

    /// Ends the turn without waking another request: there is no place for it.
    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.wake();
        }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.origin.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OrderedWaiter<'_> {
    fn drop(&mut self) {
        self.queue.line().waiters.remove(self.ticket);
    }
}

impl AttemptWait {
    /// Returns the deadline of all its waits: `pending_timeout` after the first one began.
    pub fn end(&mut self, queue: &PendingQueue) -> Instant {
        *self
            .end
            .get_or_insert_with(|| timer::deadline(queue.rules.pending_timeout))
    }

    /// Returns its rank among all waiting requests.
    pub(super) fn ticket(&mut self) -> QueueTicket {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the number orders requests and publishes nothing.
        *self
            .ticket
            .get_or_insert_with(|| QueueTicket(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}
