//! Charges the bodies that a client may send ahead over one connection of HTTP/2 or HTTP/3 to the account of the client.
//!
//! A client may send a window of each body before the gateway passes any of it on, as while the request waits or its origin does not read.
//! So a stream reserves what its body may hold, the announced length or else its window, and all streams of a connection together no more
//! than the window of the connection. A stream without room is reset with `REFUSED_STREAM`, and what came of its body is dropped with it.
//!
//! Over HTTP/3 the window of a connection holds what lies behind gaps, too, and each body has pieces ahead beside it.
//!
//! A client that a trusted proxy names has an account of its own, which no cap of the proxy bounds: a body is charged to it as well, as if
//! it had the connection alone.
//!
//! # Limits
//! A body that is announced with at most [`UNCHARGED_BODY`] bytes reserves nothing: the bound on streams is one on such bodies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_base::bounds::{
    CLIENT_CONNECTION_WINDOW, CLIENT_STREAM_WINDOW, HTTP3_BODY_AHEAD, HTTP3_WINDOW, UNCHARGED_BODY,
};

use super::stream_protocol::StreamProtocol;
use sluicegate_budgets::{BudgetCap, BytesPermit, ClientAccount, ClientBytes, NamedBytes};

/// The receive window of one connection.
#[derive(Debug)]
pub(super) struct ConnectionWindow {
    protocol: StreamProtocol,
    budget: Arc<ClientBytes>,
    account: ClientAccount,
    /// The configured maximum of the budget.
    configured: Option<u64>,
    charged: Mutex<ChargedWindows>,
}

/// The windows of the bodies that are being received.
#[derive(Debug, Default)]
struct ChargedWindows {
    /// Their number.
    bodies: u64,
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
    _of_named: Option<NamedBytes>,
}

impl ConnectionWindow {
    /// Returns the window of a connection of the client with this account, without a body.
    pub(super) fn new(
        protocol: StreamProtocol,
        budget: Arc<ClientBytes>,
        account: ClientAccount,
        configured: Option<u64>,
    ) -> Self {
        Self {
            protocol,
            budget,
            account,
            configured,
            charged: Mutex::default(),
        }
    }

    /// Reserves the window of a body with the `announced` length, if any; `None` for a small one. A `named` client is charged as well.
    ///
    /// # Errors
    /// There is no room. It is counted.
    pub(super) fn reserve(
        self: &Arc<Self>,
        announced: Option<u64>,
        named: Option<&ClientAccount>,
    ) -> Result<Option<BodyWindow>, BudgetCap> {
        let window = u64::from(CLIENT_STREAM_WINDOW);
        let bytes = announced.map_or(window, |announced| announced.min(window));
        if bytes <= UNCHARGED_BODY {
            return Ok(None);
        }
        let charge = |account| self.budget.charge_named(account, bytes, self.configured);
        let of_named = named.map(charge).transpose()?;
        let mut charged = self.charged();
        let bodies = charged.bodies + 1;
        let sum = charged.sum + bytes;
        let needed = self.needed(bodies, sum);
        (self.budget).extend(&mut charged.permit, &self.account, needed, self.configured)?;
        charged.bodies = bodies;
        charged.sum = sum;
        drop(charged);
        Ok(Some(BodyWindow {
            connection: Arc::clone(self),
            bytes,
            _of_named: of_named,
        }))
    }

    /// Returns the maximum of the budget.
    pub(super) fn most(&self) -> u64 {
        self.budget.most(self.configured)
    }

    /// Returns the bytes that so many bodies may hold whose windows have this sum.
    fn needed(&self, bodies: u64, sum: u64) -> u64 {
        let most = match self.protocol {
            StreamProtocol::Http2 => CLIENT_CONNECTION_WINDOW.into(),
            StreamProtocol::Http3 => u64::from(HTTP3_WINDOW) + bodies * HTTP3_BODY_AHEAD,
        };
        sum.min(most)
    }

    fn charged(&self) -> MutexGuard<'_, ChargedWindows> {
        // Nothing panics under the lock.
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BodyWindow {
    fn drop(&mut self) {
        let mut charged = self.connection.charged();
        charged.bodies = charged.bodies.saturating_sub(1);
        charged.sum = charged.sum.saturating_sub(self.bytes);
        let needed = self.connection.needed(charged.bodies, charged.sum);
        match &mut charged.permit {
            Some(permit) if needed > 0 => permit.shrink(needed),
            permit => *permit = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_budgets::{ClientAccounts, Resource};
    use sluicegate_config::rules::ClientRules;
    use sluicegate_config::{no_review, parse};

    /// Goal: bodies of one connection reserve what they may hold, and no more than its window. Method: bodies of several lengths that
    /// begin and end, beside the statistics of the budget.
    #[test]
    fn a_connection_reserves_no_more_than_its_window() {
        let budget = Arc::new(ClientBytes::new(Resource::ReceivedBytes, 4 << 20));
        let account = ClientAccounts::default().find("192.0.2.1".parse().unwrap(), &rules());
        let window = |configured| {
            let protocol = StreamProtocol::Http2;
            let budget = Arc::clone(&budget);
            let account = account.clone();
            Arc::new(ConnectionWindow::new(protocol, budget, account, configured))
        };
        let held = || budget.tallies().held;
        let of_stream = u64::from(CLIENT_STREAM_WINDOW);
        let connection = window(None);
        assert!(
            connection
                .reserve(Some(UNCHARGED_BODY), None)
                .unwrap()
                .is_none()
        );
        let small = connection.reserve(Some(10_000), None).unwrap();
        assert_eq!(held(), 10_000);
        let large = connection.reserve(None, None).unwrap();
        assert_eq!(held(), 10_000 + of_stream);
        drop(small);
        assert_eq!(held(), of_stream);
        let others: Vec<_> = (0..9)
            .map(|_| connection.reserve(None, None).unwrap())
            .collect();
        assert_eq!(held(), u64::from(CLIENT_CONNECTION_WINDOW));
        // Alone it has half of the budget: two connections.
        let second = window(None);
        let more: Vec<_> = (0..4)
            .map(|_| second.reserve(None, None).unwrap())
            .collect();
        assert_eq!(
            window(None).reserve(None, None).unwrap_err(),
            BudgetCap::Client
        );
        drop((others, more));
        assert_eq!(held(), of_stream);
        drop(large);
        assert_eq!(held(), 0);
        assert_eq!(budget.tallies().refused, [0, 1]);
    }

    /// Goal: bodies of HTTP/3 reserve what they may hold. Method: one body, then a hundred, beside the statistics of the budget.
    #[test]
    fn bodies_of_http3_reserve_their_pieces_too() {
        let budget = Arc::new(ClientBytes::new(Resource::ReceivedBytes, 64 << 20));
        let account = ClientAccounts::default().find("192.0.2.1".parse().unwrap(), &rules());
        let protocol = StreamProtocol::Http3;
        let window = ConnectionWindow::new(protocol, Arc::clone(&budget), account, None);
        let connection = Arc::new(window);
        let held = || budget.tallies().held;
        let first = connection.reserve(None, None).unwrap();
        assert_eq!(held(), u64::from(CLIENT_STREAM_WINDOW));
        let others: Vec<_> = (1..100)
            .map(|_| connection.reserve(None, None).unwrap())
            .collect();
        assert_eq!(held(), u64::from(HTTP3_WINDOW) + 100 * HTTP3_BODY_AHEAD);
        drop(others);
        assert_eq!(held(), u64::from(CLIENT_STREAM_WINDOW));
        drop(first);
        assert_eq!(held(), 0);
    }

    /// Goal: a client that a proxy names has no more than is left over all connections of the proxy, and leaves room for another one.
    /// Method: two connections of a trusted proxy in a budget of 2 MiB, with bodies of one named client, then of another.
    #[test]
    fn a_named_client_is_charged_as_well() {
        let budget = Arc::new(ClientBytes::new(Resource::ReceivedBytes, 2 << 20));
        let (accounts, rules) = (ClientAccounts::default(), rules());
        let find = |address: &str| accounts.find(address.parse().unwrap(), &rules);
        let proxy = find("10.0.0.1");
        let connection = || {
            Arc::new(ConnectionWindow::new(
                StreamProtocol::Http2,
                Arc::clone(&budget),
                proxy.clone(),
                None,
            ))
        };
        let (first, second) = (connection(), connection());
        let named = find("192.0.2.1");
        let held: Vec<_> = (0..4)
            .map(|_| first.reserve(None, Some(&named)).unwrap())
            .collect();
        let refused = second.reserve(None, Some(&named));
        assert_eq!(refused.unwrap_err(), BudgetCap::Client);
        let other = second.reserve(None, Some(&find("192.0.2.2"))).unwrap();
        assert!(other.is_some());
        drop(held);
        assert_eq!(named.held(Resource::ReceivedBytes), 0);
        assert!(second.reserve(None, Some(&named)).unwrap().is_some());
    }

    fn rules() -> ClientRules {
        let text = "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]\n\
             [[listener]]\naddress = \"127.0.0.1:1\"\n\
             [[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"\" }\n";
        let loaded = parse("test.toml", text, no_review);
        loaded.unwrap().rules.client.clone()
    }
}
