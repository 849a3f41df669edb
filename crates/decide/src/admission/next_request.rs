//! Says what a limit does with the next request of a key, for those who look at the key.

use crate::client::ListEffect;
use sluicegate_limiter::KeyHash;

use super::limit::ActiveLimit;
use sluicegate_config::Action;
use sluicegate_config::rules::OnStoreFailure;

/// The answer of one limit to the next request of a key, of cost 1 and apart from `concurrency`. Other limits may reject it all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRequest {
    /// It is admitted.
    Admitted,
    /// A row of the overrides, a temporary rule or a list exempts the key or its clients.
    Exempt,
    /// The limit has no room, and marks the request.
    Marked,
    /// The limit has no room, and rejects no request of this key: it is in shadow, its condition does not hold, or `enforce` leaves the
    /// key out.
    ShadowRejected,
    /// A browser gets a challenge, and every other client is rejected.
    Challenged,
    /// The limit has no room.
    Rejected,
    /// The store of the limit cannot be reached, and `on_store_failure` is "closed".
    StoreUnavailable,
    /// The key is banned.
    Banned,
    /// A row of the overrides, a temporary rule or a list blocks the key or its clients.
    Blocked,
}

/// The state of a key that decides over its next request.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyStanding {
    /// The exemption by overrides, as [`KeyState`](super::KeyState) has it.
    pub(super) exempt: Option<&'static str>,
    /// Set while a ban of the key is in force.
    pub(super) is_banned: bool,
    /// Set if every rate has room for a request.
    pub(super) has_room: bool,
    /// The rule that decides in place of the store; `None` where the store decides, or there is none.
    pub(super) without_store: Option<OnStoreFailure>,
}

impl NextRequest {
    /// Returns the answer of a limit to a key.
    pub(super) fn new(active: &ActiveLimit, key: KeyHash, standing: KeyStanding) -> Self {
        let KeyStanding {
            exempt,
            is_banned,
            has_room,
            without_store,
        } = standing;
        let is_in_shadow = active.is_in_shadow() || !active.enforce.takes(key);
        match exempt {
            Some("blocked") if is_in_shadow => return Self::ShadowRejected,
            Some("blocked") => return Self::Blocked,
            Some(_) => return Self::Exempt,
            None => {}
        }
        if is_banned && !is_in_shadow {
            return Self::Banned;
        }
        match without_store {
            Some(OnStoreFailure::Closed) if is_in_shadow => return Self::ShadowRejected,
            Some(OnStoreFailure::Closed) => return Self::StoreUnavailable,
            Some(OnStoreFailure::Open) => return Self::Admitted,
            Some(OnStoreFailure::Local) | None => {}
        }
        if has_room {
            return Self::Admitted;
        }
        match &active.action {
            _ if is_in_shadow => Self::ShadowRejected,
            Action::Mark { .. } => Self::Marked,
            Action::Challenge { .. } => Self::Challenged,
            Action::Reject | Action::Delay | Action::Shadow => Self::Rejected,
        }
    }

    /// Returns the answer to a client on which this list or rule has an effect, ahead of every limit.
    #[must_use]
    pub fn by_list(effect: ListEffect) -> Self {
        match effect {
            ListEffect::Allow => Self::Exempt,
            ListEffect::Block => Self::Blocked,
        }
    }

    /// Returns the word that pages write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Exempt => "exempt",
            Self::Marked => "marked",
            Self::ShadowRejected => "shadow-rejected",
            Self::Challenged => "challenged",
            Self::Rejected => "rejected",
            Self::StoreUnavailable => "store-unavailable",
            Self::Banned => "banned",
            Self::Blocked => "blocked",
        }
    }

    /// Returns whether a client without a browser is rejected.
    #[must_use]
    pub fn is_rejection(self) -> bool {
        match self {
            Self::Admitted | Self::Exempt | Self::Marked | Self::ShadowRejected => false,
            Self::Challenged
            | Self::Rejected
            | Self::StoreUnavailable
            | Self::Banned
            | Self::Blocked => true,
        }
    }
}
