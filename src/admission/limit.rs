//! Owns a limit in force: its counters, its key, and everything about it that can be written before a request comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_limiter::{Ask, Bans, Cost, KeyHash, Limit, Permits, TableId, Timestamp};

use super::backend::Backend;
use super::key::{KeySeed, KeySubstitute, RequestFacts};
use super::overrides::{ActiveTier, KeyOverrides, TierMatch};
use super::payer;
use super::request_key::{RequestKey, request_key};
use super::settlement::SettlementRule;
use super::share_news::OverShareLog;
use crate::address::PrefixBits;
use crate::config::rules::{
    CostRules, KeyTemplate, LimitRules, Name, OnMissing, SharedMode, TierIndex,
};
use crate::config::{Action, Share};
use crate::rejection::MissingKeys;
use crate::response::PolicyItems;
use crate::state::{CounterStorage, Persistence};
use crate::store::{RemoteBackend, ReplicatedBackend, Revalidation, Store};

/// The bans of a limit.
#[derive(Debug)]
pub struct ActiveBans {
    /// Who is banned.
    pub bans: Bans,
    /// Whether that outlives the process.
    pub survival: Persistence,
}

/// One limit of a snapshot.
#[derive(Debug)]
pub struct ActiveLimit {
    /// Its name.
    pub name: Name,
    /// What it counts by.
    pub key: KeyTemplate,
    /// What holds for requests that lack a part of it.
    pub on_missing: Option<OnMissing>,
    /// Its counters; where it is decided in a store, what that last said.
    pub limit: Limit,
    /// Whether what this node admitted outlives the process.
    pub survival: Persistence,
    /// Where it counts.
    pub(super) backend: Backend,
    /// Its items of the RateLimit fields and the bodies of its refusals.
    pub items: PolicyItems,
    /// What a request takes at once.
    pub cost: Cost,
    /// How that is settled at the answer; `None` where it stands.
    pub settlement: Option<SettlementRule>,
    /// What happens when it has no room.
    pub action: Action,
    /// The keys that it is enforced for; for the others it is in shadow.
    pub enforce: Share,
    /// Counters of the rates that are judged beside, and only reported.
    pub shadow_rates: Option<Limit>,
    pub(super) overrides: Option<KeyOverrides>,
    /// Keys that exceeded it and are refused for longer; `None` where it bans nobody.
    pub bans: Option<ActiveBans>,
    /// Requests in flight; `None` where any number may be.
    pub permits: Option<Permits>,
    overflow_announced: AtomicBool,
    /// The networks of those who pay for the slots of keys; `None` where nobody can invent one.
    payers: Option<PrefixBits>,
    /// The clients that take more slots than they may.
    pub share_news: Arc<OverShareLog>,
}

impl ActiveLimit {
    /// A limit as the rules have it, with the counters of `previous` where these still mean the same, else with those that `home` has
    /// kept under this name and meaning.
    ///
    /// Counters, bans and requests in flight survive any edit that leaves the key alone (contract C4).
    #[must_use]
    pub fn new(
        name: &Name,
        rules: &LimitRules,
        previous: Option<&ActiveLimit>,
        home: &CounterStorage,
        store: Option<&Arc<Store>>,
        seed: &KeySeed,
        now: Timestamp,
    ) -> Self {
        let kept = previous.filter(|before| before.key == rules.key);
        let meaning = TableId {
            name,
            key: &rules.key.to_string(),
        };
        let before = kept.map(|before| (before.own(), &before.survival));
        let stored = rules.stored_policy();
        let (own, survival) = home.limit(meaning, &stored, rules.capacity, before, now);
        // Counters are made for the largest tier, so the limit's own policy always fits them.
        let own = own.with_policy(rules.policy.clone()).unwrap_or(own);
        let payers = payer::payers(&rules.key);
        let sharing = |limit: Limit| match payers {
            Some(_) => limit.with_payer_shares(seed.secret()),
            None => limit,
        };
        let own = sharing(own);
        let abroad = rules.shared.and_then(|said| Some((said, store?)));
        let limit = match abroad {
            None => own.clone(),
            Some((said, store)) => {
                let before = kept.filter(|before| before.remembers(store));
                let view = match before {
                    Some(before) => before.limit.edited(stored, rules.capacity, now),
                    None => Limit::new(stored, rules.capacity),
                };
                let view = view.with_policy(rules.policy.clone()).unwrap_or(view);
                match said.mode {
                    // The view only remembers; the store decides.
                    SharedMode::Strict => view,
                    SharedMode::Synced => sharing(view),
                }
            }
        };
        let revalidation = revalidation(rules);
        let backend = match abroad {
            None => Backend::Local,
            Some((said, store)) => match said.mode {
                SharedMode::Strict => {
                    let shared =
                        RemoteBackend::new(name, store, own, said.on_failure, revalidation);
                    Backend::Remote(Arc::new(shared))
                }
                SharedMode::Synced => {
                    let tables = (own, limit.clone());
                    let synced =
                        ReplicatedBackend::new(name, store, tables, said.on_failure, revalidation);
                    Backend::Replicated(Arc::new(synced))
                }
            },
        };
        let before = kept.and_then(|before| before.overrides.as_ref());
        let bans = rules.ban.map(|ban| {
            let before = kept.and_then(|before| before.bans.as_ref());
            let before = before.map(|before| (&before.bans, &before.survival));
            let (bans, survival) = home.bans(meaning, ban, rules.capacity, before, now);
            ActiveBans { bans, survival }
        });
        let permits = rules.concurrency.map(|most| {
            let before = kept.and_then(|before| before.permits.as_ref());
            match before {
                Some(before) => before.edited(most, rules.capacity),
                None => Permits::new(most, rules.capacity),
            }
        });
        let items = match rules.action {
            Action::Reject | Action::Delay => PolicyItems::new(name, rules),
            // Clients see nothing of a limit that does not refuse.
            Action::Mark { .. } | Action::Shadow => PolicyItems::new(name, rules).hidden(),
        };
        Self {
            name: name.clone(),
            key: rules.key.clone(),
            on_missing: rules.on_missing,
            overrides: KeyOverrides::new(name, rules, &limit, &items, before, seed),
            limit,
            survival,
            backend,
            items,
            cost: match rules.cost {
                CostRules::Fixed(cost) => cost,
                CostRules::Told { .. } => Cost::ONE,
            },
            settlement: SettlementRule::of(rules),
            action: rules.action.clone(),
            enforce: rules.enforce,
            shadow_rates: rules.shadow_rates.as_ref().map(|policy| {
                let before = kept.and_then(|before| before.shadow_rates.as_ref());
                sharing(match before {
                    Some(before) => before.edited(policy.clone(), rules.capacity, now),
                    None => Limit::new(policy.clone(), rules.capacity),
                })
            }),
            bans,
            permits,
            overflow_announced: AtomicBool::new(
                kept.is_some_and(|before| before.overflow_announced.load(Ordering::Relaxed)),
            ),
            payers,
            share_news: kept.map_or_else(Arc::default, |before| Arc::clone(&before.share_news)),
        }
    }

    /// Whether a verdict over it is all there is to know: nothing comes before it, and nothing waits for the answer.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        // A leaky bucket's charge is given back when its client leaves before its turn.
        self.settlement.is_none()
            && self.on_missing.is_none()
            && self.action == Action::Reject
            && self.always_may_refuse()
            && self.bans.is_none()
            && self.permits.is_none()
            && self.store().is_none()
    }

    /// What this node itself admitted.
    fn own(&self) -> &Limit {
        match &self.backend {
            Backend::Local => &self.limit,
            Backend::Replicated(synced) => synced.own(),
            Backend::Remote(shared) => shared.own(),
        }
    }

    /// Returns the store with which it counts; `None` where it counts on this node alone.
    pub(super) fn store(&self) -> Option<&Arc<Store>> {
        self.backend.store()
    }

    /// Whether its counters are what `store` last said, or the one whose place it takes.
    fn remembers(&self, store: &Store) -> bool {
        self.store().is_some_and(|before| store.follows(before))
    }

    /// What a request with this key asks of it, that of a client or a substitute.
    pub(super) fn ask(&self, keyed: &RequestKey, facts: &RequestFacts<'_>) -> Ask<'_> {
        // A substitute is no invention: there is one for a client, or for all.
        let payers = self.payers.filter(|_| keyed.by.is_none());
        Ask {
            limit: &self.limit,
            key: keyed.key,
            cost: self.cost,
            payer: payers.map(|bits| payer::payer(facts.client, bits)),
        }
    }

    /// The key of a request in the store, by the substitute that it is counted by here.
    pub(super) fn remote_key(
        &self,
        facts: &RequestFacts<'_>,
        by: Option<KeySubstitute>,
    ) -> Option<KeyHash> {
        let seed = KeySeed::from_seed(self.store()?.seed()?);
        seed.hash_remote(&self.key, facts, by).ok()
    }

    /// Whether an operator changed the key of this request, which has all its parts, at another gateway, and no request had it here since.
    pub(super) fn was_changed_elsewhere(&self, facts: &RequestFacts<'_>) -> bool {
        let store = self.store();
        store.is_some_and(|store| store.knows_change(|| self.remote_key(facts, None), &self.name))
    }

    /// The moment at which its counters are asked: where they are a store's, that is its time.
    #[must_use]
    pub fn moment(&self, now: Timestamp) -> Timestamp {
        self.store().map_or(now, |store| store.moment(now))
    }

    /// Whether it may refuse any request, and does nothing else: so it belongs to every verdict of its routes.
    #[must_use]
    pub fn always_may_refuse(&self) -> bool {
        self.may_refuse_whom_it_asks()
            && self.overrides.is_none()
            && self.on_missing != Some(OnMissing::Skip)
    }

    /// Whether it may refuse any request that has its key and its own rates, and does nothing else to it.
    pub(super) fn may_refuse_whom_it_asks(&self) -> bool {
        matches!(self.action, Action::Reject | Action::Delay)
            && self.enforce == Share::ALL
            && self.shadow_rates.is_none()
    }

    /// Whether rows or tiers say something else of a request with this key.
    pub(super) fn is_otherwise(&self, key: KeyHash, facts: &RequestFacts<'_>) -> bool {
        let overrides = self.overrides.as_ref();
        overrides.is_some_and(|overrides| overrides.of(key, facts).is_some())
    }

    /// The tier that a request is in, by its key or by what it names; `None` where it has the limit's own rates, or is not asked.
    #[must_use]
    pub fn tier_of(&self, facts: &RequestFacts<'_>, seed: &KeySeed) -> Option<TierMatch<'_>> {
        let overrides = self.overrides.as_ref()?;
        let ask = request_key(0, self, facts, seed, &mut MissingKeys::default())?;
        overrides.of(ask.key, facts)
    }

    /// What it writes into fields and bodies for keys of a tier, or for those of none.
    pub(super) fn items_for(&self, tier: Option<TierIndex>) -> &PolicyItems {
        let overrides = self.overrides.as_ref();
        match tier.and_then(|tier| overrides?.tier(tier)) {
            Some(ActiveTier::Rates(rates)) => &rates.1,
            _ => &self.items,
        }
    }

    /// The name of the limit that stands in for it when it is exceeded.
    pub(super) fn second(&self) -> Option<&str> {
        match &self.action {
            Action::Mark { then, .. } => then.as_deref(),
            _ => None,
        }
    }

    /// The files of the state directory that it uses.
    pub fn survivals(&self) -> impl Iterator<Item = &Persistence> {
        let bans = self.bans.as_ref().map(|bans| &bans.survival);
        std::iter::once(&self.survival).chain(bans)
    }

    /// Whether the caller is the first to notice that newcomers of this limit share counters (contract C3: logged once).
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

/// Whether what a store refused may have been given back since: by an answer that does not count, or a client that left its place.
fn revalidation(rules: &LimitRules) -> Revalidation {
    if SettlementRule::of(rules).is_some() || rules.action == Action::Delay {
        Revalidation::EverySecond
    } else {
        Revalidation::Never
    }
}

/// Whether an overflow was already announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowNews {
    /// This is the first.
    First,
    /// It was said before.
    Known,
}
