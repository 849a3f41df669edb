//! Owns a listener of the configuration in force.
//!
//! An address is bound once and for the life of the process; its protocols follow every reload. So a connection takes the
//! listener of its address from the snapshot in force when it begins, and keeps it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{Certificates, Termination};
use sluicegate_config::rules::{Http3, ListenerRules};

/// Listeners by the address that they are bound to.
pub type Listeners = BTreeMap<SocketAddr, Arc<ActiveListener>>;

/// A listener in force.
#[derive(Debug)]
pub struct ActiveListener {
    /// The rules that it was made from.
    pub rules: ListenerRules,
    /// Says whether the process speaks HTTP/3 at the address: it has opened a socket for that at its start, or not.
    pub opened: Http3,
    /// The TLS termination; `None` where connections are in clear text.
    pub tls: Option<Termination>,
}

/// Compiles the listeners of `rules`; `installed` are the certificates that are installed at run time.
///
/// A listener whose rules are unchanged is kept. So is one that was removed from the file: its address stays bound until a
/// restart, and connections there are served as before.
#[must_use]
pub fn compile(
    rules: &[ListenerRules],
    installed: &Arc<Certificates>,
    previous: Option<&Listeners>,
) -> Listeners {
    let mut listeners = previous.cloned().unwrap_or_default();
    for rules in rules {
        let before = listeners.get(&rules.address);
        if before.is_some_and(|before| before.rules == *rules) {
            continue;
        }
        let tls_before = before.and_then(|before| before.tls.as_ref());
        let opened = before.map_or(rules.http3, |before| before.opened);
        let tls = rules
            .tls
            .as_ref()
            .map(|tls| Termination::new(rules, opened, tls, installed, tls_before));
        let active = ActiveListener {
            rules: rules.clone(),
            opened,
            tls,
        };
        listeners.insert(rules.address, Arc::new(active));
    }
    listeners
}
