//! Keeps the map of which server has which keys.
//!
//! The map of a Cluster is fetched every ten seconds, and as soon as an answer shows that it is wrong or a server is lost. Connections to
//! servers that stay are kept. The map is fetched from a server that answered before, or from one that the settings name.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tracing::warn;

use crate::LOG_TARGET;
use crate::address::{HostPort, ServerAddress};
use crate::breaker::{ReconnectBackoff, jittered};
use crate::call::Call;
use crate::connect::{Handshake, connect};
use crate::connection::{Connection, ServerLocator, SupervisedConnection};
use crate::error::read;
use crate::link_state::LinkState;
use crate::settings::LinkSettings;
use crate::slots::{ClusterShard, SLOTS, number_in, parse_shards, slot};
use crate::time::deadline;

/// The pause between two fetches of the map when nothing has happened.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// The least pause between two fetches of the map.
const MIN_REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// The servers and the keys that each has.
#[derive(Default)]
pub(crate) struct ServerMap {
    pub(crate) connections: Vec<Arc<SupervisedConnection>>,
    /// The connection of each slot; `None`: the first has all keys.
    slots: Option<Box<[Option<u16>]>>,
}

impl ServerMap {
    /// Returns the map of one server with all keys.
    pub(crate) fn single(connection: SupervisedConnection) -> Self {
        Self {
            connections: vec![Arc::new(connection)],
            slots: None,
        }
    }

    /// Returns the index of the connection for a call.
    pub(crate) fn index_of(&self, call: &Call) -> Option<usize> {
        match &self.slots {
            None => (!self.connections.is_empty()).then_some(0),
            Some(slots) => {
                let key = call.keys.first()?;
                slots.get(usize::from(slot(key))).copied()?.map(usize::from)
            }
        }
    }

    /// Returns the connection for a call.
    pub(crate) fn connection_for(&self, call: &Call) -> Option<&Connection> {
        Some(&self.connections.get(self.index_of(call)?)?.connection)
    }

    /// Returns the connection to a server.
    pub(crate) fn connection_to(&self, address: &HostPort) -> Option<&Connection> {
        let supervised = self
            .connections
            .iter()
            .find(|supervised| supervised.connection.is_to(address))?;
        Some(&supervised.connection)
    }

    /// Returns the map of `shards`, with the connections of this one to servers that stay.
    fn updated(
        &self,
        shards: &[ClusterShard],
        settings: &Arc<LinkSettings>,
        shared: &Arc<LinkState>,
    ) -> Self {
        let mut slots = vec![None; usize::from(SLOTS)].into_boxed_slice();
        let mut connections = Vec::with_capacity(shards.len());
        for shard in shards {
            let Some(number) = number_in(&shard.ranges) else {
                continue;
            };
            let index = u16::try_from(connections.len()).ok();
            for (from, to) in &shard.ranges {
                let range = slots.get_mut(usize::from(*from)..=usize::from(*to));
                range.into_iter().flatten().for_each(|slot| *slot = index);
            }
            let hash_tag = format!(":{{{number}}}");
            let existing = self
                .connections
                .iter()
                .find(|supervised| supervised.connection.is_to(&shard.address));
            connections.push(match existing {
                Some(supervised) => {
                    supervised.connection.set_hash_tag(hash_tag);
                    Arc::clone(supervised)
                }
                None => {
                    let locator = ServerLocator::Fixed {
                        address: ServerAddress::Tcp(shard.address.clone()),
                        database: 0,
                    };
                    let connection = Connection::new(
                        locator,
                        hash_tag,
                        Arc::clone(settings),
                        Arc::clone(shared),
                    );
                    Arc::new(SupervisedConnection::keep(connection))
                }
            });
        }
        Self {
            connections,
            slots: Some(slots),
        }
    }
}

/// Keeps the map of a Cluster up to date.
pub(crate) async fn refresh(
    configured: Vec<HostPort>,
    map: Arc<ArcSwap<ServerMap>>,
    settings: Arc<LinkSettings>,
    shared: Arc<LinkState>,
) {
    let mut backoff = ReconnectBackoff::default();
    let mut answered: Option<HostPort> = None;
    let mut has_warned = false;
    loop {
        let nodes: Vec<HostPort> = answered.iter().chain(&configured).cloned().collect();
        let pause = match fetch_slots(&nodes, &settings).await {
            Ok((node, shards)) => {
                let next = map.load().updated(&shards, &settings, &shared);
                map.store(Arc::new(next));
                answered = Some(node);
                backoff = ReconnectBackoff::default();
                has_warned = false;
                REFRESH_INTERVAL
            }
            Err(error) => {
                if !has_warned {
                    warn!(target: LOG_TARGET, "store: no cluster node returned the slot map: {error}");
                }
                has_warned = true;
                answered = None;
                backoff.pause(settings.environment.jitter())
            }
        };
        let refresh_pause = jittered(MIN_REFRESH_PAUSE, settings.environment.jitter());
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = shared.topology_changed.notified() => tokio::time::sleep(refresh_pause).await,
        }
    }
}

/// Fetches the map from the first server that answers, and returns that server.
pub(crate) async fn fetch_slots(
    nodes: &[HostPort],
    settings: &LinkSettings,
) -> Result<(HostPort, Vec<ClusterShard>), String> {
    let mut reasons = Vec::new();
    for node in nodes {
        match fetch_slots_from(node, settings).await {
            Ok(shards) => return Ok((node.clone(), shards)),
            Err(error) => reasons.push(format!("{node}: {error}")),
        }
    }
    Err(reasons.join("; "))
}

async fn fetch_slots_from(
    node: &HostPort,
    settings: &LinkSettings,
) -> Result<Vec<ClusterShard>, String> {
    let address = ServerAddress::Tcp(node.clone());
    let handshake = Handshake::Keys { database: 0 };
    let connected = connect(&address, handshake, settings).await;
    let connected = connected.map_err(|error| error.to_string())?;
    let mut multiplexed = connected.multiplexed;
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let deadline = deadline(settings.connect_timeout);
    let answer = tokio::select! {
        biased;
        answer = tokio::time::timeout_at(deadline, multiplexed.send_packed_command(&command)) => answer.ok(),
        () = connected.driver => None,
    };
    let Some(answer) = answer else {
        return Err("it did not answer".to_owned());
    };
    match read(answer) {
        Ok(reply) => match parse_shards(&reply, node) {
            Some(shards) if !shards.is_empty() => Ok(shards),
            Some(_) => Err("it knows no slots".to_owned()),
            None => Err("its answer cannot be read".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    }
}
