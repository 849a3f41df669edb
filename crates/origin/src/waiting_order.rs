//! Orders the requests that wait for a server of an origin: who is next, and who gives up its place where there is no room for another.
//!
//! | order | next | gives way to a new request |
//! |---|---|---|
//! | `fifo` | the oldest | none |
//! | `lifo` | the newest | the oldest |
//! | `fair` | the oldest of the client whose turn it is | the newest of the client with the most, unless the new one would have as many |
//!
//! First in, first out serves nobody in time once the queue is longer than the patience of its clients. The newest first serves some of
//! them in time (Maurer, "Fail at Scale", ACM Queue 13(8), 2015, §Adaptive LIFO). Both let one client fill the queue; in turn, it cannot.
//!
//! # Limits
//! Memory for the requests that wait, of which the queue bounds the number. Each operation takes logarithmic time.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate_base::address::AddressPrefix;

use sluicegate_config::rules::QueueOrder;

/// The rank of a request among those that wait: lower ones came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueTicket(pub(super) u64);

/// The requests that wait, each with what wakes it.
#[derive(Debug)]
pub(super) struct WaitingOrder<T> {
    order: QueueOrder,
    waiters: BTreeMap<QueueTicket, (AddressPrefix, T)>,
    /// The clients in turn, with `fair`.
    clients: ClientTurns,
}

/// The clients of waiting requests.
#[derive(Debug, Default)]
struct ClientTurns {
    clients: BTreeMap<AddressPrefix, ClientTurn>,
    /// The clients by turn: the first is next.
    turns: BTreeMap<u64, AddressPrefix>,
    /// The clients by their number of requests.
    counts: BTreeSet<(usize, AddressPrefix)>,
    last_turn: u64,
}

#[derive(Debug)]
struct ClientTurn {
    turn: u64,
    tickets: BTreeSet<QueueTicket>,
}

impl<T> WaitingOrder<T> {
    /// Returns an order without requests.
    pub(super) fn new(order: QueueOrder) -> Self {
        Self {
            order,
            waiters: BTreeMap::new(),
            clients: ClientTurns::default(),
        }
    }

    /// Adds a request of `client`.
    pub(super) fn insert(&mut self, ticket: QueueTicket, client: AddressPrefix, waker: T) {
        self.waiters.insert(ticket, (client, waker));
        if self.order == QueueOrder::Fair {
            self.clients.insert(ticket, client);
        }
    }

    /// Removes a request, if it is there.
    pub(super) fn remove(&mut self, ticket: QueueTicket) -> Option<T> {
        let (client, waker) = self.waiters.remove(&ticket)?;
        self.clients.remove(ticket, client);
        Some(waker)
    }

    /// Removes the request that is next.
    pub(super) fn pop(&mut self) -> Option<T> {
        let next = match self.order {
            QueueOrder::Fifo => self.oldest(),
            QueueOrder::Lifo => self.waiters.keys().next_back().copied(),
            QueueOrder::Fair => self.clients.take_turn(),
        };
        self.remove(next?)
    }

    /// Removes the request that gives way to a new one of `client`; `None` where the new one has to go.
    pub(super) fn displace(&mut self, client: AddressPrefix) -> Option<T> {
        let displaced = match self.order {
            QueueOrder::Fifo => None,
            QueueOrder::Lifo => self.oldest(),
            QueueOrder::Fair => self.clients.displaced_by(client),
        };
        self.remove(displaced?)
    }

    fn oldest(&self) -> Option<QueueTicket> {
        self.waiters.keys().next().copied()
    }
}

impl ClientTurns {
    fn insert(&mut self, ticket: QueueTicket, client: AddressPrefix) {
        let entry = self.clients.entry(client).or_insert_with(|| {
            self.last_turn += 1;
            self.turns.insert(self.last_turn, client);
            ClientTurn {
                turn: self.last_turn,
                tickets: BTreeSet::new(),
            }
        });
        self.counts.remove(&(entry.tickets.len(), client));
        entry.tickets.insert(ticket);
        self.counts.insert((entry.tickets.len(), client));
    }

    fn remove(&mut self, ticket: QueueTicket, client: AddressPrefix) {
        let Some(entry) = self.clients.get_mut(&client) else {
            return;
        };
        self.counts.remove(&(entry.tickets.len(), client));
        entry.tickets.remove(&ticket);
        if entry.tickets.is_empty() {
            self.turns.remove(&entry.turn);
            self.clients.remove(&client);
        } else {
            self.counts.insert((entry.tickets.len(), client));
        }
    }

    /// Returns the oldest request of the client that is next, which goes behind the others.
    fn take_turn(&mut self) -> Option<QueueTicket> {
        let (_, client) = self.turns.pop_first()?;
        let entry = self.clients.get_mut(&client)?;
        self.last_turn += 1;
        entry.turn = self.last_turn;
        self.turns.insert(entry.turn, client);
        entry.tickets.first().copied()
    }

    /// Returns the newest request of the client with the most, if it has more than `client` would have.
    fn displaced_by(&self, client: AddressPrefix) -> Option<QueueTicket> {
        let own = (self.clients.get(&client)).map_or(0, |entry| entry.tickets.len());
        let (most, crowd) = self.counts.last()?;
        let crowd = (*most > own + 1).then(|| self.clients.get(crowd))??;
        crowd.tickets.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use sluicegate_base::address::{PrefixBits, prefix};

    use super::*;

    fn client(number: u8) -> AddressPrefix {
        prefix(
            Ipv4Addr::new(10, 0, 0, number).into(),
            PrefixBits::default(),
        )
    }

    /// Returns an order of these requests, each a letter of its client and its number among all, in this order.
    fn waiting(order: QueueOrder, clients: &str) -> WaitingOrder<String> {
        let mut waiting = WaitingOrder::new(order);
        for (number, letter) in clients.chars().enumerate() {
            let ticket = QueueTicket(number as u64);
            waiting.insert(ticket, client(letter as u8), format!("{letter}{number}"));
        }
        waiting
    }

    fn served(mut waiting: WaitingOrder<String>) -> String {
        std::iter::from_fn(|| waiting.pop()).collect()
    }

    /// Goal: each order serves as the table says. Method: requests of three clients, all served.
    #[test]
    fn requests_are_served_in_their_order() {
        for (order, expected) in [
            (QueueOrder::Fifo, "a0a1a2b3a4c5b6"),
            (QueueOrder::Lifo, "b6c5a4b3a2a1a0"),
            (QueueOrder::Fair, "a0b3c5a1b6a2a4"),
        ] {
            assert_eq!(served(waiting(order, "aaabacb")), expected);
        }
    }

    /// Goal: each order gives way as the table says. Method: a new request of a client with none, with some and with the most.
    #[test]
    fn requests_give_way_in_their_order() {
        for (order, by, expected) in [
            (QueueOrder::Fifo, 'd', None),
            (QueueOrder::Lifo, 'a', Some("a0")),
            (QueueOrder::Fair, 'd', Some("a4")),
            (QueueOrder::Fair, 'b', Some("a4")),
            (QueueOrder::Fair, 'a', None),
        ] {
            let mut waiting = waiting(order, "aaabacb");
            assert_eq!(
                waiting.displace(client(by as u8)).as_deref(),
                expected,
                "{order:?} {by}"
            );
        }
        // Nobody has more than the new client would have.
        assert_eq!(
            waiting(QueueOrder::Fair, "abc").displace(client(b'd')),
            None
        );
    }

    proptest! {
        /// Goal: whatever happens, each request is there until it is removed once, and with `fair` no client is served twice while another
        /// waits. Method: arbitrary operations beside a list of what waits.
        #[test]
        fn no_request_is_lost(
            order in prop_oneof![Just(QueueOrder::Fifo), Just(QueueOrder::Lifo), Just(QueueOrder::Fair)],
            operations in prop::collection::vec((0_u8..4, 0_u8..4), 0..60),
        ) {
            let mut waiting = WaitingOrder::new(order);
            let mut model: Vec<(u64, u8)> = Vec::new();
            let mut waited_through = [0_usize; 4];
            for (number, (operation, of)) in operations.into_iter().enumerate() {
                let number = number as u64;
                let gone = match operation {
                    0 | 1 => {
                        waiting.insert(QueueTicket(number), client(of), number);
                        model.push((number, of));
                        continue;
                    }
                    2 => waiting.pop(),
                    _ => waiting.displace(client(of)),
                };
                match gone {
                    Some(gone) => {
                        let at = model.iter().position(|(number, _)| *number == gone).expect("it waits");
                        let (_, served) = model.remove(at);
                        if operation == 2 && order == QueueOrder::Fair {
                            waited_through[usize::from(served)] = 0;
                            for other in 0..4 {
                                let waits = model.iter().any(|(_, of)| *of == other);
                                let turns = &mut waited_through[usize::from(other)];
                                *turns = if waits && other != served { *turns + 1 } else { 0 };
                                prop_assert!(*turns <= 3, "a client waited while another had two turns");
                            }
                        }
                    }
                    None => prop_assert!(model.is_empty() || operation == 3),
                }
            }
            prop_assert_eq!(waiting.waiters.len(), model.len());
            if order == QueueOrder::Fair {
                prop_assert_eq!(waiting.clients.turns.len(), waiting.clients.clients.len());
                prop_assert_eq!(waiting.clients.counts.iter().map(|(count, _)| count).sum::<usize>(), model.len());
            }
        }
    }
}
