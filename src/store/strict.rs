//! Decides limits with `store = "shared-strict"`: in the store, by one call for all checks that share a slot.
//!
//! A limit has two tables here. The *view* caches the state of the store: each answer of the store updates the words of its key. It only
//! saves calls for keys that the store rejects; a key that has room in it is decided in the store. The other table is this node's *own*:
//! what this node admitted, whoever decided. It decides only while the store cannot be reached, by the limit's counts divided by the number
//! of nodes ([`fallback`]).
//!
//! Checks in other slots take another call. The calls follow each other, and what was charged is refunded when a later one rejects; so are
//! the charges of this node, which the caller holds meanwhile.
//!
//! # Concurrency
//! Cancelling the future while a call is under way refunds what was charged before it. The call itself is not revoked: if it arrived and
//! fit, its charge stands, like that of a request whose client left without its response. The same holds for a call that timed out. Both
//! err towards rejecting, and by no more than the calls that were under way.
//!
//! Answers may overtake each other on their way into the view. An older one counts less than was charged, and costs one more call; or it
//! counts more than is left after a refund, which the next revalidation corrects ([`RemoteBackend::skip_remote_call`]).

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Capacity, Cost, Decision, KeyHash, KeyPlacement, Limit, MAX_ASKS, Outcome, Payer, Period,
    Policy, Rate, Rates, Reservation, Seed, Timestamp, charge_unchecked, decide,
};

use super::fallback;
use super::script::{self, ChargeResult, KeyName};
use super::settle::{ChargeLocation, Part, RemoteCharge, Undecided};
use sluicegate_redis_link::StoreError;

use super::Store;
use crate::config::rules::{Name, OnStoreFailure};

/// The part of a limit that only remote limits have.
#[derive(Debug)]
pub struct RemoteBackend {
    pub(super) store: Arc<Store>,
    limit: Name,
    own: Limit,
    pub(super) on_failure: OnStoreFailure,
    second_looks: Option<Limit>,
}

/// The rule by which cached rejections are asked about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidation {
    /// A rejection holds until time frees the count: no charge is ever refunded.
    Never,
    /// Every node asks about a rejection again once a second, since charges may be refunded meanwhile.
    EverySecond,
}

/// The check of a request against one remote limit.
#[derive(Clone, Debug)]
pub struct RemoteCheck<'a> {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The limit.
    pub shared: &'a Arc<RemoteBackend>,
    /// The cached state of the store, with the policy of the key.
    pub view: &'a Limit,
    /// The key in the tables of this node.
    pub key: KeyHash,
    /// The key in the store; `None` before the store has said how keys are hashed.
    pub name: Option<KeyName>,
    /// The cost.
    pub cost: Cost,
    /// The payer of a slot for a new key, where this node decides; `None` where no client can invent keys.
    pub payer: Option<Payer>,
}

/// The source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionSource {
    /// The store.
    Store,
    /// The cached rejection of the store.
    Cached,
    /// This node, while the store could not be reached.
    Fallback,
}

impl DecisionSource {
    /// Every source, in the order of [`DecisionSource::index`].
    pub const ALL: [Self; 3] = [Self::Store, Self::Cached, Self::Fallback];

    /// Returns the place in [`DecisionSource::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in log and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Cached => "cache",
            Self::Fallback => "fallback",
        }
    }
}

/// The decision of one limit.
#[derive(Clone, Debug)]
pub struct BackendDecision {
    /// The decision.
    pub decision: Decision,
    /// The source; `None` where it was decided as usual by this node, or another limit rejected before this one was asked.
    pub by: Option<DecisionSource>,
}

/// One decision a check, in the order of the checks.
pub type BackendDecisions = ArrayVec<BackendDecision, MAX_ASKS>;

/// The result of reserving several checks together: all are charged, or none is.
#[derive(Debug)]
pub struct Reserved<C> {
    /// One decision a check, in their order.
    pub decisions: BackendDecisions,
    /// The charge; `None` where some limit rejects.
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
    /// Returns the remote part of the limit `limit`; `own` counts for this node.
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

    /// Returns the counters of what this node itself admitted.
    #[must_use]
    pub fn own(&self) -> &Limit {
        &self.own
    }

    /// Returns the store that decides.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the store's time at a moment of this node's.
    #[must_use]
    pub fn moment(&self, now: Timestamp) -> Timestamp {
        self.store.moment(now)
    }

    /// Returns the seed under which keys are hashed in the store; `None` before the store was reached.
    #[must_use]
    pub fn seed(&self) -> Option<Seed> {
        self.store.seed()
    }

    /// Returns the name in the store of a key with this hash under its seed.
    #[must_use]
    pub fn name(&self, key: KeyHash) -> KeyName {
        KeyName::new(self.store.prefix(), key, &self.limit)
    }

    /// Returns whether `remembered`, the decision of the view about `key`, is a rejection that needs no call: the store's counts fall with
    /// time, and the view's with them. Where keys share a counter in the view, it is unknown whose rejection it is.
    ///
    /// A rejection that may have been refunded, by a response that does not count or by a limit in another slot, is asked about again
    /// once a second for each key, so that an attack on one key costs the store next to nothing. This charges the counter of these looks:
    /// a caller that gets `false` must ask the store.
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

    /// Returns the same without a charge: [`skip_remote_call`](Self::skip_remote_call) still has its look.
    #[must_use]
    pub fn is_cached_rejection(&self, key: KeyHash, remembered: &Decision, now: Timestamp) -> bool {
        let looks_again = |looks: &Limit| {
            let decision = looks.peek(key, Cost::ONE, now);
            decision.is_admitted()
        };
        is_own_refusal(remembered) && !self.second_looks.as_ref().is_some_and(looks_again)
    }

    /// Returns a handle of this node's own counters, for keys with this policy.
    pub(super) fn own_by(&self, policy: Policy) -> Limit {
        // Both tables are made for the same policies; if one did not fit, its keys would have the limit's own.
        self.own
            .with_policy(policy)
            .unwrap_or_else(|| self.own.clone())
    }
}

/// Returns the counters of looks at cached rejections: one rate, once a second.
fn second_looks(capacity: Capacity) -> Option<Limit> {
    let rate = Rate::new(1, Period::from_secs(1).ok()?).ok()?;
    Some(Limit::new(Rates::new([rate]).ok()?, capacity))
}

impl RemoteCheck<'_> {
    /// Returns the decision of the view.
    fn remembered(&self, now: Timestamp) -> Decision {
        self.view.peek(self.key, self.cost, self.shared.moment(now))
    }

    /// Returns the ask for the store's script; `None` before the store has said how keys are hashed.
    pub(super) fn script_ask(&self) -> Option<script::Ask<'_>> {
        Some(script::Ask {
            policy: self.view.policy(),
            name: self.name.as_ref()?,
            cost: self.cost,
        })
    }

    /// Returns the ask for a table of this node.
    pub(super) fn of<'t>(&self, limit: &'t Limit) -> Ask<'t> {
        Ask {
            limit,
            key: self.key,
            cost: self.cost,
            payer: self.payer,
        }
    }

    /// Charges this node's own counters, whether that fits or not.
    pub(super) fn spend(&self, now: Timestamp) -> Reservation {
        let own = self.shared.own_by(self.view.policy().clone());
        charge_unchecked(&[self.of(&own)], now)
    }

    /// Returns the error of a limit that admits nothing without the store.
    pub(super) fn unavailable(&self) -> Unavailable {
        let Self { limit, key, .. } = *self;
        Unavailable { limit, key }
    }

    /// Returns the charge of this check: `own` for this node, and `held` for all nodes.
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
            // The charges of the groups before are refunded.
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
