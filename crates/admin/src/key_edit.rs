//! Finds the key of a limit that a request names, and changes it: its counters, here or in the store, and its ban.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::clock;
use sluicegate_limiter::{Cost, KeyHash, Timestamp};

use super::client_rules::{ClientRules, ClientVerdict, KeyNetworks, network_of_values};
use super::limit::limit_named;
use super::rule_view;
use super::shared_keys::SharedKeys;
use sluicegate_decide::admission::{ActiveLimit, KeyState, NamedKey, RateScaling};
use sluicegate_decide::store::KeyChange;
use sluicegate_decide::temporary_rules::TemporaryRule;
use sluicegate_process::GatewayProcess;

/// The key that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySelector {
    /// By its hash.
    Hash(KeyHash),
    /// By its values, one for each part.
    Values(Vec<String>),
}

/// The change that a request makes to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEdit {
    /// No change.
    Look,
    /// Its counters and its ban are cleared.
    Clear,
    /// The key has used this much of every rate.
    Use(u32),
    /// The key is banned for this long.
    Ban(Duration),
}

/// The state of a key, after the change.
#[derive(Clone, Debug)]
pub(super) struct KeyView {
    /// Its hash, as the access log has it.
    pub key: KeyHash,
    /// Its counters and its ban.
    pub state: KeyState,
    /// The lists and temporary rules about its clients.
    pub client: ClientVerdict,
    /// The temporary rule that multiplies the rates of the limit.
    pub scaling: Option<RateScaling>,
    /// The time of the reading.
    pub now: Timestamp,
    /// Set if a ban was in force before.
    pub was_banned: bool,
    /// Its values; `None` where they are unknown, or are not shown.
    pub key_values: Option<Vec<String>>,
    /// The temporary rules that banned it and were removed.
    pub ended_rules: Vec<Arc<TemporaryRule>>,
}

/// The reason why a key has no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyRequestError {
    /// There is no such limit.
    NoLimit,
    /// The values do not make a key of the limit.
    BadValues(String),
    /// The limit has no `ban`.
    NoBan,
    /// The ban would hit too many requests.
    WideBan(String),
    /// The ban would be longer than the limit's longest.
    LongBan(Duration),
    /// The table of bans is full.
    NoRoom,
    /// The key of a shared limit can only be changed by its values.
    NeedsValues,
    /// The store was not reached.
    Store(String),
}

/// The state of a key, or the reason why there is none.
pub(super) type KeyResult = Result<KeyView, KeyRequestError>;

/// Changes a key of the limit of this name and returns its state after that. Waits for the store where the limit counts there.
///
/// # Errors
/// The reason why the key has no state or cannot be changed.
pub(super) fn edit(
    process: &GatewayProcess,
    limit: &str,
    which: &KeySelector,
    change: KeyEdit,
) -> KeyResult {
    let active = limit_named(process, limit).ok_or(KeyRequestError::NoLimit)?;
    let named = match which {
        KeySelector::Hash(key) => NamedKey::of_hash(*key),
        KeySelector::Values(values) => active
            .name_key(values, &process.shared.seed)
            .map_err(KeyRequestError::BadValues)?,
    };
    let now = clock::now();
    active.catch_up(&named, now);
    let was_banned = active.ban_in_force(named.key, now).is_some();
    let shared = SharedKeys::new(&process.shared.snapshot());
    apply(&active, &named, &shared, change, now)?;
    let written = match which {
        KeySelector::Hash(_) => &[],
        KeySelector::Values(values) => &**values,
    };
    if let KeyEdit::Ban(_) = change {
        active.note_ban_by_operator(&named, written);
    }
    let ended_rules = match change {
        KeyEdit::Clear => rule_view::end_bans(process, &active, named.key),
        KeyEdit::Look | KeyEdit::Use(_) | KeyEdit::Ban(_) => Vec::new(),
    };
    let active = match ended_rules.is_empty() {
        true => active,
        false => limit_named(process, limit).ok_or(KeyRequestError::NoLimit)?,
    };
    let now = clock::now();
    let known = || active.known_values(named.key);
    let view = KeyView {
        key: named.key,
        key_values: active.values_of_named(&named, written).or_else(known),
        state: wait_for(shared.state(&active, &named, now)).ok_or_else(no_runtime)?,
        client: ClientVerdict::default(),
        scaling: active.scaling.clone(),
        now,
        was_banned,
        ended_rules,
    };
    Ok(match judge_client(process, &active, which) {
        Some(client) => view.of_client(client),
        None => view,
    })
}

/// Asks lists and temporary rules about the clients of a key; `None` where the key has no address, or it is unknown.
fn judge_client(
    process: &GatewayProcess,
    active: &ActiveLimit,
    which: &KeySelector,
) -> Option<ClientVerdict> {
    let snapshot = process.shared.snapshot();
    let rules = || ClientRules::new(&snapshot, Some(active));
    match which {
        KeySelector::Values(values) => {
            let network = network_of_values(active, values)?;
            Some(rules().judge(network))
        }
        KeySelector::Hash(key) => {
            let networks = KeyNetworks::new(active, &snapshot, &process.shared.seed);
            let verdict = rules().judge(networks.find(*key)?);
            // Who is shown no values of keys learns no address from the hash.
            let is_shown = active.key_texts.is_some();
            Some(if is_shown {
                verdict
            } else {
                verdict.without_rows()
            })
        }
    }
}

fn apply(
    active: &ActiveLimit,
    named: &NamedKey,
    shared: &SharedKeys,
    change: KeyEdit,
    now: Timestamp,
) -> Result<(), KeyRequestError> {
    let bans = active.bans.as_ref().map(|active| &active.bans);
    match change {
        KeyEdit::Look => return Ok(()),
        KeyEdit::Ban(length) => {
            let bans = bans.ok_or(KeyRequestError::NoBan)?;
            let max = bans.rules().max();
            if length > max {
                return Err(KeyRequestError::LongBan(max));
            }
            let begun = bans.ban(named.key, length, now).banned();
            return begun.map(drop).ok_or(KeyRequestError::NoRoom);
        }
        KeyEdit::Clear | KeyEdit::Use(_) => {}
    }
    if active.is_shared() && !active.reaches_store(named) {
        return Err(match named.is_by_values() {
            false => KeyRequestError::NeedsValues,
            true => KeyRequestError::Store("it was not reached yet".to_owned()),
        });
    }
    let told = match change {
        KeyEdit::Clear => KeyChange::Cleared,
        KeyEdit::Look | KeyEdit::Use(_) | KeyEdit::Ban(_) => KeyChange::Set,
    };
    if told == KeyChange::Cleared
        && let Some(bans) = bans
    {
        bans.lift(named.key, now);
    }
    let set = shared.set(active, named, change.used(), told, now);
    wait_for(set)
        .ok_or_else(no_runtime)?
        .map(drop)
        .map_err(KeyRequestError::Store)
}

fn no_runtime() -> KeyRequestError {
    KeyRequestError::Store("it cannot be asked here".to_owned())
}

/// Waits for a future that may call the store, on a thread for blocking work; `None` on a thread that belongs to no runtime.
pub(super) fn wait_for<T>(work: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    Some(runtime.block_on(work))
}

impl KeyView {
    /// Returns the view with the lists and rules about the clients of the key, which decide ahead of the limit.
    pub(super) fn of_client(mut self, client: ClientVerdict) -> Self {
        if let Some(effect) = client.effect {
            self.state = self.state.with_client_effect(effect);
        }
        self.client = client;
        self
    }
}

impl KeyEdit {
    /// The units that it has used afterwards; `None` for none.
    fn used(self) -> Option<Cost> {
        match self {
            Self::Use(units) => Cost::new(units),
            Self::Look | Self::Clear | Self::Ban(_) => None,
        }
    }
}
