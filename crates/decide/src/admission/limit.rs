//! Owns a limit in force: its counters, its key, and everything that does not depend on a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::activation::LoadActivation;
use crate::challenge::{ActiveChallenge, SigningKeys};
use crate::policy_items::PolicyItems;
use crate::rejection::MissingKeys;
use crate::retry_after::jitter;
use crate::state::{BanTable, CounterPersistence, CounterStorage, CounterTable};
use crate::temporary_rules::{LimitEdits, TemporaryRule};
use sluicegate_base::address::PrefixBits;
use sluicegate_limiter::{Ask, Bans, Cost, KeyHash, Limit, Permits, Policy, TableId, Timestamp};

use super::announced::AnnouncedCost;
use super::backend::Backend;
use super::facts::RequestFacts;
use super::key::{KeySeed, KeySubstitute};
use super::key_rules::KeyRules;
use super::key_texts::{KeyTextRules, KeyTexts};
use super::overrides::{ActiveTier, KeyOverrides, TierMatch};
use super::payer;
use super::rate_scaling::RateScaling;
use super::request_key::{RequestKey, request_key};
use super::reserved_units::ReservedUnits;
use super::settlement::SettlementRule;
use super::share_news::OverShareLog;
use crate::store::{CountingStore, RemoteBackend, ReplicatedBackend, Revalidation};
use sluicegate_config::rules::{
    KeyTemplate, LimitRules, Name, OnMissing, SharedMode, SharedRules, TierIndex,
};
use sluicegate_config::{Action, Share};

/// The bans of a limit.
#[derive(Debug)]
pub struct ActiveBans {
    /// The banned keys.
    pub bans: Bans,
    /// The state of their persistence beyond the process.
    pub persistence: CounterPersistence,
}

/// One limit of a snapshot.
#[derive(Debug)]
pub struct ActiveLimit {
    /// The name.
    pub name: Name,
    /// The key by which it counts.
    pub key: KeyTemplate,
    /// The rule for requests that lack a part of the key.
    pub on_missing: Option<OnMissing>,
    /// The counters; of a limit that counts with other nodes, the cached state of the store.
    pub limit: Limit,
    /// The state of the persistence of this node's own counts beyond the process.
    pub persistence: CounterPersistence,
    /// The place where it counts.
    pub(super) backend: Backend,
    /// The items of the RateLimit fields and the bodies of rejections.
    pub items: PolicyItems,
    /// The cost that a request is charged at once, unless requests announce it.
    pub cost: Cost,
    /// The reserve that requests announce.
    announced: Option<AnnouncedCost>,
    /// The settlement of the charge by the response; `None` where the charge stands.
    pub settlement: Option<SettlementRule>,
    /// The units that requests in flight hold in reserve; `None` where the cost is known when a request comes.
    pub reserved: Option<Arc<ReservedUnits>>,
    /// The action when it has no room.
    pub action: Action,
    /// The challenge of browsers that exceed it; `None` where it has none.
    pub challenge: Option<ActiveChallenge>,
    /// Its activation by a condition; `None` where it is always active. While it is not, it is in shadow.
    pub activation: Option<Arc<LoadActivation>>,
    /// The most by which `Retry-After` is later than the client may come back.
    retry_jitter: Duration,
    /// The share of keys for which it is enforced; for the others it is in shadow.
    pub enforce: Share,
    /// The counters of the rates in shadow, which are only reported.
    pub shadow_rates: Option<Limit>,
    pub(super) overrides: Option<KeyOverrides>,
    /// The temporary rules about its keys; `None` where there are none.
    pub(super) key_rules: Option<KeyRules>,
    /// The temporary rule that multiplies its rates; `None` where they are those of the configuration.
    pub scaling: Option<RateScaling>,
    /// The bans of keys that exceeded it; `None` where it bans no key.
    pub bans: Option<ActiveBans>,
    /// The permits of requests in flight; `None` where the number has no maximum.
    pub permits: Option<Permits>,
    overflow_announced: AtomicBool,
    /// The prefixes of the networks that pay for the slots of keys; `None` where no client can invent one.
    payers: Option<PrefixBits>,
    /// The latest client over its share of the slots.
    pub share_news: Arc<OverShareLog>,
    /// The texts of keys for operators; `None` where nobody is shown any.
    pub key_texts: Option<Arc<KeyTexts>>,
}

/// The parts of the process that the limits of a snapshot are made with.
#[derive(Clone, Copy)]
pub struct LimitEnvironment<'a> {
    /// The storage of counters and bans.
    pub storage: &'a CounterStorage,
    /// The store of limits that count with other nodes; `None` where the configuration has none.
    pub store: Option<&'a Arc<dyn CountingStore>>,
    /// The seed under which keys are hashed.
    pub seed: &'a KeySeed,
    /// The form and the number of the texts of keys that operators are shown; `None` where nobody is shown any.
    pub key_texts: Option<KeyTextRules>,
    /// The present time.
    pub now: Timestamp,
}

/// Builds the parts of a limit from its rules, and from the limit of the same key that was in force before.
#[derive(Clone, Copy)]
struct LimitBuilder<'a> {
    name: &'a Name,
    rules: &'a LimitRules,
    /// The limit that was in force before, if it counted by the same key.
    kept: Option<&'a ActiveLimit>,
    environment: LimitEnvironment<'a>,
}

impl ActiveLimit {
    /// Returns the limit of these rules, with the counters of `previous` where these still mean the same, else with those that the storage
    /// has kept under this name and meaning.
    ///
    /// Counters, bans and requests in flight survive any edit that leaves the key alone (contract C4).
    #[must_use]
    pub fn new(
        name: &Name,
        rules: &LimitRules,
        previous: Option<&ActiveLimit>,
        environment: LimitEnvironment<'_>,
    ) -> Self {
        let kept = previous.filter(|before| before.key == rules.key);
        let builder = LimitBuilder {
            name,
            rules,
            kept,
            environment,
        };
        let table = TableId {
            name,
            key: &rules.key.to_string(),
        };
        let (own, persistence) = builder.own_counters(table);
        let (backend, limit) = match rules.shared.zip(environment.store) {
            None => (Backend::Local, own),
            Some((shared, store)) => builder.shared_backend(shared, store, own),
        };
        let items = builder.items();
        let overrides = kept.and_then(|before| before.overrides.as_ref());
        let activation = previous.and_then(|before| before.activation.as_ref());
        let activation =
            (rules.activation.as_ref()).map(|rules| LoadActivation::new(rules, activation));
        let was_announced = |before: &Self| before.overflow_announced.load(Ordering::Relaxed);
        Self {
            name: name.clone(),
            key: rules.key.clone(),
            on_missing: rules.on_missing,
            overrides: KeyOverrides::new(name, rules, &limit, &items, overrides, environment.seed),
            key_rules: None,
            scaling: None,
            limit,
            persistence,
            backend,
            items,
            cost: rules.cost.at_once().unwrap_or(Cost::ONE),
            announced: AnnouncedCost::new(&rules.cost),
            settlement: SettlementRule::new(rules),
            reserved: rules.cost.measured().map(|_| {
                let kept = kept.and_then(|before| before.reserved.clone());
                kept.unwrap_or_default()
            }),
            action: rules.action.clone(),
            challenge: None,
            activation,
            retry_jitter: rules.retry_jitter,
            enforce: rules.enforce,
            shadow_rates: builder.shadow_rates(),
            bans: builder.bans(table),
            permits: builder.permits(),
            overflow_announced: AtomicBool::new(kept.is_some_and(was_announced)),
            payers: payer::payers(&rules.key),
            share_news: kept.map_or_else(Arc::default, |before| Arc::clone(&before.share_news)),
            key_texts: environment.key_texts.map(|rules| {
                KeyTexts::new(rules, kept.and_then(|before| before.key_texts.as_ref()))
            }),
        }
    }

    /// Returns the limit with the temporary rules about its keys.
    #[must_use]
    pub fn with_key_rules(mut self, edits: &LimitEdits, seed: &KeySeed) -> Self {
        self.key_rules = KeyRules::new(&self, edits, seed);
        self
    }

    /// Returns the limit with the temporary rule that multiplied its rates.
    #[must_use]
    pub fn with_scaling(self, scaling: Option<RateScaling>) -> Self {
        Self { scaling, ..self }
    }

    /// Returns the policy that the configuration says, whatever a temporary rule makes of it.
    #[must_use]
    pub fn configured_policy(&self) -> &Policy {
        let scaling = self.scaling.as_ref();
        scaling.map_or_else(|| self.limit.policy(), |scaling| &scaling.configured)
    }

    /// Returns the limit with challenges that these keys sign, if it challenges.
    #[must_use]
    pub fn with_signing_keys(mut self, keys: &SigningKeys) -> Self {
        if let Action::Challenge { rules, .. } = &self.action {
            let challenge = ActiveChallenge::new(self.name.clone(), rules.clone(), keys.clone());
            self.challenge = Some(challenge);
        }
        self
    }

    /// Returns whether a verdict over it is everything: nothing comes before it, and nothing waits for the response.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        // A leaky bucket's charge is given back when its client leaves before its turn.
        self.settlement.is_none()
            && self.on_missing.is_none()
            && self.action == Action::Reject
            && self.always_applies()
            && self.bans.is_none()
            && self.permits.is_none()
            && self.store().is_none()
    }

    /// Returns the counters of what this node itself admitted.
    fn own(&self) -> &Limit {
        match &self.backend {
            Backend::Local => &self.limit,
            Backend::Replicated(synced) => synced.own(),
            Backend::Remote(shared) => shared.own(),
        }
    }

    /// Returns the store with which it counts; `None` where it counts on this node alone.
    pub(super) fn store(&self) -> Option<&Arc<dyn CountingStore>> {
        self.backend.store()
    }

    /// Returns whether its counters cache the state of `store`, or of the store that `store` replaces.
    fn caches_state_of(&self, store: &dyn CountingStore) -> bool {
        self.store().is_some_and(|before| store.follows(&**before))
    }

    /// Returns the ask of a request with this key, its own or a substitute.
    pub(super) fn ask(&self, keyed: &RequestKey, facts: &RequestFacts<'_>) -> Ask<'_> {
        // A substitute is no invention: there is one for a client, or for all.
        let payers = self.payers.filter(|_| keyed.by.is_none());
        let cost = self.announced_reserve(facts).unwrap_or(self.cost);
        Ask {
            limit: &self.limit,
            key: keyed.key,
            cost: cost.saturating_mul(facts.hits),
            payer: payers.map(|bits| payer::payer(facts.client, bits)),
        }
    }

    /// Returns whether requests announce what they reserve.
    #[must_use]
    pub const fn has_announced_reserve(&self) -> bool {
        self.announced.is_some()
    }

    /// Returns the reserve that a request announces, or that a log has in its place; `None` where requests announce none.
    pub(super) fn announced_reserve(&self, facts: &RequestFacts<'_>) -> Option<Cost> {
        let announced = self.announced.as_ref()?;
        let mut recorded = facts.reserves.iter();
        let recorded = recorded.find(|recorded| recorded.limit == self.name);
        Some(recorded.map_or_else(|| announced.reserve(facts), |recorded| recorded.reserve))
    }

    /// Returns the key of a request in the store, made of the same substitute as the key here.
    pub(super) fn remote_key(
        &self,
        facts: &RequestFacts<'_>,
        by: Option<KeySubstitute>,
    ) -> Option<KeyHash> {
        let seed = KeySeed::from_seed(self.store()?.seed()?);
        seed.hash_remote(&self.key, facts, by).ok()
    }

    /// Returns the time for its counters: where they cache a store's, that is the store's time.
    #[must_use]
    pub fn moment(&self, now: Timestamp) -> Timestamp {
        self.store().map_or(now, |store| store.moment(now))
    }

    /// Returns whether it may reject any request, and does nothing else: so it is in every verdict of its routes.
    #[must_use]
    pub fn always_applies(&self) -> bool {
        matches!(self.action, Action::Reject | Action::Delay)
            && self.enforce == Share::ALL
            && self.shadow_rates.is_none()
            && self.overrides.is_none()
            && self.key_rules.is_none()
            && self.activation.is_none()
            && self.on_missing != Some(OnMissing::Skip)
    }

    /// Returns the tier of a request, by its key or by its name; `None` where it has the limit's own rates, or the limit does not apply.
    #[must_use]
    pub fn tier_of(&self, facts: &RequestFacts<'_>, seed: &KeySeed) -> Option<TierMatch<'_>> {
        let overrides = self.overrides.as_ref()?;
        let ask = request_key(0, self, facts, seed, &mut MissingKeys::default())?;
        overrides.find(ask.key, facts)
    }

    /// Returns the temporary rule about the key of a request.
    #[must_use]
    pub fn key_rule(
        &self,
        facts: &RequestFacts<'_>,
        seed: &KeySeed,
    ) -> Option<&Arc<TemporaryRule>> {
        let rules = self.key_rules.as_ref()?;
        let ask = request_key(0, self, facts, seed, &mut MissingKeys::default())?;
        rules.rule(ask.key)
    }

    /// Returns whether the key of a request is among those that `enforce` takes; true where it has none.
    #[must_use]
    pub fn is_enforced_for(&self, facts: &RequestFacts<'_>, seed: &KeySeed) -> bool {
        let ask = request_key(0, self, facts, seed, &mut MissingKeys::default());
        ask.is_none_or(|ask| self.enforce.takes(ask.key))
    }

    /// Returns whether it applies to a request that comes now.
    #[must_use]
    pub fn is_active(&self) -> bool {
        (self.activation.as_ref()).is_none_or(|activation| activation.is_active())
    }

    /// Returns whether the limit rejects no request now, whatever its key.
    #[must_use]
    pub fn is_in_shadow(&self) -> bool {
        self.action == Action::Shadow || !self.is_active()
    }

    /// Returns its activation, and those of its tiers with their names.
    pub fn activations(&self) -> impl Iterator<Item = (Option<&Name>, &Arc<LoadActivation>)> {
        let own = self.activation.iter().map(|activation| (None, activation));
        let overrides = self.overrides.iter();
        let of_tiers = overrides.flat_map(KeyOverrides::activations);
        own.chain(of_tiers.map(|(tier, activation)| (Some(tier), activation)))
    }

    /// Returns the items for fields and bodies for keys of a tier, or of none.
    pub(super) fn items_for(&self, tier: Option<TierIndex>) -> &PolicyItems {
        let overrides = self.overrides.as_ref();
        match tier.and_then(|tier| overrides?.tier(tier)) {
            Some(ActiveTier::Rates(rates)) => &rates.1,
            _ => &self.items,
        }
    }

    /// Returns how much later than necessary a client that is rejected at `now` by this key is to come back.
    #[must_use]
    pub fn retry_jitter(&self, key: KeyHash, now: Timestamp) -> Duration {
        jitter(self.retry_jitter, key.bits() ^ now.as_nanos())
    }

    /// Returns the name of its fallback limit, or of the one that counts its pages.
    pub(super) fn fallback(&self) -> Option<&str> {
        match &self.action {
            Action::Mark { then, .. } => then.as_deref(),
            Action::Challenge { unsolved, .. } => Some(unsolved),
            _ => None,
        }
    }

    /// Returns the states of its files in the state directory.
    pub fn persistences(&self) -> impl Iterator<Item = &CounterPersistence> {
        let bans = self.bans.as_ref().map(|bans| &bans.persistence);
        std::iter::once(&self.persistence).chain(bans)
    }

    /// Returns whether the caller is the first to notice that new keys of this limit share counters (contract C3: logged once).
    #[must_use]
    pub fn announce_overflow(&self) -> OverflowNews {
        // Relaxed: the flag guards one log line and publishes nothing. The load keeps the line shared under a flood.
        if self.overflow_announced.load(Ordering::Relaxed)
            || self.overflow_announced.swap(true, Ordering::Relaxed)
        {
            OverflowNews::Known
        } else {
            OverflowNews::First
        }
    }
}

impl LimitBuilder<'_> {
    /// Returns the counters of what this node admits, and the state of their persistence.
    fn own_counters(self, id: TableId<'_>) -> (Limit, CounterPersistence) {
        let before = self.kept.map(|before| (before.own(), &before.persistence));
        let table = CounterTable {
            id,
            policy: &self.rules.stored_policy(),
            capacity: self.rules.capacity,
        };
        let environment = self.environment;
        let (own, persistence) = environment.storage.table(&table, before, environment.now);
        (
            self.with_payer_shares(self.with_own_policy(own)),
            persistence,
        )
    }

    /// Returns the backend of a limit that counts with other nodes through `store`, and the cached state of the store.
    fn shared_backend(
        self,
        shared: SharedRules,
        store: &Arc<dyn CountingStore>,
        own: Limit,
    ) -> (Backend, Limit) {
        let before = self.kept.filter(|before| before.caches_state_of(&**store));
        let cache = self.counters(
            before.map(|before| &before.limit),
            self.rules.stored_policy(),
        );
        let cache = self.with_own_policy(cache);
        let revalidation = revalidation(self.rules);
        match shared.mode {
            SharedMode::Strict => {
                let on_failure = shared.on_failure;
                let backend = RemoteBackend::new(self.name, store, own, on_failure, revalidation);
                // The store decides.
                (Backend::Remote(Arc::new(backend)), cache)
            }
            SharedMode::Synced => {
                let cache = self.with_payer_shares(cache);
                let tables = (own, cache.clone());
                let on_failure = shared.on_failure;
                let backend =
                    ReplicatedBackend::new(self.name, store, tables, on_failure, revalidation);
                (Backend::Replicated(Arc::new(backend)), cache)
            }
        }
    }

    /// Returns counters of this policy, which go on with the counts of `before`.
    fn counters(self, before: Option<&Limit>, policy: Policy) -> Limit {
        match before {
            Some(before) => before.edited(policy, self.rules.capacity, self.environment.now),
            None => Limit::new(policy, self.rules.capacity),
        }
    }

    /// Returns a handle of the counters with the limit's own policy. They are made for the largest tier, so it always fits them.
    fn with_own_policy(self, limit: Limit) -> Limit {
        let policy = self.rules.policy.clone();
        limit.with_policy(policy).unwrap_or(limit)
    }

    /// Returns the counters with shares of their slots for each payer, where clients can invent keys.
    fn with_payer_shares(self, limit: Limit) -> Limit {
        match payer::payers(&self.rules.key) {
            Some(_) => limit.with_payer_shares(self.environment.seed.secret()),
            None => limit,
        }
    }

    fn shadow_rates(self) -> Option<Limit> {
        let policy = self.rules.shadow_rates.clone()?;
        let before = self.kept.and_then(|before| before.shadow_rates.as_ref());
        Some(self.with_payer_shares(self.counters(before, policy)))
    }

    fn bans(self, id: TableId<'_>) -> Option<ActiveBans> {
        let before = self.kept.and_then(|before| before.bans.as_ref());
        let before = before.map(|before| (&before.bans, &before.persistence));
        let table = BanTable {
            id,
            rules: self.rules.ban?,
            capacity: self.rules.capacity,
        };
        let environment = self.environment;
        let (bans, persistence) = environment.storage.table(&table, before, environment.now);
        Some(ActiveBans { bans, persistence })
    }

    fn permits(self) -> Option<Permits> {
        let most = self.rules.concurrency?;
        let capacity = self.rules.capacity;
        let before = self.kept.and_then(|before| before.permits.as_ref());
        Some(match before {
            Some(before) => before.edited(most, capacity),
            None => Permits::new(most, capacity),
        })
    }

    fn items(self) -> PolicyItems {
        let items = PolicyItems::new(self.name, self.rules);
        match self.rules.action {
            Action::Reject | Action::Delay | Action::Challenge { .. } => items,
            // Clients see nothing of a limit that does not refuse.
            Action::Mark { .. } | Action::Shadow => items.hidden(),
        }
    }
}

/// Returns whether a charge in the store may be refunded: by a response that does not count, or a client that leaves its queue.
fn revalidation(rules: &LimitRules) -> Revalidation {
    if SettlementRule::new(rules).is_some() || rules.action == Action::Delay {
        Revalidation::EverySecond
    } else {
        Revalidation::Never
    }
}

/// The news value of an overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowNews {
    /// The overflow was not announced yet.
    First,
    /// The overflow was announced before.
    Known,
}
