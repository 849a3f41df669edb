//! Picks a server of a pool for an attempt, or makes the request wait for one.
//!
//! Primaries come before backups, and servers that have not failed the request before those that have.
//! [`ServerTier::choose`](crate::balancer::ServerTier::choose) picks among equals.

use std::net::IpAddr;

use sluicegate_base::address::{AddressPrefix, PrefixBits, prefix};
use sluicegate_limiter::Timestamp;

use super::ServerPool;
use crate::adaptive_limit::LimitRefusal;
use crate::balancer::PickContext;
use crate::client_counts::ClientTag;
use crate::pending_queue::AttemptWait;
use crate::pick_request::PickRequest;
use crate::pick_result::PickResult;
use crate::server::ServerPermit;
use sluicegate_config::rules::Balance;
use sluicegate_decide::admission::{KeySeed, RequestFacts};

/// The networks by which an adaptive limit counts clients: what a provider gives to one customer or less.
const CLIENT_NETWORK: PrefixBits = PrefixBits { v4: 24, v6: 56 };

impl ServerPool {
    /// Returns the hash that the request is spread by, where the balance uses a key; `None` where it does not, or the request lacks the
    /// value.
    #[must_use]
    pub fn spread<'a>(&self, facts: impl FnOnce() -> RequestFacts<'a>) -> Option<u64> {
        match &self.rules.balance {
            Balance::Hash(key) => KeySeed::spread(key, &facts()),
            _ => None,
        }
    }

    /// Returns the tag of the client at `address`: its network, in which many addresses are as easy to get as one. Only an adaptive limit
    /// counts by it.
    #[must_use]
    pub fn client_tag(&self, address: IpAddr) -> ClientTag {
        if self.rules.adaptive_concurrency.is_none() {
            return ClientTag::default();
        }
        let network = prefix(address, CLIENT_NETWORK);
        ClientTag(self.seed.tag([b"network", network.as_bytes()]))
    }

    /// Returns why the adaptive limits of all servers in service let no further request of `client` in; `None` where another bound is
    /// reached.
    #[must_use]
    pub fn limit_refusal(&self, client: ClientTag, now: Timestamp) -> Option<LimitRefusal> {
        let set = self.servers.load();
        let mut usable = set.all().filter(|server| server.is_usable(now));
        usable.find_map(|server| server.limit_refusal(client))
    }

    /// Picks a server for a new attempt, and takes a permit there.
    pub(crate) fn choose(&self, request: &PickRequest) -> PickResult<ServerPermit> {
        if request.failed.is_empty() && self.rules.retry.is_some() {
            self.budget.earn();
        }
        match &self.queue {
            // This request does not overtake waiting ones.
            Some(queue) if queue.waiting() > 0 => PickResult::Full,
            _ => self.find(request),
        }
    }

    /// Waits for a permit at a server for a request of `client`; [`PickResult::Full`] where there is none at the end of the wait.
    /// `request` makes a new pick request for each try.
    pub(crate) async fn wait(
        &self,
        wait: &mut AttemptWait,
        client: AddressPrefix,
        request: impl Fn() -> PickRequest,
    ) -> PickResult<ServerPermit> {
        match &self.queue {
            Some(queue) => {
                // Where connections are counted, the next request is woken when this one has its connection, so that they keep
                // their order.
                let has_room = || !self.bounds_connections() && self.has_room(request().now);
                queue
                    .wait(wait, client, has_room, || self.find(&request()))
                    .await
            }
            None => PickResult::Full,
        }
    }

    /// Wakes a waiting request, if there is a place for it.
    pub(crate) fn wake(&self, now: Timestamp) {
        let waits = self.queue.as_ref().is_some_and(|queue| queue.waiting() > 0);
        if waits && self.has_room(now) {
            self.queues.wake();
        }
    }

    fn has_room(&self, now: Timestamp) -> bool {
        let set = self.servers.load();
        set.all()
            .any(|server| server.is_usable(now) && server.has_room(ClientTag::default()))
    }

    /// Picks a server as [`choose`](Self::choose) does, for a request that has waited already.
    pub(crate) fn find(&self, request: &PickRequest) -> PickResult<ServerPermit> {
        let set = self.servers.load();
        let mut terms = PickContext {
            balance: &self.rules.balance,
            now: request.now,
            failed: &request.failed,
            client: request.client,
            spread: request.spread,
            turn: &self.turn,
        };
        if let Some(held) = request.sticky.and_then(|tag| set.tagged(tag, &terms)) {
            return PickResult::Server(held);
        }
        // A server that failed the request before is better than none: the network may have broken the connection.
        for failed in [&request.failed[..], &[]] {
            terms.failed = failed;
            for tier in [&set.primaries, &set.backups] {
                // A place that another request took leaves one server fewer to find, unless it is released meanwhile.
                for _ in 0..=tier.servers().len() {
                    let chosen = tier.choose(&terms);
                    match chosen.map(|server| server.hold(request.client, request.now)) {
                        Some(Some(held)) => return PickResult::Server(held),
                        Some(None) => {}
                        None => break,
                    }
                }
            }
            if request.failed.is_empty() {
                break;
            }
        }
        if set.all().any(|server| server.is_usable(request.now)) {
            PickResult::Full
        } else {
            PickResult::None
        }
    }
}
