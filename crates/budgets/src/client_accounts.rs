//! Counts what each client holds of the resources of the process: one account per client, with one number per resource.
//!
//! A connection finds the account of its client once, and its requests are charged there; a request that a trusted proxy sends for
//! another client finds that client's account by the address. A charge is one compare-and-swap, and ends when it is dropped.
//!
//! A client is an address of IPv4, or a /64 of IPv6, as `client.ip` in a key. A customer may have a /56 or a /48 of IPv6, which are 256 and
//! 65,536 of them, so a charge of a /64 is charged to its /56 and to its /48 too. These have twice and four times the share of a client:
//! one /64 does not take the whole share of the others around it. A trusted proxy carries many clients, so its own account has no bound.
//!
//! # Concurrency
//! Accounts are found under the lock of a shard; charges take no lock. A number never exceeds its bound, under any interleaving.
//!
//! # Limits
//! An account exists while a connection, a request or a charge refers to it, so there are no more clients with an account than of those,
//! and at most two networks for each.

use std::fmt::{self, Display, Formatter};
use std::mem;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ahash::{HashMap, RandomState};
use sluicegate_base::address::{AddressPrefix, PrefixBits, prefix};
use sluicegate_base::bounds::ACCOUNT_SHARDS;
use sluicegate_decide::client::{PeerTrust, hop};

use sluicegate_config::rules::ClientRules;

/// One address of either family.
const ONE_ADDRESS: PrefixBits = PrefixBits { v4: 32, v6: 128 };

/// The networks of IPv6 around a client, the widest first.
const NETWORKS: [PrefixBits; 2] = [PrefixBits { v4: 32, v6: 48 }, PrefixBits { v4: 32, v6: 56 }];

/// The accounts that a charge is made to: of the networks around the client, the widest first, and of the client.
pub(super) const LEVELS: usize = NETWORKS.len() + 1;

/// The shares of these accounts, in shares of a client.
pub(super) const SHARES: [u64; LEVELS] = [4, 2, 1];

/// A resource that is counted for each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Open connections.
    Connections,
    /// Streams of HTTP/2.
    Streams,
    /// Requests in flight to origins.
    OriginRequests,
    /// Unread bytes of answers.
    UnreadBytes,
    /// Bytes of bodies that are read for keys.
    KeyBodyBytes,
    /// Bytes of bodies that are kept for another attempt.
    ReplayBytes,
    /// Bytes of heads that are not whole or large, and of bodies that were sent ahead.
    ReceivedBytes,
    /// TLS handshakes in progress.
    Handshakes,
}

/// The accounts of the clients that hold something.
#[derive(Clone, Debug)]
pub struct ClientAccounts(Arc<AccountShards>);

/// The account of one client. Its clones are the same account.
#[derive(Clone, Debug)]
pub struct ClientAccount(Arc<AccountEntry>);

/// A part of a resource that a client holds. Dropping it returns the part.
#[derive(Debug)]
#[must_use = "dropped, the charge ends at once"]
pub(super) struct AccountCharge {
    account: ClientAccount,
    resource: Resource,
    amount: u64,
}

/// The clients that an account is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AccountOwner {
    network: AddressPrefix,
    trust: PeerTrust,
}

#[derive(Debug)]
struct AccountEntry {
    owner: AccountOwner,
    held: [AtomicU64; Resource::COUNT],
    /// The account of the next wider network; `None` for the widest, and outside of IPv6.
    network: Option<Arc<AccountEntry>>,
    shards: Arc<AccountShards>,
}

type AccountShard = HashMap<AccountOwner, Weak<AccountEntry>>;

#[derive(Debug)]
struct AccountShards {
    shards: [Mutex<AccountShard>; ACCOUNT_SHARDS],
    hasher: RandomState,
}

impl Resource {
    const COUNT: usize = Self::Handshakes as usize + 1;
}

impl Default for ClientAccounts {
    fn default() -> Self {
        Self(Arc::new(AccountShards {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
        }))
    }
}

impl ClientAccounts {
    /// Returns the account of the client at `address`.
    #[must_use]
    pub fn find(&self, address: IpAddr, rules: &ClientRules) -> ClientAccount {
        let owner = AccountOwner::new(address, hop(address, rules));
        let known = self.0.shard(owner).get(&owner).and_then(Weak::upgrade);
        if let Some(entry) = known {
            return ClientAccount(entry);
        }
        let mut network = None;
        if owner.has_networks() {
            for bits in NETWORKS {
                network = Some(self.entry(owner.within(address, bits), network));
            }
        }
        ClientAccount(self.entry(owner, network))
    }

    /// Returns the account of `owner`, which is new within `network` where there is none.
    fn entry(&self, owner: AccountOwner, network: Option<Arc<AccountEntry>>) -> Arc<AccountEntry> {
        let mut shard = self.0.shard(owner);
        if let Some(entry) = shard.get(&owner).and_then(Weak::upgrade) {
            return entry;
        }
        let entry = Arc::new(AccountEntry {
            owner,
            held: Default::default(),
            network,
            shards: Arc::clone(&self.0),
        });
        shard.insert(owner, Arc::downgrade(&entry));
        entry
    }

    /// Returns the accounts of the clients that hold most, by this number of each, at most `most` of them, the largest first. It looks at
    /// all accounts, so it is for operators, and for a few lines of the log.
    #[must_use]
    pub fn largest<Held: Ord + Default>(
        &self,
        most: usize,
        held: impl Fn(&ClientAccount) -> Held,
    ) -> Vec<ClientAccount> {
        let mut largest: Vec<(Held, ClientAccount)> = Vec::new();
        for shard in &self.0.shards {
            // An account that ends takes the lock of its shard, so the lock is released before the last use of any.
            let entries: Vec<_> = {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                shard.values().filter_map(Weak::upgrade).collect()
            };
            let clients = |entry: &Arc<AccountEntry>| entry.owner.is_client();
            let accounts = entries.into_iter().filter(clients).map(ClientAccount);
            let accounts = accounts.map(|account| (held(&account), account));
            largest.extend(accounts.filter(|(held, _)| *held > Held::default()));
            largest.sort_by(|(held, account), (other_held, other)| {
                let order = other_held.cmp(held);
                order.then_with(|| account.0.owner.network.cmp(&other.0.owner.network))
            });
            largest.truncate(most);
        }
        largest.into_iter().map(|(_, account)| account).collect()
    }
}

impl ClientAccount {
    /// Returns whether the client at `address` has this account.
    #[must_use]
    pub fn is_of(&self, address: IpAddr) -> bool {
        let owner = self.0.owner;
        AccountOwner::new(address, owner.trust) == owner
    }

    /// Returns whether its client is a trusted proxy, which no cap of one client bounds.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.0.owner.trust == PeerTrust::Trusted
    }

    /// Returns how much of a resource its client holds.
    #[must_use]
    pub fn held(&self, resource: Resource) -> u64 {
        self.0.held(resource)
    }

    /// Returns what the widest network of its client, the next one and the client hold of a resource. A trusted proxy is a client without a
    /// share, and stands for none.
    pub(super) fn load(&self, resource: Resource) -> [u64; LEVELS] {
        match self.is_exempt() {
            true => [0; LEVELS],
            false => (self.levels()).map(|level| level.held(resource)),
        }
    }

    /// Returns whether `other` may get a part of a resource in place of this client: in the widest networks that are not of both this one
    /// holds more, or they are one client. The parts of a trusted proxy are for trusted proxies.
    pub(super) fn makes_room_for(&self, other: &Self, resource: Resource) -> bool {
        if self.is_exempt() || other.is_exempt() {
            return other.is_exempt();
        }
        let both = self.levels().into_iter().zip(other.levels());
        let mut differing = both.skip_while(|(own, its)| std::ptr::eq(*own, *its));
        differing
            .next()
            .is_none_or(|(own, its)| own.held(resource) > its.held(resource))
    }

    /// Returns the accounts that its charges are made to, the widest network first. Where there are no networks, each is its own.
    fn levels(&self) -> [&AccountEntry; LEVELS] {
        let client = &*self.0;
        let narrow = client.network.as_deref().unwrap_or(client);
        let wide = narrow.network.as_deref().unwrap_or(narrow);
        [wide, narrow, client]
    }

    /// Charges so much of a resource, if it `fits` beside what the client holds of it, and beside the same part of what each network around
    /// it holds. What a trusted proxy holds always fits.
    pub(super) fn charge(
        &self,
        resource: Resource,
        amount: u64,
        fits: impl Fn(u64) -> bool,
    ) -> Option<AccountCharge> {
        let is_exempt = self.is_exempt();
        for (entry, share) in self.0.with_networks().zip(SHARES.into_iter().rev()) {
            if !entry.add(resource, amount, |held| is_exempt || fits(held / share)) {
                let charged = self.0.with_networks();
                charged
                    .take_while(|charged| !std::ptr::eq(*charged, entry))
                    .for_each(|charged| charged.release(resource, amount));
                return None;
            }
        }
        Some(AccountCharge {
            account: self.clone(),
            resource,
            amount,
        })
    }
}

impl AccountEntry {
    /// Returns this account, and those of the networks around it.
    fn with_networks(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |entry| entry.network.as_deref())
    }

    fn held(&self, resource: Resource) -> u64 {
        // Relaxed: a number to look at.
        self.held[resource as usize].load(Ordering::Relaxed)
    }

    /// Adds so much, if it `fits` beside what is held. Returns whether it did.
    fn add(&self, resource: Resource, amount: u64, fits: impl Fn(u64) -> bool) -> bool {
        let add = |held: u64| fits(held).then(|| held.saturating_add(amount));
        // Relaxed, here and below: the numbers bound memory and descriptors, and publish nothing.
        let held = &self.held[resource as usize];
        (held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)).is_ok()
    }

    fn release(&self, resource: Resource, amount: u64) {
        self.held[resource as usize].fetch_sub(amount, Ordering::Relaxed);
    }
}

/// The address of the client, `192.0.2.7`, or the network that counts as one, `2001:db8::/64`.
impl Display for ClientAccount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let network = self.0.owner.network;
        let first = network.network();
        match first {
            IpAddr::V4(_) if network.length() == ONE_ADDRESS.v4 => first.fmt(f),
            IpAddr::V6(_) if network.length() == ONE_ADDRESS.v6 => first.fmt(f),
            _ => network.fmt(f),
        }
    }
}

impl AccountCharge {
    /// Returns the account.
    pub(super) fn account(&self) -> &ClientAccount {
        &self.account
    }

    /// Adds another charge of the same account and resource.
    pub(super) fn absorb(&mut self, other: &mut Self) {
        self.amount += mem::take(&mut other.amount);
    }

    /// Returns so much of the charge.
    pub(super) fn reduce(&mut self, by: u64) {
        let by = by.min(self.amount);
        self.amount -= by;
        for entry in self.account.0.with_networks() {
            entry.release(self.resource, by);
        }
    }
}

impl Drop for AccountCharge {
    fn drop(&mut self) {
        self.reduce(self.amount);
    }
}

impl AccountOwner {
    fn new(address: IpAddr, trust: PeerTrust) -> Self {
        let bits = match trust {
            PeerTrust::Trusted => ONE_ADDRESS,
            PeerTrust::Stranger => PrefixBits::default(),
        };
        Self {
            network: prefix(address, bits),
            trust,
        }
    }

    /// Returns whether networks around it are charged too.
    fn has_networks(self) -> bool {
        self.trust == PeerTrust::Stranger && self.network.network().is_ipv6()
    }

    /// Returns the network of so many bits around this client, which is at `address`.
    fn within(self, address: IpAddr, bits: PrefixBits) -> Self {
        Self {
            network: prefix(address, bits),
            ..self
        }
    }

    /// Returns whether it is a client, not a network around clients.
    fn is_client(self) -> bool {
        !self.has_networks() || self.network.length() >= PrefixBits::default().v6
    }
}

impl AccountShards {
    fn shard(&self, owner: AccountOwner) -> MutexGuard<'_, AccountShard> {
        let place = self.hasher.hash_one(owner) % ACCOUNT_SHARDS as u64;
        let place = usize::try_from(place).unwrap_or(0);
        let shard = &self.shards[place];
        // Nothing panics under the lock.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AccountEntry {
    fn drop(&mut self) {
        let mut shard = self.shards.shard(self.owner);
        // Another account of the same client may have taken the place meanwhile.
        if (shard.get(&self.owner)).is_some_and(|entry| entry.strong_count() == 0) {
            shard.remove(&self.owner);
            if shard.len() < shard.capacity() / 4 {
                shard.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sluicegate_config::{no_review, parse};

    fn rules(lines: &str) -> ClientRules {
        let text = format!(
            "{lines}\n[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"\" }}\n"
        );
        parse("test.toml", &text, no_review).unwrap().rules.client
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn accounts(of: &ClientAccounts) -> usize {
        let shards = of.0.shards.iter();
        shards.map(|shard| shard.lock().unwrap().len()).sum()
    }

    /// Returns how many charges of one, out of at most `most`, the account takes.
    fn fill(account: &ClientAccount, most: u64, kept: &mut Vec<AccountCharge>) -> usize {
        let before = kept.len();
        let charge = || account.charge(Resource::Streams, 1, |held| held < most);
        kept.extend(std::iter::from_fn(charge).take(100));
        kept.len() - before
    }

    /// Goal: a client has one account whatever finds it, and an account ends with its last use. Method: addresses of one client and of
    /// others, charges that outlive the account's value.
    #[test]
    fn a_client_has_one_account_while_it_holds_something() {
        let (all, rules) = (ClientAccounts::default(), rules(""));
        let mut kept = Vec::new();
        let first = all.find(address("2001:db8::1"), &rules);
        assert!(first.is_of(address("2001:db8::2")));
        assert!(!first.is_of(address("2001:db8:0:1::1")));
        assert_eq!(fill(&first, 3, &mut kept), 3);
        drop(first);
        let again = all.find(address("2001:db8::2"), &rules);
        assert_eq!(fill(&again, 3, &mut kept), 0);
        let other = all.find(address("192.0.2.1"), &rules);
        assert!(other.is_of(address("::ffff:192.0.2.1")));
        assert_eq!(fill(&other, 3, &mut kept), 3);
        // One with its two networks, and one.
        assert_eq!(accounts(&all), 4);
        kept.truncate(2);
        assert_eq!(fill(&again, 3, &mut kept), 1);
        drop((again, other));
        assert_eq!(accounts(&all), 3);
        kept.clear();
        assert_eq!(accounts(&all), 0);
    }

    /// Goal: the networks around an IPv6 client have shares of their own, and a client that is refused leaves nothing in them. Method: a
    /// bound of three for a client: six for its /56, twelve for its /48; then all charges end.
    #[test]
    fn networks_have_shares() {
        let all = ClientAccounts::default();
        let rules = rules("");
        let mut kept = Vec::new();
        let mut filled = |from: &str| fill(&all.find(address(from), &rules), 3, &mut kept);
        assert_eq!(filled("2001:db8:0:1::1"), 3);
        assert_eq!(filled("2001:db8:0:2::1"), 3);
        assert_eq!(filled("2001:db8:0:3::1"), 0);
        assert_eq!(filled("2001:db8:0:100::1"), 3);
        assert_eq!(filled("2001:db8:0:200::1"), 3);
        assert_eq!(filled("2001:db8:0:300::1"), 0);
        assert_eq!(filled("2001:db8:1::1"), 3);
        assert_eq!(filled("192.0.2.1"), 3);
        let client = all.find(address("2001:db8:0:300::1"), &rules);
        assert_eq!(client.load(Resource::Streams), [12, 0, 0]);
        let held = |account: &ClientAccount| account.held(Resource::Streams);
        assert_eq!(all.largest(100, held).len(), 6);
        kept.clear();
        assert_eq!(client.load(Resource::Streams), [0, 0, 0]);
        assert_eq!(accounts(&all), 3);
        drop(client);
        assert_eq!(accounts(&all), 0);
    }

    proptest! {
        /// Goal: no set of addresses gets around the share of a network, and what ends is returned at every level. Method: charges of any
        /// addresses of some networks, some of which end, against a count of each network.
        #[test]
        fn no_network_exceeds_its_share(
            steps in proptest::collection::vec((0_u16..3, 0_u16..0x400, any::<bool>()), 1..300),
        ) {
            let all = ClientAccounts::default();
            let rules = rules("");
            let mut kept = Vec::new();
            for (wide, narrow, ends) in steps {
                let from = IpAddr::from([0x2001, 0xdb8, wide, narrow, 0, 0, 0, 1]);
                let account = all.find(from, &rules);
                if ends && !kept.is_empty() {
                    drop(kept.swap_remove(usize::from(narrow) % kept.len()));
                } else {
                    let charge = account.charge(Resource::Streams, 1, |held| held < 3);
                    kept.extend(charge.map(|charge| (wide, narrow, charge)));
                }
                let count = |bits: u16| {
                    let is_near = |kept: &&(u16, u16, AccountCharge)| kept.0 == wide && kept.1 >> bits == narrow >> bits;
                    kept.iter().filter(is_near).count() as u64
                };
                let held = [count(15), count(8), count(0)];
                prop_assert_eq!(account.load(Resource::Streams), held);
                prop_assert!(held[0] <= 12 && held[1] <= 6 && held[2] <= 3);
            }
            kept.clear();
            prop_assert_eq!(accounts(&all), 0);
        }
    }

    /// Goal: a trusted proxy has no bound, and lends it to no client. Method: a proxy, and another address of its /64.
    #[test]
    fn a_trusted_proxy_has_no_bound() {
        let all = ClientAccounts::default();
        let rules = rules("[client]\ntrusted_proxies = [\"2001:db8::1\"]");
        let mut kept = Vec::new();
        let proxy = all.find(address("2001:db8::1"), &rules);
        assert_eq!(fill(&proxy, 3, &mut kept), 100);
        assert!(!proxy.is_of(address("2001:db8::2")));
        let client = all.find(address("2001:db8::2"), &rules);
        assert_eq!(fill(&client, 3, &mut kept), 3);
    }

    /// Goal: the largest accounts are found, as an operator knows them, without those that hold nothing. Method: clients of both families
    /// and a trusted proxy that hold one more each, over many shards.
    #[test]
    fn the_largest_accounts_are_found() {
        let all = ClientAccounts::default();
        let rules = rules("[client]\ntrusted_proxies = [\"2001:db8:1::1\"]");
        let mut kept = Vec::new();
        let clients: Vec<_> = (0..200_u32)
            .map(|at| all.find(IpAddr::from([192, 0, 2, at as u8]), &rules))
            .collect();
        for (at, client) in clients.iter().enumerate().take(5) {
            fill(client, at as u64, &mut kept);
        }
        fill(&all.find(address("2001:db8:2::7"), &rules), 6, &mut kept);
        let proxy = all.find(address("2001:db8:1::1"), &rules);
        fill(&proxy, 0, &mut kept);
        let held = |account: &ClientAccount| account.held(Resource::Streams);
        let names = |most| -> Vec<_> {
            let largest = all.largest(most, held);
            largest.iter().map(ToString::to_string).collect()
        };
        let shown = ["2001:db8:1::1", "2001:db8:2::/64", "192.0.2.4", "192.0.2.3"];
        assert_eq!(names(4), shown);
        assert_eq!(names(100).len(), 6);
        assert!(proxy.is_exempt() && !clients[4].is_exempt());
        drop(kept);
        assert!(names(4).is_empty());
    }

    /// Goal: a part that is returned is returned once. Method: charges that shrink by more than they are.
    #[test]
    fn a_charge_shrinks() {
        let account = ClientAccounts::default().find(address("192.0.2.1"), &rules(""));
        let charge = |amount| {
            let fits = move |held| held + amount <= 10;
            account.charge(Resource::ReplayBytes, amount, fits)
        };
        let mut one = charge(8).unwrap();
        assert!(charge(3).is_none());
        one.reduce(5);
        let other = charge(7).unwrap();
        one.reduce(50);
        drop(one);
        assert!(charge(4).is_none());
        drop(other);
        assert!(charge(10).is_some());
    }

    /// Goal: threads that race for the last part never take more than there is, and leave nothing behind. Method: threads that charge and
    /// return, each of which finds the account anew.
    #[test]
    fn no_interleaving_exceeds_a_bound() {
        let (all, rules) = (ClientAccounts::default(), rules(""));
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let account = all.find(address("192.0.2.1"), &rules);
                        if let Some(charge) =
                            account.charge(Resource::Connections, 1, |held| held < 2)
                        {
                            assert!(held.fetch_add(1, Ordering::SeqCst) < 2);
                            held.fetch_sub(1, Ordering::SeqCst);
                            drop(charge);
                        }
                    }
                });
            }
        });
        assert_eq!(accounts(&all), 0);
    }
}
