//! Decides limits with `store = "shared-strict"`: the store says, in one call for all that share a slot, and this file says what holds
//! while it does not.
//!
//! A limit has two tables here. The *view* is what the store last said of a key: its words are taken over from every answer. It is only
//! a memory of refusals; what it has room for is asked. The other is this node's *own*: what it admitted itself, by whomever that was
//! decided. It is judged only while the store is away, by the limit's counts divided by the number of nodes.
//!
//! Limits in other slots take another call. They are asked one after the other, and what was taken is given back when a later one
//! refuses; so are the limits that this node decides, which the caller holds meanwhile.
//!
//! # Concurrency
//! Whoever stops waiting while a call is under way gives back what was taken before it. That call is not called back: if it arrived
//! and fit, its charge stands, as that of a request whose client left without its answer. The same holds for a call that timed out.
//! Both err towards refusing, and by no more than the calls that were under way.
//!
//! Answers may overtake each other on their way into the view. An older one says less than was charged, and costs a call more; or it
//! says more than is left after something was given back, which a second look heals ([`RemoteBackend::skip_remote_call`]).

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Capacity, Cost, Decision, KeyHash, KeyPlacement, Limit, MAX_ASKS, Outcome, Payer, Period,
    Policy, Rate, Rates, Reservation, Seed, Timestamp, charge_unchecked, decide,
};

use super::fallback;
use super::script::{self, ChargeResult, KeyName};
use super::settle::{ChargeLocation, Part, RemoteCharge, Undecided};
use super::{Store, StoreError};
use crate::config::rules::{Name, OnStoreFailure};

/// What a limit that is shared needs beside what every limit has.
#[derive(Debug)]
pub struct RemoteBackend {
    pub(super) store: Arc<Store>,
    limit: Name,
    own: Limit,
    pub(super) on_failure: OnStoreFailure,
    second_looks: Option<Limit>,
}

/// How long what the store said is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidation {
    /// Until time frees it: nothing else gives back what was charged.
    Never,
    /// A refusal is asked about again once a second by every node, since charges may be given back meanwhile.
    EverySecond,
}

/// One strict limit, and what a request asks of it.
#[derive(Clone, Debug)]
pub struct RemoteCheck<'a> {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The limit.
    pub shared: &'a Arc<RemoteBackend>,
    /// What the store last said, with the policy that the key is judged by.
    pub view: &'a Limit,
    /// The key in the tables of this node.
    pub key: KeyHash,
    /// The key in the store; `None` before the store has said how keys are hashed.
    pub name: Option<KeyName>,
    /// How much.
    pub cost: Cost,
    /// Who pays for a slot if the key has none, where this node decides; `None` where nobody can invent one.
    pub payer: Option<Payer>,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionSource {
    /// The store.
    Store,
    /// The memory of what the store had refused.
    Cached,
    /// This node, while the store was away.
    Fallback,
}

impl DecisionSource {
    /// Every decider, in the order of [`DecisionSource::index`].
    pub const ALL: [Self; 3] = [Self::Store, Self::Cached, Self::Fallback];

    /// Its place in [`DecisionSource::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in log and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Cached => "cache",
            Self::Fallback => "fallback",
        }
    }
}

/// What one limit said.
#[derive(Clone, Debug)]
pub struct BackendDecision {
    /// Its decision.
    pub decision: Decision,
    /// The source of that decision; `None` where another limit refused before this one was asked, and only a memory is told.
    pub by: Option<DecisionSource>,
}

/// One answer an ask, in the order of the asks.
pub type BackendDecisions = ArrayVec<BackendDecision, MAX_ASKS>;

/// The result of reserving several checks together: all are charged, or none is.
#[derive(Debug)]
pub struct Reserved<C> {
    /// One decision a check, in their order.
    pub decisions: BackendDecisions,
    /// What was charged; `None` where some limit rejects.
    pub charge: Option<C>,
}

/// The store cannot be reached, and a limit admits nothing without it. Nothing is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The index of that limit on the route.
    pub limit: u8,
    /// The key in the tables of this node.
    pub key: KeyHash,
}

impl RemoteBackend {
    /// What the limit `limit` needs; `own` counts for this node.
    #[must_use]
    pub fn new(
        limit: &Name,
        store: &Arc<Store>,
        own: Limit,
        on_failure: OnStoreFailure,
        revalidation: Revalidation,
    ) -> Self {
        let revisable = revalidation == Revalidation::EverySecond || store.has_slots();
        Self {
            second_looks: revisable.then(|| second_looks(own.capacity())).flatten(),
            store: Arc::clone(store),
            limit: Name::clone(limit),
            own,
            on_failure,
        }
    }

    /// What this node itself admitted.
    #[must_use]
    pub fn own(&self) -> &Limit {
        &self.own
    }

    /// The store that decides.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The store's time at a moment of this node's.
    #[must_use]
    pub fn moment(&self, now: Timestamp) -> Timestamp {
        self.store.moment(now)
    }

    /// How keys are hashed in the store; `None` before it has said.
    #[must_use]
    pub fn seed(&self) -> Option<Seed> {
        self.store.seed()
    }

    /// The name in the store of a key with this hash under its seed.
    #[must_use]
    pub fn name(&self, key: KeyHash) -> KeyName {
        KeyName::new(self.store.prefix(), key, &self.limit)
    }

    /// Whether `remembered`, what the view says of `key`, is a refusal that needs no call: the store's counts fall with time, and the
    /// view's with them. Where keys share a memory it is not known whose refusal it is.
    ///
    /// A refusal that may have been taken back, by an answer that does not count or by a limit in another slot, is asked about again:
    /// once a second for each key, so that an attack on one costs the store next to nothing. Whoever is told to asks.
    #[must_use]
    pub fn skip_remote_call(&self, key: KeyHash, remembered: &Decision, now: Timestamp) -> bool {
        let looks_again = |looks: &Limit| {
            let (limit, cost) = (looks, Cost::ONE);
            decide(
                &[Ask {
                    limit,
                    key,
                    cost,
                    payer: None,
                }],
                now,
            )
            .outcome()
                == Outcome::Admitted
        };
        is_own_refusal(remembered) && !self.second_looks.as_ref().is_some_and(looks_again)
    }

    /// As [`skip_remote_call`](Self::skip_remote_call), for a question that is asked beforehand and takes no turn.
    #[must_use]
    pub fn is_cached_rejection(&self, key: KeyHash, remembered: &Decision, now: Timestamp) -> bool {
        let looks_again = |looks: &Limit| {
            let decision = looks.peek(key, Cost::ONE, now);
            decision.is_admitted()
        };
        is_own_refusal(remembered) && !self.second_looks.as_ref().is_some_and(looks_again)
    }

    /// A handle of what this node admitted, for keys with this policy.
    pub(super) fn own_by(&self, policy: Policy) -> Limit {
        // Both tables are made for the same policies; if one did not fit, its keys would have the limit's own.
        self.own
            .with_policy(policy)
            .unwrap_or_else(|| self.own.clone())
    }
}

/// Who is refused looks again at most so often: one rate, once a second.
fn second_looks(capacity: Capacity) -> Option<Limit> {
    let rate = Rate::new(1, Period::from_secs(1).ok()?).ok()?;
    Some(Limit::new(Rates::new([rate]).ok()?, capacity))
}

impl RemoteCheck<'_> {
    /// What the store last said of the key.
    fn remembered(&self, now: Timestamp) -> Decision {
        self.view.peek(self.key, self.cost, self.shared.moment(now))
    }

    /// What is asked of the store.
    pub(super) fn script_ask(&self) -> Option<script::Ask<'_>> {
        Some(script::Ask {
            policy: self.view.policy(),
            name: self.name.as_ref()?,
            cost: self.cost,
        })
    }

    /// What is asked of a table of this node's.
    pub(super) fn of<'t>(&self, limit: &'t Limit) -> Ask<'t> {
        Ask {
            limit,
            key: self.key,
            cost: self.cost,
            payer: self.payer,
        }
    }

    /// Counts the request as one that this node admitted, whether that fits or not.
    pub(super) fn spend(&self, now: Timestamp) -> Reservation {
        let own = self.shared.own_by(self.view.policy().clone());
        charge_unchecked(&[self.of(&own)], now)
    }

    /// Returns the error of a limit that admits nothing without the store.
    pub(super) fn unavailable(&self) -> Unavailable {
        let Self { limit, key, .. } = *self;
        Unavailable { limit, key }
    }

    /// The charge of this ask: `own` for this node, and `held` for all.
    pub(super) fn part(&self, own: Reservation, held: ChargeLocation) -> Part {
        Part {
            shared: Arc::clone(self.shared),
            view: self.view.clone(),
            key: self.key,
            own,
            held,
        }
    }
}

fn is_own_refusal(remembered: &Decision) -> bool {
    remembered.is_refused() && remembered.placement() == KeyPlacement::OwnSlot
}

/// Decides over `checks`, which are of one store, and charges all or none.
///
/// # Errors
/// The store cannot be reached, and a limit admits nothing without it.
pub async fn reserve(
    checks: &[RemoteCheck<'_>],
    now: Timestamp,
) -> Result<Reserved<RemoteCharge>, Unavailable> {
    let mut taken = Undecided::default();
    let mut decisions: ArrayVec<Option<BackendDecision>, MAX_ASKS> =
        checks.iter().map(|_| None).collect();
    let mut left: ArrayVec<usize, MAX_ASKS> = (0..checks.len().min(MAX_ASKS)).collect();
    while let Some(first) = left.first() {
        let slot = slot(&checks[*first]);
        let (group, others) = left
            .into_iter()
            .partition(|check| slot == self::slot(&checks[*check]));
        left = others;
        let group: ArrayVec<usize, MAX_ASKS> = group;
        let members: ArrayVec<&RemoteCheck<'_>, MAX_ASKS> =
            group.iter().map(|check| &checks[*check]).collect();
        let reserved = match in_store(&members, now).await {
            Ok(reserved) => reserved,
            Err(trouble) => fallback::reserve(&members, &trouble, now)?,
        };
        for (check, decision) in group.iter().zip(reserved.decisions) {
            decisions[*check] = Some(decision);
        }
        let Some(parts) = reserved.charge else {
            // What was taken before goes back, and with it what these said.
            drop(taken);
            let decisions = or_remembered(checks, decisions, now);
            let charge = None;
            return Ok(Reserved { decisions, charge });
        };
        taken.add(group.iter().copied().zip(parts));
    }
    Ok(Reserved {
        decisions: or_remembered(checks, decisions, now),
        charge: Some(taken.stand()),
    })
}

/// Returns one decision a check: of those that were not asked the cached one.
fn or_remembered(
    checks: &[RemoteCheck<'_>],
    decisions: ArrayVec<Option<BackendDecision>, MAX_ASKS>,
    now: Timestamp,
) -> BackendDecisions {
    let decided = checks.iter().zip(decisions);
    let all = decided.map(|(check, decision)| {
        decision.unwrap_or_else(|| BackendDecision {
            decision: check.remembered(now),
            by: None,
        })
    });
    all.collect()
}

/// Returns where a check is decided: in one place unless the store is spread over slots.
fn slot<'c>(check: &'c RemoteCheck<'_>) -> Option<&'c str> {
    // A tag decides the slot, and is the same for equal keys of any limits.
    let name = check.name.as_ref();
    name.filter(|_| check.shared.store.has_slots())
        .map(KeyName::tag)
}

/// Reserves checks of one slot in the store.
async fn in_store(
    checks: &[&RemoteCheck<'_>],
    now: Timestamp,
) -> Result<Reserved<Vec<Part>>, StoreError> {
    let asks: Option<ArrayVec<script::Ask<'_>, MAX_ASKS>> =
        checks.iter().map(|check| check.script_ask()).collect();
    let (Some(asks), Some(first)) = (asks, checks.first()) else {
        return Err(StoreError::unavailable());
    };
    let decided = first.shared.store.decide(&asks, now).await?;
    let mut decisions = BackendDecisions::new();
    let mut parts = Vec::new();
    for (check, told) in checks.iter().zip(decided.told) {
        check.view.adopt(check.key, &told.state, decided.now);
        decisions.push(BackendDecision {
            decision: told.decision,
            by: Some(DecisionSource::Store),
        });
        parts.extend(
            told.charge.map(|charge| {
                check.part(check.spend(now), ChargeLocation::InStore(Box::new(charge)))
            }),
        );
    }
    let charge = match decided.came {
        ChargeResult::Charged => Some(parts),
        ChargeResult::NotCharged | ChargeResult::Done => None,
    };
    Ok(Reserved { decisions, charge })
}
