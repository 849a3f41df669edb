//! Looks up the names of servers again, and adds and removes servers of a pool accordingly.
//!
//! One look-up of a pool runs at a time, however long the resolver takes, so a hanging resolver blocks at most one thread a pool. A name
//! whose look-up fails keeps its servers: an unavailable resolver is no reason to stop serving. A name without any address so far is looked
//! up every second, and its requests get 503 meanwhile.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicegate_base::bounds::RESOLVE_AGAIN;
use sluicegate_base::clock;
use tracing::{info, warn};

use super::pool::ServerPool;
use super::server_state::ServerState;
use sluicegate_config::rules::OriginAddress;

/// Looks up every name of the pool, and makes the addresses its servers. Returns the time to the next look-up.
pub(super) async fn look_up(pool: &ServerPool) -> Duration {
    look_up_by(pool, |name| async move {
        let found = tokio::net::lookup_host(&*name).await?;
        Ok(found.collect())
    })
    .await
}

/// Looks up every name as [`look_up`] does, with this resolver.
async fn look_up_by<A>(pool: &ServerPool, resolve: impl Fn(Arc<str>) -> A) -> Duration
where
    A: Future<Output = io::Result<Vec<SocketAddr>>>,
{
    let mut answers = Vec::new();
    let mut failures = Vec::new();
    for entry in &pool.rules.servers {
        let answer = match &entry.name {
            None => None,
            Some(name) => match resolve(Arc::clone(name)).await {
                Ok(found) if found.is_empty() => {
                    failures.push(format!("{name}: it has no address"));
                    None
                }
                Ok(found) => Some(found.into_iter().map(OriginAddress::from).collect()),
                Err(error) => {
                    failures.push(format!("{name}: {error}"));
                    None
                }
            },
        };
        answers.push(answer);
    }
    set_servers(pool, &answers);
    let lost = (0..answers.len()).any(|entry| !has_server(pool, entry));
    let before = pool.unresolved.swap(failures.len(), Ordering::Relaxed);
    // An entry without servers is looked up each second, and the same failure is not logged as often.
    if !lost || before != failures.len() {
        log_failures(pool, &failures, before);
    }
    if lost {
        pool.rules.resolve_every.min(RESOLVE_AGAIN)
    } else {
        pool.rules.resolve_every
    }
}

/// Returns whether the entry has a server. An address that an earlier entry has too is a server of that one.
fn has_server(pool: &ServerPool, entry: usize) -> bool {
    let servers = pool.servers();
    servers.iter().any(|server| server.entry == entry)
        || pool.rules.servers.get(entry).is_none_or(|entry| {
            let known =
                |address: &OriginAddress| servers.iter().any(|server| server.address == *address);
            entry.addresses.iter().any(known)
        })
}

/// Logs the names that do not resolve; at the look-up before it were `before`.
fn log_failures(pool: &ServerPool, failures: &[String], before: usize) {
    for failure in failures {
        warn!(
            "origin {}: a name does not resolve and keeps the servers that it had: {failure}",
            pool.name
        );
    }
    if failures.is_empty() && before > 0 {
        info!("origin {}: every name resolves again", pool.name);
    }
}

/// Sets the addresses of the pool's entries; `None`, and an answer without addresses, leaves an entry unchanged.
fn set_servers(pool: &ServerPool, answers: &[Option<Vec<OriginAddress>>]) {
    let known = pool.servers();
    let had = |entry: usize| -> Vec<OriginAddress> {
        let mut had: Vec<OriginAddress> = known
            .iter()
            .filter(|server| server.entry == entry)
            .map(|server| server.address.clone())
            .collect();
        had.sort_unstable();
        had
    };
    let mut addresses = Vec::new();
    for (entry, (answer, rules)) in answers.iter().zip(&pool.rules.servers).enumerate() {
        addresses.push(match answer {
            Some(found) if !found.is_empty() => {
                let mut found = found.clone();
                found.sort_unstable();
                found.dedup();
                found
            }
            // A literal address keeps its entry even where a name resolves to it at the moment.
            _ if rules.name.is_none() => rules.addresses.clone(),
            _ => had(entry),
        });
    }
    let all: Vec<OriginAddress> = addresses.iter().flatten().cloned().collect();
    let left = known.iter().map(|server| &server.address);
    let gone: Vec<_> = left.filter(|it| !all.contains(it)).cloned().collect();
    let is_new = |address: &&OriginAddress| !known.iter().any(|server| server.address == **address);
    let new: Vec<_> = all.iter().filter(is_new).cloned().collect();
    if gone.is_empty() && new.is_empty() {
        return;
    }
    let now = clock::now();
    pool.assemble(&addresses, &known, || ServerState::new_at(now));
    for address in gone {
        info!("origin {}: server {address} left its name", pool.name);
    }
    for address in new {
        info!("origin {}: server {address} came to its name", pool.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::{address, choose_many, pool, port_of};

    fn addresses(ports: &[u16]) -> Option<Vec<OriginAddress>> {
        Some(ports.iter().copied().map(address).collect())
    }

    fn ports(pool: &ServerPool) -> Vec<u16> {
        let servers = pool.servers();
        servers.iter().map(port_of).collect()
    }

    /// Goal: servers are added and removed with their name, and those that stay keep their state. Method: answers of a resolver
    /// in turn, one of them a failure, one of them empty.
    #[test]
    fn servers_come_and_go_with_their_name() {
        let pool = pool("servers = [\"127.0.0.1:9\", \"app.test:80\"]");
        set_servers(&pool, &[None, addresses(&[2, 1])]);
        assert_eq!(ports(&pool), [9, 1, 2]);
        let kept = Arc::clone(&pool.servers()[1].server_state);
        assert!(kept.enter(u32::MAX) && kept.drain());
        for answer in [None, Some(Vec::new())] {
            set_servers(&pool, &[None, answer]);
            assert_eq!(ports(&pool), [9, 1, 2], "a failure changes nothing");
        }
        set_servers(&pool, &[None, addresses(&[3, 1])]);
        assert_eq!(ports(&pool), [9, 1, 3]);
        let same = &pool.servers()[1].server_state;
        assert!(same.is_draining() && same.in_flight() == 1);
        assert_eq!(choose_many(&pool, 10), [(3, 5), (9, 5)].into());
    }

    /// Goal: a pool whose name never resolved gets its servers when the resolver is back, and is looked up often until then.
    /// Method: a resolver that fails, answers, and fails again.
    #[tokio::test]
    async fn a_name_that_comes_late_is_found() {
        let pool = pool("servers = [\"127.0.0.1:9\", \"dead.test:80\"]");
        assert_eq!((ports(&pool), pool.unresolved()), (vec![9], 1));
        let fails = |_| async { Err(io::Error::other("no such name")) };
        assert_eq!(look_up_by(&pool, fails).await, RESOLVE_AGAIN);
        assert_eq!((ports(&pool), pool.unresolved()), (vec![9], 1));
        let answers = |_| async { Ok(vec![SocketAddr::from(([127, 0, 0, 1], 1))]) };
        assert_eq!(look_up_by(&pool, answers).await, pool.rules.resolve_every);
        assert_eq!((ports(&pool), pool.unresolved()), (vec![9, 1], 0));
        assert_eq!(look_up_by(&pool, fails).await, pool.rules.resolve_every);
        assert_eq!((ports(&pool), pool.unresolved()), (vec![9, 1], 1));
    }

    /// Goal: a literal address stays when a name that resolved to it no longer does. Method: the overlap, then without.
    #[test]
    fn what_is_written_stays() {
        let pool = pool("servers = [\"127.0.0.1:9\", \"app.test:80\"]");
        set_servers(&pool, &[None, addresses(&[9, 1])]);
        assert_eq!(ports(&pool), [9, 1]);
        set_servers(&pool, &[None, addresses(&[1])]);
        assert_eq!(ports(&pool), [9, 1]);
    }
}
