//! Explains where a limit counts, if that is not the gateway itself.

use sluicegate_config::rules::{LimitRules, OnStoreFailure, SharedMode, StoreRules};

/// Describes the decider and the rule while the store is unavailable.
pub(super) fn shared(limit: &LimitRules, store: Option<&StoreRules>) -> Option<String> {
    let said = limit.shared?;
    let store = store?;
    let away = match said.on_failure {
        OnStoreFailure::Local => share(store.gateways),
        OnStoreFailure::Open => match said.mode {
            SharedMode::Strict => {
                "all requests pass except those with a cached rejection".to_owned()
            }
            SharedMode::Synced => "all requests pass".to_owned(),
        },
        OnStoreFailure::Closed => "no request passes: each is answered with 503".to_owned(),
    };
    let StoreRules {
        timeout,
        sync_interval,
        sync_timeout,
        ..
    } = store;
    let decided = match said.mode {
        SharedMode::Strict => {
            format!(
                "Decided in the store within {timeout:?}: all gateways together admit what one would."
            )
        }
        SharedMode::Synced => format!(
            "Decided by each gateway at once; counts are exchanged every {sync_interval:?}, each time within {sync_timeout:?}. Between two \
             exchanges a gateway does not see the charges of others; docs/fleet.md says by how much the counts may be exceeded."
        ),
    };
    Some(format!("{decided} While the store is unavailable, {away}."))
}

/// Describes what a gateway admits by itself.
fn share(gateways: u32) -> String {
    let share = "each gateway admits its share: the counts above divided by the number of gateways";
    match gateways {
        1 => share.to_owned(),
        number => format!("{share}, which is at least {number} until the store has reported it"),
    }
}
