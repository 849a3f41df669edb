//! A fleet whose store is a Cluster: keys of one request in several slots, a master that dies.

use serde_json::Value;

use super::shared::{counted, fleet_at, shared};
use super::*;

/// Who asks: enough for every master to have some.
const USERS: usize = 48;

/// A shared and a strict limit by user, and one of each by client: a request has keys in two slots.
fn rules(units: u32) -> String {
    let rates = format!("rates = [\"{units} per 1h\"]");
    let by_user = |limit: String| {
        limit.replace(
            "key = \"client.ip\"",
            "key = \"header.x-user\"\non_missing = \"refuse\"",
        )
    };
    [
        by_user(shared("a", &rates)),
        by_user(strict("b", &rates)),
        shared("c", "rates = [\"1000000 per 1h\"]"),
        strict("d", "rates = [\"1000000 per 1h\"]"),
        route("/shared", "\"a\", \"c\""),
        route("/strict", "\"b\", \"d\""),
    ]
    .concat()
}

/// A request of one of the users.
fn of(user: usize, path: &str) -> Request {
    get(path).header("x-user", &format!("user-{user}"))
}

impl Fleet {
    /// One request of every user, at every gateway; how many passed. Each is decided.
    async fn round(&self, path: &str) -> usize {
        let mut passed = 0;
        for mut client in self.clients().await {
            for user in 0..USERS {
                let status = client.send(of(user, path)).await.status;
                assert!([200, 429].contains(&status), "{status}");
                passed += usize::from(status == 200);
            }
        }
        passed
    }
}

/// What the masters count of sliding windows, of all keys.
fn counted_by(cluster: &Cluster) -> usize {
    cluster.nodes.iter().map(counted).sum()
}

async fn acquainted(cluster: &Cluster, origin: &Origin, rules: &str) -> Fleet {
    // However slow the machine, nobody is to fall back whose master lives.
    let store = format!(
        "cluster = {}\nsync_interval = \"50ms\"\ntimeout = \"5s\"",
        cluster.toml()
    );
    fleet_at(3, origin, &store, rules).await
}

#[tokio::test]
async fn a_gateway_is_ready_once_every_master_is_connected() {
    // Goal: no gateway is put into service that has to decide for a master without it. Method: one of three masters does not answer
    // when a gateway starts; then it does.
    let (cluster, origin) = (Redis::cluster_that_serves_in_part(3).await, Origin::echo());
    let store = format!(
        "[store]\ncluster = {}\nrequired_for_ready = true\ntimeout = \"5s\"\n",
        cluster.toml()
    );
    let setup = Setup::new()
        .origin("app", &origin)
        .rules(&(store + &rules(1)));
    let mut gateway = setup.start().await;
    gateway.kill();
    cluster.nodes[2].pause();
    assert_eq!(gateway.start_again_unready().await, 503);
    // The seed may be on the master that is paused: without it the others decide nothing.
    eventually("the other masters have a connection", async || {
        let servers = gateway.status().await["store"]["servers"].clone();
        let is_reached =
            |server: &&Value| server["state"] == "connected" || server["state"] == "recovering";
        (servers.as_array()?.iter().filter(is_reached).count() == 2).then_some(())
    })
    .await;
    let answer = gateway.admin(get("/readyz")).await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("a master of its Cluster"),
        "{answer:?}"
    );
    cluster.nodes[2].resume();
    gateway.ready().await;
    for user in 0..USERS {
        assert_eq!(gateway.send(of(user, "/strict")).await.status, 200);
    }
    let alone = [("by", "fallback")];
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_limit_store_decisions_total", &alone),
        0.0
    );
}

#[tokio::test]
async fn gateways_that_share_a_cluster_come_to_one_limit() {
    // Goal: with keys all over a Cluster each user meets one limit: exactly, where the store decides, and counted to the unit where
    // gateways exchange. Method: users send to every gateway until none passes; the counts of the masters.
    let (cluster, origin) = (Redis::cluster(3).await, Origin::echo());
    let fleet = acquainted(&cluster, &origin, &rules(4)).await;
    let strict = fleet.round("/strict").await + fleet.round("/strict").await;
    assert_eq!(strict, 4 * USERS);
    let mut exchanged = 0;
    loop {
        let passed = fleet.round("/shared").await;
        fleet.told().await;
        exchanged += passed;
        if passed == 0 {
            break;
        }
    }
    // Each gateway knows its own count, however late it hears of the others.
    assert!((4 * USERS..=12 * USERS).contains(&exchanged), "{exchanged}");
    assert_eq!(fleet.excess().await, exchanged - 4 * USERS);
    // Two limits a request, one of each user and one of the client.
    eventually("what was taken and not granted is given back", async || {
        (counted_by(&cluster) == 2 * (strict + exchanged)).then_some(())
    })
    .await;
    assert_eq!(fleet.round("/strict").await, 0);
    for master in &cluster.nodes {
        assert!(counted(master) > 0, "keys are everywhere");
    }
}

#[tokio::test]
async fn a_failed_master_of_a_cluster_gets_pending_charges_when_it_is_back() {
    // Goal: with one of three masters dead every request is decided, keys of the others are still pushed, and nothing is lost. Method: a
    // master is killed before it counts anything; users ask; it is started again; what all masters count is what passed.
    let mut cluster = Redis::cluster_that_serves_in_part(3).await;
    let origin = Origin::echo();
    let fleet = acquainted(&cluster, &origin, &rules(1_000_000)).await;
    cluster.nodes[1].kill();
    fleet
        .everywhere("the gateways notice", |store, _| {
            let servers = store["servers"].as_array();
            servers.is_some_and(|servers| {
                servers
                    .iter()
                    .any(|server| server["state"] == "unavailable")
            })
        })
        .await;
    let mut passed = 0;
    for path in ["/shared", "/strict"] {
        passed += fleet.round(path).await;
    }
    assert_eq!(passed, 2 * 3 * USERS);
    let alive = |node: &Redis| counted(node) > 0;
    eventually("the other masters are told", async || {
        (alive(&cluster.nodes[0]) && alive(&cluster.nodes[2])).then_some(())
    })
    .await;
    cluster.nodes[1].restart().await;
    fleet
        .everywhere("the gateways find it again", |store, _| {
            let servers = store["servers"].as_array();
            servers
                .is_some_and(|servers| servers.iter().all(|server| server["state"] == "connected"))
        })
        .await;
    fleet.told().await;
    fleet.settled_debts().await;
    assert_eq!(counted_by(&cluster), 2 * passed);
}
