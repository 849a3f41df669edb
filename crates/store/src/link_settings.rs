//! Translates `[store]` and the gateway's clock into the settings of a [`Link`](sluicegate_redis_link::Link).

use std::num::NonZeroU32;
use std::sync::Arc;

use sluicegate_base::clock;
use sluicegate_base::pki::Tls;
use sluicegate_limiter::Timestamp;
use sluicegate_redis_link::{
    HashSeed, HostPort, LibraryName, LinkEnvironment, LinkSettings, Login, Moment, Password,
    ServerAddress, TlsSettings, Topology,
};

use sluicegate_config::rules::{StoreAddress, StoreLogin, StoreNode, StoreRules, StoreTopology};

/// The name of the gateway in the lists of clients of servers.
const LIBRARY: LibraryName = LibraryName {
    name: "sluicegate",
    version: env!("CARGO_PKG_VERSION"),
};

/// The effect of an outage on the gateway.
const OUTAGE_EFFECT: &str = "limits go on as their on_store_failure says";

/// The clock of the gateway, with the random numbers and the sockets of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemEnvironment;

impl LinkEnvironment for SystemEnvironment {
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

/// Returns the settings that `[store]` gives a link in this environment.
#[must_use]
pub fn link_settings(rules: &StoreRules, environment: Arc<dyn LinkEnvironment>) -> LinkSettings {
    LinkSettings {
        topology: topology(&rules.access.topology),
        login: login(&rules.access.login),
        tls: rules.access.tls.as_ref().map(tls_settings),
        prefix: rules.prefix.clone(),
        timeout: rules.timeout,
        exchange_timeout: rules.sync_timeout.max(rules.timeout),
        known_nodes: NonZeroU32::new(rules.gateways).unwrap_or(NonZeroU32::MIN),
        connect_timeout: rules.connect_timeout,
        seed: rules.secret_file.map(|seed| HashSeed(seed.0)),
        library: LIBRARY,
        outage_effect: OUTAGE_EFFECT,
        environment,
    }
}

fn topology(written: &StoreTopology) -> Topology {
    match written {
        StoreTopology::Single { address, database } => Topology::Single {
            address: match address {
                StoreAddress::Tcp(node) => ServerAddress::Tcp(host_port(node)),
                StoreAddress::Unix(path) => ServerAddress::Unix(path.clone()),
            },
            database: *database,
        },
        StoreTopology::Sentinel {
            master,
            nodes,
            login: written,
        } => Topology::Sentinel {
            master: master.clone(),
            nodes: nodes.iter().map(host_port).collect(),
            login: login(written),
        },
        StoreTopology::Cluster { nodes } => Topology::Cluster {
            nodes: nodes.iter().map(host_port).collect(),
        },
    }
}

fn host_port(node: &StoreNode) -> HostPort {
    HostPort {
        host: Arc::clone(&node.host),
        port: node.port,
    }
}

fn login(written: &StoreLogin) -> Login {
    let password = written.password.as_ref();
    Login {
        user: written.user.clone(),
        password: password.map(|password| Password::new(password.reveal())),
    }
}

fn tls_settings(tls: &Tls) -> TlsSettings {
    TlsSettings {
        config: Arc::clone(tls.config()),
        server_name: tls.server_name().cloned(),
    }
}
