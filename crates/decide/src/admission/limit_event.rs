//! Names the events that are reported of a limit beside the verdict.

use crate::store::DecisionSource;
use sluicegate_limiter::KeyPlacement;

/// An event at one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitNote {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The event.
    pub event: LimitEvent,
}

/// An event that is reported of a limit beside the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitEvent {
    /// The charge was refunded: the response does not count, there was none, or the request was not admitted after all.
    Released,
    /// The cost is known; the number is the units charged.
    Cost(u32),
    /// The cost exceeded what was reserved, by so many units.
    OverReserve(u32),
    /// The origin reported a malformed cost; the request cost what was reserved.
    CostMalformed,
    /// The response reported no cost, or in no form that is read; the request cost what was reserved.
    CostMissing,
    /// The limit has a condition, which held when the request came.
    Active,
    /// The limit is exceeded, and the request passes with a mark.
    Marked,
    /// The limit is in shadow and has room.
    ShadowAdmitted,
    /// The limit is in shadow and has no room.
    ShadowRefused,
    /// The rates in shadow have room.
    ShadowRatesAdmitted,
    /// The rates in shadow have no room.
    ShadowRatesRefused,
    /// The limit counts with other nodes; this is the source of its decision.
    Decided(DecisionSource),
    /// The limit had no room in a counter that new keys share, and the request passed only since the limit marks or is in shadow.
    OverflowRefused,
    /// The limit had no slot for a new key, since the client has taken its share of them, and the request passed only since the limit marks
    /// or is in shadow.
    ShareRefused,
    /// The request carries a solution of the limit's challenge, and is counted by it.
    ChallengePassed,
    /// The request carries a solution that fails: it is forged, too early, too old, or of another key.
    ChallengeFailed,
    /// The overrides exempt the key; the limit was not asked.
    Unlimited,
    /// The overrides block the key; no limit was asked.
    Blocked,
}

impl LimitEvent {
    /// Returns the event of a rejection that is not enforced, of a key that is counted so.
    pub(super) fn of_refusal(counted: KeyPlacement) -> Option<Self> {
        match counted {
            KeyPlacement::OwnSlot => None,
            KeyPlacement::Overflow => Some(Self::OverflowRefused),
            KeyPlacement::OverShare => Some(Self::ShareRefused),
        }
    }

    /// Returns where the key of such a rejection is counted; `None` for other events.
    #[must_use]
    pub fn counted(self) -> Option<KeyPlacement> {
        match self {
            Self::OverflowRefused => Some(KeyPlacement::Overflow),
            Self::ShareRefused => Some(KeyPlacement::OverShare),
            _ => None,
        }
    }
}
