//! Explains what limits do with one request that exceeds them, and the outcome that follows from all of them.

use http::StatusCode;
use sluicegate_base::clock;

use sluicegate_config::Action;
use sluicegate_config::rules::{OnStoreFailure, RefusalRules};
use sluicegate_decide::admission::{ActiveLimit, KeySeed, RequestFacts};

/// The keys for which limits with `enforce` are enforced: those that the seed decides, or unknown ones, where a gateway has another seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnforcedKeys {
    /// The seed is that of the gateway.
    OfThisSeed,
    /// The seed is another one.
    Unknown,
}

/// The effect of a limit on one request that exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitEffect {
    /// It may be rejected.
    MayReject,
    /// It is marked.
    Marks,
    /// It is rejected in any case: a tier or a row of the overrides blocks it.
    Blocks,
    /// It is rejected in any case: a temporary rule bans its key.
    Bans,
    /// Nothing: a temporary rule or a row of the overrides exempts its key.
    Exempts,
    /// Nothing: the limit is in shadow for it.
    InShadow,
    /// Rejects every request now: the store cannot be reached, and the limit admits none without it.
    RejectsAll,
}

/// The limits of a request: their effects, and the one that rejects the request whatever its counts are, with the reason.
#[derive(Default)]
pub(super) struct LimitEffects {
    effects: Vec<LimitEffect>,
    /// The reason, behind its rank: a block precedes a ban, a ban precedes a store that is away.
    rejecting: Option<(u8, String)>,
}

impl LimitEffects {
    /// Adds the effect of `limit`. `refusal` is the answer that the route words.
    pub(super) fn add(
        &mut self,
        limit: &ActiveLimit,
        effect: LimitEffect,
        refusal: Option<&RefusalRules>,
    ) {
        self.effects.push(effect);
        let name = &limit.name;
        let reason = match effect {
            LimitEffect::Blocks => (0, format!("rejected with 403: the limit {name} blocks it")),
            LimitEffect::Bans => {
                let worded = refusal.or(limit.items.wording().map(|worded| &**worded));
                let status = worded.map_or(StatusCode::TOO_MANY_REQUESTS, |worded| worded.status);
                let status = status.as_u16();
                (
                    1,
                    format!("rejected with {status}: the limit {name} bans its key"),
                )
            }
            LimitEffect::RejectsAll if limit.activation.is_none() => {
                let why = "admits nothing while its store cannot be reached";
                (2, format!("rejected with 503: the limit {name} {why}"))
            }
            _ => return,
        };
        let first = self.rejecting.take().filter(|first| first.0 <= reason.0);
        self.rejecting = first.or(Some(reason));
    }

    /// Returns the outcome of a request whose admission leads to `action`.
    pub(super) fn outcome(&self, action: &str) -> String {
        let count = |effect| self.effects.iter().filter(|own| **own == effect).count();
        let in_shadow = count(LimitEffect::InShadow);
        let never_reject = in_shadow + count(LimitEffect::Marks) + count(LimitEffect::Exempts);
        let all = self.effects.len();
        match &self.rejecting {
            Some((_, reason)) => reason.clone(),
            None if all == 0 => action.to_owned(),
            None if in_shadow == all => {
                format!("{action}, whatever these limits count, since all are in shadow")
            }
            None if never_reject == all => {
                format!("{action}, whatever these limits count, since none of them rejects it")
            }
            None if never_reject == 0 => format!("{action}, if all of these limits admit it"),
            None if never_reject == in_shadow => {
                format!("{action}, if all of these limits admit it that are not in shadow")
            }
            None => format!("{action}, if all of these limits admit it that may reject it"),
        }
    }
}

/// Returns the effect of a limit on this request, if it exceeds the limit.
pub(super) fn effect(
    limit: &ActiveLimit,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    enforced: EnforcedKeys,
) -> LimitEffect {
    let is_left_out = enforced == EnforcedKeys::OfThisSeed && !limit.is_enforced_for(facts, seed);
    let without_store = limit.rule_without_store(None, clock::now());
    match limit.action {
        Action::Shadow => LimitEffect::InShadow,
        _ if is_left_out => LimitEffect::InShadow,
        _ if without_store == Some(OnStoreFailure::Closed) => LimitEffect::RejectsAll,
        Action::Mark { then: None, .. } => LimitEffect::Marks,
        _ => LimitEffect::MayReject,
    }
}

/// Returns what a reader of the line of a limit would not expect: that it rejects nothing, not this request, or everything.
pub(super) fn effect_text(
    limit: &ActiveLimit,
    effect: LimitEffect,
    enforced: EnforcedKeys,
) -> String {
    let left_out = 10_000 - limit.enforce.ten_thousandths();
    match effect {
        LimitEffect::InShadow if limit.action == Action::Shadow => {
            "; in shadow: it counts and reports, and rejects nothing".to_owned()
        }
        LimitEffect::InShadow => {
            "; in shadow for this key, as for all that `enforce` leaves out".to_owned()
        }
        LimitEffect::RejectsAll => {
            "; its store cannot be reached, and it admits nothing until then".to_owned()
        }
        LimitEffect::Exempts => String::new(),
        _ if enforced == EnforcedKeys::Unknown && left_out > 0 => {
            let percent = f64::from(left_out) / 100.0;
            format!(
                "; in shadow for about {percent} % of keys, which the seed of a gateway chooses"
            )
        }
        LimitEffect::Marks => "; marks requests that exceed it, and rejects none".to_owned(),
        LimitEffect::MayReject | LimitEffect::Blocks | LimitEffect::Bans => String::new(),
    }
}
