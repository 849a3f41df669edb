//! Charges the bodies that a client may send ahead over one connection of HTTP/2 to the account of the client.
//!
//! A client may send a window of each body before the gateway passes any of it on, as while the request waits or its origin does not read.
//! So a stream reserves what its body may hold, the announced length or else its window, and all streams of a connection together no more
//! than the window of the connection. A stream without room is reset with `REFUSED_STREAM`, and what came of its body is dropped with it.
//!
//! # Limits
//! A body that is announced with at most [`UNCHARGED_BODY`] bytes reserves nothing: the bound on streams is one on such bodies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_base::bounds::{CLIENT_CONNECTION_WINDOW, CLIENT_STREAM_WINDOW, UNCHARGED_BODY};

use crate::budgets::{BudgetCap, BytesPermit, ClientAccount, ClientBytes};

/// The receive window of one connection.
#[derive(Debug)]
pub(super) struct ConnectionWindow {
    budget: Arc<ClientBytes>,
    account: ClientAccount,
    /// The configured maximum of the budget.
    configured: Option<u64>,
    charged: Mutex<ChargedWindows>,
}

/// The windows of the bodies that are being received.
#[derive(Debug, Default)]
struct ChargedWindows {
    /// Their sum.
    sum: u64,
    /// The reservation for them.
    permit: Option<BytesPermit>,
}

/// The part of a connection's window for one body. Dropping it releases the part.
#[derive(Debug)]
pub(super) struct BodyWindow {
    connection: Arc<ConnectionWindow>,
    bytes: u64,
}

impl ConnectionWindow {
    /// Returns the window of a connection of the client with this account, without a body.
    pub(super) fn new(
        budget: Arc<ClientBytes>,
        account: ClientAccount,
        configured: Option<u64>,
    ) -> Self {
        Self {
            budget,
            account,
            configured,
            charged: Mutex::default(),
        }
    }

    /// Reserves the window of a body with the `announced` length, if any; `None` for a small one.
    ///
    /// # Errors
    /// There is no room. It is counted.
    pub(super) fn reserve(
        self: &Arc<Self>,
        announced: Option<u64>,
    ) -> Result<Option<BodyWindow>, BudgetCap> {
        let window = u64::from(CLIENT_STREAM_WINDOW);
        let bytes = announced.map_or(window, |announced| announced.min(window));
        if bytes <= UNCHARGED_BODY {
            return Ok(None);
        }
        let mut charged = self.charged();
        let sum = charged.sum + bytes;
        let needed = needed(sum);
        (self.budget).extend(&mut charged.permit, &self.account, needed, self.configured)?;
        charged.sum = sum;
        drop(charged);
        Ok(Some(BodyWindow {
            connection: Arc::clone(self),
            bytes,
        }))
    }

    /// Returns the maximum of the budget.
    pub(super) fn most(&self) -> u64 {
        self.budget.most(self.configured)
    }

    fn charged(&self) -> MutexGuard<'_, ChargedWindows> {
        // Nothing panics under the lock.
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BodyWindow {
    fn drop(&mut self) {
        let mut charged = self.connection.charged();
        charged.sum = charged.sum.saturating_sub(self.bytes);
        let needed = needed(charged.sum);
        match &mut charged.permit {
            Some(permit) if needed > 0 => permit.shrink(needed),
            permit => *permit = None,
        }
    }
}

/// Returns the bytes that bodies may hold whose windows have this sum.
fn needed(sum: u64) -> u64 {
    sum.min(CLIENT_CONNECTION_WINDOW.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::{ClientAccounts, Resource};
    use crate::config::rules::ClientRules;
    use crate::config::{no_review, parse};

    /// Goal: bodies of one connection reserve what they may hold, and no more than its window. Method: bodies of several lengths that
    /// begin and end, beside the statistics of the budget.
    #[test]
    fn a_connection_reserves_no_more_than_its_window() {
        let budget = Arc::new(ClientBytes::new(Resource::ReceivedBytes, 4 << 20));
        let account = ClientAccounts::default().find("192.0.2.1".parse().unwrap(), &rules());
        let window = |configured| {
            let window = ConnectionWindow::new(Arc::clone(&budget), account.clone(), configured);
            Arc::new(window)
        };
        let held = || budget.tallies().held;
        let of_stream = u64::from(CLIENT_STREAM_WINDOW);
        let connection = window(None);
        assert!(connection.reserve(Some(UNCHARGED_BODY)).unwrap().is_none());
        let small = connection.reserve(Some(10_000)).unwrap();
        assert_eq!(held(), 10_000);
        let large = connection.reserve(None).unwrap();
        assert_eq!(held(), 10_000 + of_stream);
        drop(small);
        assert_eq!(held(), of_stream);
        let others: Vec<_> = (0..9).map(|_| connection.reserve(None).unwrap()).collect();
        assert_eq!(held(), u64::from(CLIENT_CONNECTION_WINDOW));
        // Alone it has half of the budget: two connections.
        let second = window(None);
        let more: Vec<_> = (0..4).map(|_| second.reserve(None).unwrap()).collect();
        assert_eq!(window(None).reserve(None).unwrap_err(), BudgetCap::Client);
        drop((others, more));
        assert_eq!(held(), of_stream);
        drop(large);
        assert_eq!(held(), 0);
        assert_eq!(budget.tallies().refused, [0, 1]);
    }

    fn rules() -> ClientRules {
        let text = "[[listener]]\naddress = \"127.0.0.1:1\"\n\
             [[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"\" }\n";
        let loaded = parse("test.toml", text, no_review);
        loaded.unwrap().rules.client.clone()
    }
}
