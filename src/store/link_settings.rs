//! Translates `[store]` and the gateway's clock into the settings of a [`Link`](sluicegate_redis_link::Link).

use std::num::NonZeroU32;
use std::sync::Arc;

use sluicegate_base::clock;
use sluicegate_base::pki::Tls;
use sluicegate_limiter::Timestamp;
use sluicegate_redis_link::{Clock, LibraryName, LinkSettings, Moment, TlsSettings};

use crate::config::rules::StoreRules;

/// The name of the gateway in the lists of clients of servers.
const LIBRARY: LibraryName = LibraryName {
    name: "sluicegate",
    version: env!("CARGO_PKG_VERSION"),
};

/// The effect of an outage on the gateway.
const OUTAGE_EFFECT: &str = "limits go on as their on_store_failure says";

/// The clock of the gateway.
#[derive(Debug)]
struct GatewayClock;

impl Clock for GatewayClock {
    fn now(&self) -> Moment {
        moment(clock::now())
    }

    fn wall(&self) -> Moment {
        moment(clock::wall())
    }
}

fn moment(time: Timestamp) -> Moment {
    Moment::from_nanos(time.as_nanos())
}

/// Converts a moment of the link.
#[must_use]
pub fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_nanos(moment.as_nanos())
}

/// Returns the settings that `[store]` gives a link.
#[must_use]
pub fn link_settings(rules: &StoreRules) -> LinkSettings {
    LinkSettings {
        topology: rules.access.topology.clone(),
        login: rules.access.login.clone(),
        tls: rules.access.tls.as_ref().map(tls_settings),
        prefix: rules.prefix.clone(),
        timeout: rules.timeout,
        exchange_timeout: rules.sync_timeout.max(rules.timeout),
        known_nodes: NonZeroU32::new(rules.gateways).unwrap_or(NonZeroU32::MIN),
        connect_timeout: rules.connect_timeout,
        seed: rules.secret_file,
        library: LIBRARY,
        outage_effect: OUTAGE_EFFECT,
        clock: Arc::new(GatewayClock),
    }
}

fn tls_settings(tls: &Tls) -> TlsSettings {
    TlsSettings {
        config: Arc::clone(tls.config()),
        server_name: tls.server_name().cloned(),
    }
}
