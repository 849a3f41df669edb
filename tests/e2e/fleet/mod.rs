//! Several gateways that share a store.

mod by_key;
mod changes;
mod cluster;
mod distance;
mod emptied;
mod members;
mod moved;
mod outage;
mod restarts;
mod seed;
mod shared;
mod steady;
mod strict;
mod waits;

use crate::harness::*;

/// Gateways before one origin, which share one store.
struct Fleet {
    nodes: Vec<Gateway>,
    store: String,
}

impl Fleet {
    /// So many gateways, each connected to the store that these lines of `[store]` name.
    async fn of(count: usize, origin: &Origin, store: &str, rules: &str) -> Self {
        Self::with_file(count, origin, store, rules, ("unused", "")).await
    }

    /// As [`Self::of`], with a file in the directory of each.
    async fn with_file(
        count: usize,
        origin: &Origin,
        store: &str,
        rules: &str,
        (name, content): (&str, &str),
    ) -> Self {
        // However slow the machine, nobody is to fall back who is not meant to.
        let store = format!("[store]\n{store}\nrequired_for_ready = true\n");
        let store = match store.contains("timeout =") {
            true => store,
            false => format!("{store}timeout = \"5s\"\n"),
        };
        let mut nodes = Vec::new();
        for _ in 0..count {
            let setup = Setup::new().origin("app", origin).file(name, content);
            nodes.push(setup.rules(&format!("{store}{rules}")).start().await);
        }
        Self { nodes, store }
    }

    /// Three gateways and one server.
    async fn three(origin: &Origin, redis: &Redis, rules: &str) -> Self {
        Self::of(3, origin, &at(redis), rules).await
    }

    /// One request to each gateway in turn, so many in all, each with these fields; the statuses.
    async fn spread(&self, requests: usize, request: impl Fn() -> Request) -> Vec<u16> {
        let mut clients = self.clients().await;
        let mut statuses = Vec::new();
        for number in 0..requests {
            let client = &mut clients[number % self.nodes.len()];
            statuses.push(client.send(request()).await.status);
        }
        statuses
    }

    /// All at once, a connection each, evenly over the gateways; how many got this status.
    async fn at_once(&self, requests: usize, request: impl Fn() -> Request, status: u16) -> usize {
        let mut clients = Vec::new();
        for number in 0..requests {
            clients.push(self.nodes[number % self.nodes.len()].client().await);
        }
        let answers = clients.iter_mut().map(|client| client.send(request()));
        let answers = futures_util::future::join_all(answers).await;
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    }

    async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for node in &self.nodes {
            clients.push(node.client().await);
        }
        clients
    }

    /// How many decisions over strict limits were made `by` somebody, on all gateways.
    async fn decided(&self, by: &str) -> f64 {
        self.decided_each(by).await.iter().sum()
    }

    /// As [`Self::decided`], of each gateway.
    async fn decided_each(&self, by: &str) -> Vec<f64> {
        let mut each = Vec::new();
        for node in &self.nodes {
            let metrics = node.metrics().await;
            each.push(metrics.sum("sluicegate_limit_store_decisions_total", &[("by", by)]));
        }
        each
    }

    /// Waits until the store was told all that was admitted without it.
    async fn settled_debts(&self) {
        eventually(
            "the store is told what was admitted without it",
            async || {
                for node in &self.nodes {
                    let metrics = node.metrics().await;
                    (metrics.sum("sluicegate_store_unsent_keys", &[]) == 0.0).then_some(())?;
                }
                Some(())
            },
        )
        .await;
    }

    /// Waits until the store was told of so many settlements.
    async fn settled(&self, count: f64) {
        eventually("the store is told what charges came to", async || {
            let mut sum = 0.0;
            for node in &self.nodes {
                let metrics = node.metrics().await;
                sum += metrics.sum("sluicegate_store_settlements_total", &[("result", "ok")]);
            }
            (sum == count).then_some(())
        })
        .await;
    }
}

/// The line that names a server.
fn at(redis: &Redis) -> String {
    format!("url = \"{}\"", redis.url())
}

/// A strict limit `name` with these lines.
fn strict(name: &str, lines: &str) -> String {
    format!("[limit.{name}]\nkey = \"client.ip\"\nstore = \"shared-strict\"\n{lines}\n")
}

/// A route to the origin that asks these limits.
fn route(path: &str, limits: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\nlimits = [{limits}]\norigin = \"app\"\n")
}

/// How many of `statuses` are this one.
fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|found| **found == status).count()
}

/// How often the server ran scripts of gateways, by its own count.
fn scripts_run(redis: &Redis) -> u64 {
    calls(redis, "evalsha") + calls(redis, "eval")
}

/// How often the server ran a command, by its own count; those of scripts included.
fn calls(redis: &Redis, name: &str) -> u64 {
    let info = redis.command(&["INFO", "commandstats"]);
    let info = info.as_str().unwrap();
    let line = info
        .lines()
        .find(|line| line.starts_with(&format!("cmdstat_{name}:calls=")));
    let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
    calls.map_or(0, |calls| calls.parse().unwrap())
}
