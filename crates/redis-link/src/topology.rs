//! Keeps the map of which server has which keys.
//!
//! The map of a Cluster is fetched every ten seconds, and as soon as an answer shows that it is wrong or a server is lost. Connections to
//! servers that stay are kept. The map is fetched from a server that answered before, or from one that the settings name.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tracing::warn;

use crate::LOG_TARGET;
use crate::breaker::{ReconnectBackoff, jittered};
use crate::call::Call;
use crate::connect::{Handshake, connect};
use crate::connection::{Connection, ServerLocator, SupervisedConnection};
use crate::error::read;
use crate::link_state::LinkState;
use crate::random::random;
use crate::settings::{HostPort, LinkSettings, ServerAddress};
use crate::slots::{ClusterShard, SLOTS, number_in, shards, slot};
use crate::time::deadline;

/// The pause between two fetches of the map when nothing has happened.
const OFTEN: Duration = Duration::from_secs(10);
/// The least pause between two fetches of the map.
const SOON: Duration = Duration::from_millis(100);

/// The servers and the keys that each has.
#[derive(Default)]
pub(crate) struct ServerMap {
    pub(crate) lines: Vec<Arc<SupervisedConnection>>,
    /// The connection of each slot; `None`: the first has all keys.
    slots: Option<Box<[Option<u16>]>>,
}

impl ServerMap {
    /// Returns the map of one server with all keys.
    pub(crate) fn of_one(line: SupervisedConnection) -> Self {
        Self {
            lines: vec![Arc::new(line)],
            slots: None,
        }
    }

    /// Returns the index of the connection for a call.
    pub(crate) fn index_of(&self, call: &Call) -> Option<usize> {
        match &self.slots {
            None => (!self.lines.is_empty()).then_some(0),
            Some(slots) => {
                let key = call.keys.first()?;
                slots.get(usize::from(slot(key))).copied()?.map(usize::from)
            }
        }
    }

    /// Returns the connection for a call.
    pub(crate) fn line_of(&self, call: &Call) -> Option<&Connection> {
        Some(&self.lines.get(self.index_of(call)?)?.line)
    }

    /// Returns the connection to a server.
    pub(crate) fn line_to(&self, place: &HostPort) -> Option<&Connection> {
        let kept = self.lines.iter().find(|kept| kept.line.leads_to(place))?;
        Some(&kept.line)
    }

    /// Returns the map of `shards`, with the connections of this one to servers that stay.
    fn redrawn(
        &self,
        shards: &[ClusterShard],
        settings: &Arc<LinkSettings>,
        shared: &Arc<LinkState>,
    ) -> Self {
        let mut slots = vec![None; usize::from(SLOTS)].into_boxed_slice();
        let mut lines = Vec::with_capacity(shards.len());
        for shard in shards {
            let Some(number) = number_in(&shard.ranges) else {
                continue;
            };
            let index = u16::try_from(lines.len()).ok();
            for (from, to) in &shard.ranges {
                let range = slots.get_mut(usize::from(*from)..=usize::from(*to));
                range.into_iter().flatten().for_each(|slot| *slot = index);
            }
            let part = format!(":{{{number}}}");
            let known = self
                .lines
                .iter()
                .find(|kept| kept.line.leads_to(&shard.place));
            lines.push(match known {
                Some(kept) => {
                    kept.line.is_of_part(part);
                    Arc::clone(kept)
                }
                None => {
                    let target = ServerLocator::Fixed {
                        place: ServerAddress::Tcp(shard.place.clone()),
                        database: 0,
                    };
                    let line =
                        Connection::new(target, part, Arc::clone(settings), Arc::clone(shared));
                    Arc::new(SupervisedConnection::keep(line))
                }
            });
        }
        Self {
            lines,
            slots: Some(slots),
        }
    }
}

/// Keeps the map of a Cluster up to date.
pub(crate) async fn keep(
    named: Vec<HostPort>,
    map: Arc<ArcSwap<ServerMap>>,
    settings: Arc<LinkSettings>,
    shared: Arc<LinkState>,
) {
    let mut backoff = ReconnectBackoff::default();
    let mut answered: Option<HostPort> = None;
    let mut told = false;
    loop {
        let known: Vec<HostPort> = answered.iter().chain(&named).cloned().collect();
        let pause = match learn(&known, &settings).await {
            Ok((who, shards)) => {
                let next = map.load().redrawn(&shards, &settings, &shared);
                map.store(Arc::new(next));
                answered = Some(who);
                backoff = ReconnectBackoff::default();
                told = false;
                OFTEN
            }
            Err(why) => {
                if !told {
                    warn!(target: LOG_TARGET, "store: no cluster node returned the slot map: {why}");
                }
                told = true;
                answered = None;
                backoff.pause(random())
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.changed.notified() => tokio::time::sleep(jittered(SOON, random())).await,
        }
    }
}

/// Fetches the map from the first server that answers, and returns that server.
pub(crate) async fn learn(
    known: &[HostPort],
    settings: &LinkSettings,
) -> Result<(HostPort, Vec<ClusterShard>), String> {
    let mut reasons = Vec::new();
    for node in known {
        match learn_from(node, settings).await {
            Ok(shards) => return Ok((node.clone(), shards)),
            Err(why) => reasons.push(format!("{node}: {why}")),
        }
    }
    Err(reasons.join("; "))
}

async fn learn_from(node: &HostPort, settings: &LinkSettings) -> Result<Vec<ClusterShard>, String> {
    let place = ServerAddress::Tcp(node.clone());
    let greeting = Handshake::Keys { database: 0 };
    let connected = connect(&place, greeting, settings).await;
    let connected = connected.map_err(|why| why.to_string())?;
    let mut pipe = connected.pipe;
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let deadline = deadline(settings.connect_timeout);
    let answer = tokio::select! {
        answer = tokio::time::timeout_at(deadline, pipe.send_packed_command(&question)) => answer.ok(),
        () = connected.driver => None,
    };
    let Some(answer) = answer else {
        return Err("it did not answer".to_owned());
    };
    match read(answer) {
        Ok(reply) => match shards(&reply, node) {
            Some(shards) if !shards.is_empty() => Ok(shards),
            Some(_) => Err("it knows no slots".to_owned()),
            None => Err("its answer cannot be read".to_owned()),
        },
        Err(fault) => Err(fault.to_string()),
    }
}
