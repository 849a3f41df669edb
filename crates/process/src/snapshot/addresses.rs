//! Carries over the addresses of servers whose names no longer resolve.

use super::Snapshot;
use sluicegate_config::rules::{OriginAddress, OriginRules, Rules};
use sluicegate_origin::ServerPool;

/// Gives the servers without an address in `rules` the addresses of the same names in `before`, of whichever origin.
///
/// An origin that is otherwise unchanged gets exactly its old rules, so that its pool is kept.
pub fn keep_addresses(rules: &mut Rules, before: &Snapshot) {
    for (name, origin) in &mut rules.origins {
        if !origin.servers.iter().any(|entry| entry.is_unknown()) {
            continue;
        }
        if let Some(pool) = before.pools.get(name)
            && is_same(origin, &pool.rules)
        {
            *origin = pool.rules.clone();
            continue;
        }
        for entry in &mut origin.servers {
            if let (Some(name), true) = (&entry.name, entry.is_unknown()) {
                let known = before.pools.values().map(|pool| addresses(pool, name));
                entry.addresses = known.max_by_key(Vec::len).unwrap_or_default();
            }
        }
    }
}

/// Returns whether the rules differ by nothing but addresses that are unknown now.
fn is_same(origin: &OriginRules, before: &OriginRules) -> bool {
    let mut filled = origin.clone();
    for (entry, known) in filled.servers.iter_mut().zip(&before.servers) {
        if entry.is_unknown() && entry.name == known.name {
            entry.addresses.clone_from(&known.addresses);
        }
    }
    filled == *before
}

/// Returns the addresses of a name in a pool.
fn addresses(pool: &ServerPool, name: &str) -> Vec<OriginAddress> {
    let entries = &pool.rules.servers;
    let is_of_name = |entry: usize| {
        let entry = entries.get(entry).and_then(|entry| entry.name.as_deref());
        entry == Some(name)
    };
    let servers = pool.servers();
    let mut addresses: Vec<_> = servers
        .iter()
        .filter(|server| is_of_name(server.entry))
        .map(|server| server.address.clone())
        .collect();
    addresses.sort_unstable();
    addresses
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;
    use std::path::Path;

    use sluicegate_decide::state::CounterStorage;
    use sluicegate_limiter::{Seed, Timestamp};

    use super::*;
    use sluicegate_config::{Environment, no_review, parse_in};
    use sluicegate_decide::admission::KeySeed;
    use sluicegate_record::RequestMetrics;

    /// A resolver that knows every name, or none.
    struct Resolver {
        answers: bool,
    }

    impl Environment for Resolver {
        fn resolve(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
            let address = SocketAddr::from(([192, 0, 2, 1], 80));
            if self.answers {
                Ok(vec![address])
            } else {
                Err(io::Error::other("the resolver is away"))
            }
        }

        fn read(&self, _: &Path) -> io::Result<String> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn is_open_to_all(&self, _: &Path) -> bool {
            false
        }

        fn variable(&self, _: &str) -> Option<String> {
            None
        }

        fn cores(&self) -> usize {
            1
        }
    }

    fn rules(origins: &str, resolver: &Resolver) -> Rules {
        let text = format!(
            "listener = [{{ address = '0.0.0.0:8080' }}]\nroute = [{{ path = '/*', origin = 'a' }}]\n{origins}"
        );
        parse_in("", &text, resolver, no_review).unwrap().rules
    }

    /// Goal: a reload while the resolver is unavailable removes no server. Method: the same file, another origin with the same
    /// name, and a name that was never known.
    #[test]
    fn known_addresses_stay_while_the_resolver_is_away() {
        let same = "origin.a = { servers = ['app.test:80'] }\n";
        let before = rules(same, &Resolver { answers: true });
        let snapshot = Snapshot::compile(
            before.clone(),
            None,
            &CounterStorage::MEMORY,
            &RequestMetrics::new(),
            &KeySeed::from_seed(Seed::from_bytes([0; 16])),
            Timestamp::from_secs(1),
        );
        let away = Resolver { answers: false };
        let mut again = rules(same, &away);
        assert_ne!(again, before);
        keep_addresses(&mut again, &snapshot);
        assert_eq!(again, before);

        let others = "origin.a = { servers = ['app.test:80'], retries = 3 }\n\
            origin.b = { servers = ['app.test:80', 'new.test:80'] }\n";
        let mut changed = rules(others, &away);
        keep_addresses(&mut changed, &snapshot);
        let known = |origin: &str, entry: usize| {
            let entry = &changed.origins[origin].servers[entry];
            entry.addresses.len()
        };
        assert_eq!([known("a", 0), known("b", 0), known("b", 1)], [1, 1, 0]);
    }
}
