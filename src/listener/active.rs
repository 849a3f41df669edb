//! Owns a listener as the configuration in force has it.
//!
//! An address is bound once and for the life of the process; what is spoken there follows every reload. So a connection asks the
//! snapshot in force for the listener at its address when it begins, and keeps what it got.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::rules::ListenerRules;

/// Listeners by the address that they are bound to.
pub type Listeners = BTreeMap<SocketAddr, Arc<ActiveListener>>;

/// A listener in force.
#[derive(Debug)]
pub struct ActiveListener {
    /// The rules that it was made of.
    pub rules: ListenerRules,
}

/// Makes the listeners of `rules`. One whose rules are unchanged is kept; so is one that the file does not name any more: its address
/// stays bound until a restart, and whoever comes there is served as before.
#[must_use]
pub fn compile(rules: &[ListenerRules], previous: Option<&Listeners>) -> Listeners {
    let mut listeners = previous.cloned().unwrap_or_default();
    for rules in rules {
        let before = listeners.get(&rules.address);
        if before.is_none_or(|before| before.rules != *rules) {
            let active = ActiveListener {
                rules: rules.clone(),
            };
            listeners.insert(rules.address, Arc::new(active));
        }
    }
    listeners
}
