//! Explains where a limit counts, if that is not the gateway itself.

use crate::config::rules::{LimitRules, OnStoreFailure, SharedMode};

/// Describes the decider and the rule while the store is unavailable.
pub(super) fn shared(limit: &LimitRules) -> Option<String> {
    let said = limit.shared?;
    let away = match said.on_failure {
        OnStoreFailure::Local => {
            "each judges what it admitted itself by the counts above divided by the number of gateways"
        }
        OnStoreFailure::Open => match said.mode {
            SharedMode::Strict => "everybody passes whom it had not refused before",
            SharedMode::Synced => "everybody passes",
        },
        OnStoreFailure::Closed => "nobody passes: requests are answered with 503",
    };
    let decided = match said.mode {
        SharedMode::Strict => {
            "Decided in the store: all gateways that share it admit together what one would."
        }
        SharedMode::Synced => {
            "Decided by each gateway at once; counts are exchanged at every sync. Until a gateway has heard of the others it \
             admits what it would alone; docs/fleet.md says how far that may exceed the counts."
        }
    };
    Some(format!("{decided} While the store is away, {away}."))
}
