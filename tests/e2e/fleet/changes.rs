//! What an operator does to a key at one gateway reaches the others.

use serde_json::Value;

use super::shared::{counted, often, shared};
use super::*;

const TOKEN: &str = "0123456789abcdef";
const KEY: &str = "/limits/a/keys?value=127.0.0.1";

/// Two gateways whose admin listeners take the token, before one store.
async fn two(origin: &Origin, store: &str, rules: &str) -> Fleet {
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let setup = Setup::new()
            .origin("app", origin)
            .tokens(TOKEN)
            .rules(&format!(
                "[store]\n{store}\nrequired_for_ready = true\n{rules}"
            ));
        nodes.push(setup.start().await);
    }
    let fleet = Fleet {
        nodes,
        store: store.to_owned(),
    };
    fleet
        .show("the gateways know of each other", |status| {
            status["store"]["nodes"] == 2 && status["store"]["seed_known"] == true
        })
        .await;
    fleet
}

async fn act(gateway: &Gateway, request: Request) {
    let done = gateway.admin(request.bearer(TOKEN)).await;
    assert_eq!(done.status, 200, "{done:?}");
}

/// Asks by a connection that was refused before, until a request passes.
async fn until_it_passes(client: &mut Client) {
    eventually("it is let in", async || {
        (client.get("/a").await.status == 200).then_some(())
    })
    .await;
}

/// Waits until both gateways have read what changed before now: each reads once a second, and asks for the latest change first.
async fn both_have_read(redis: &Redis) {
    let readings = || calls(redis, "zrevrange");
    let before = readings();
    eventually("both gateways read the changes", async || {
        (readings() >= before + 6).then_some(())
    })
    .await;
}

async fn expect(client: &mut Client, statuses: &[u16]) {
    for (turn, status) in statuses.iter().enumerate() {
        assert_eq!(client.get("/a").await.status, *status, "{turn}");
    }
}

#[tokio::test]
async fn a_key_that_is_cleared_at_one_gateway_passes_at_the_other() {
    // Goal: one act lets a customer in everywhere, also where refusals are remembered and a ban is in force. Method: strict limits with
    // and without a ban, used up at both gateways on kept connections; DELETE at the second; the first lets in what is left.
    let origin = Origin::echo();
    for ban in ["", "ban = { for = \"3h\" }"] {
        let redis = Redis::start().await;
        let rules = strict("a", &format!("rates = [\"3 per 1h\"]\n{ban}")) + &route("/a", "\"a\"");
        let fleet = two(&origin, &often(&redis.address().to_string()), &rules).await;
        let [one, other] = &fleet.nodes[..] else {
            panic!("two gateways");
        };
        let (mut at_one, mut at_other) = (one.client().await, other.client().await);
        expect(&mut at_one, &[200, 200, 200, 429, 429, 429]).await;
        expect(&mut at_other, &[429, 429]).await;
        act(other, delete(KEY)).await;
        expect(&mut at_other, &[200]).await;
        until_it_passes(&mut at_one).await;
        expect(&mut at_one, &[200, 429, 429]).await;
        // The change is met once: the refusal after it holds.
        both_have_read(&redis).await;
        let asked = scripts_run(&redis);
        expect(&mut at_one, &[429; 50]).await;
        // Heartbeats and such.
        assert!(scripts_run(&redis) < asked + 40);
    }
}

#[tokio::test]
async fn what_is_set_at_one_gateway_holds_at_the_other() {
    // Goal: PUT of what is used reaches the others too, and leaves their bans. Method: a strict limit used up at the first gateway; it is
    // set to two of three at the second. Then the same with a ban at the first.
    let origin = Origin::echo();
    for (ban, statuses) in [("", [200, 429]), ("ban = { for = \"3h\" }", [429, 429])] {
        let redis = Redis::start().await;
        let rules = strict("a", &format!("rates = [\"3 per 1h\"]\n{ban}")) + &route("/a", "\"a\"");
        let fleet = two(&origin, &often(&redis.address().to_string()), &rules).await;
        let (mut at_one, mut at_other) =
            (fleet.nodes[0].client().await, fleet.nodes[1].client().await);
        expect(&mut at_one, &[200, 200, 200, 429]).await;
        act(&fleet.nodes[1], request("PUT", KEY).body(r#"{"used": 2}"#)).await;
        if ban.is_empty() {
            until_it_passes(&mut at_one).await;
            expect(&mut at_one, &statuses[1..]).await;
        } else {
            both_have_read(&redis).await;
            expect(&mut at_one, &statuses).await;
            expect(&mut at_other, &[200, 429]).await;
        }
    }
}

#[tokio::test]
async fn a_key_of_exchanged_counts_is_cleared_everywhere() {
    // Goal: a gateway drops its own count of the key, and its pending charges; then the limit applies again. Method: all
    // of a shared limit admitted by the first gateway, with a ban there; DELETE at the second; the whole limit passes once more.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let lines = "rates = [\"4 per 1h\"]\nban = { for = \"3h\" }";
    let rules = shared("a", lines) + &route("/a", "\"a\"");
    let fleet = two(&origin, &often(&redis.address().to_string()), &rules).await;
    let (mut at_one, mut at_other) = (fleet.nodes[0].client().await, fleet.nodes[1].client().await);
    expect(&mut at_one, &[200, 200, 200, 200, 429, 429]).await;
    fleet.all_told().await;
    act(&fleet.nodes[1], delete(KEY)).await;
    assert_eq!(counted(&redis), 0);
    until_it_passes(&mut at_one).await;
    expect(&mut at_one, &[200, 200, 200, 429]).await;
    fleet.all_told().await;
    assert_eq!(counted(&redis), 4);
    // It hears of them by its first push, or by that of a look.
    let passed = fleet.exhaust_one(&mut at_other).await;
    assert!(passed <= 4, "{passed}");
}

impl Fleet {
    /// Waits until `/status` of every gateway says so.
    async fn show(&self, what: &str, says: impl Fn(&Value) -> bool) {
        eventually(what, async || {
            for node in &self.nodes {
                let status = node.admin(get("/status").bearer(TOKEN)).await.json();
                says(&status).then_some(())?;
            }
            Some(())
        })
        .await;
    }

    /// Waits until the store was told everything.
    async fn all_told(&self) {
        self.show("the store is told", |status| {
            status["replication"]["keys"] == 0
        })
        .await;
    }

    /// Asks by one connection until it is refused, telling the store between requests; how many passed.
    async fn exhaust_one(&self, client: &mut Client) -> usize {
        for passed in 0..100 {
            if client.get("/a").await.status == 429 {
                return passed;
            }
            self.all_told().await;
        }
        panic!("nobody is refused");
    }
}

#[tokio::test]
async fn bans_that_end_at_one_gateway_end_at_the_other() {
    // Goal: one act ends the bans of a network in the fleet, also of keys that send no request. Method: a shared limit with bans that each
    // gateway began by itself; DELETE /bans at the second; the lists of both.
    let origin = Origin::echo();
    let redis = Redis::start().await;
    let rules =
        strict("a", "rates = [\"3 per 1h\"]\nban = { for = \"3h\" }") + &route("/a", "\"a\"");
    let fleet = two(&origin, &often(&redis.address().to_string()), &rules).await;
    for (node, host) in [(0, 1), (0, 2), (1, 2), (1, 3)] {
        let path = format!("/limits/a/keys?value=192.0.2.{host}");
        let ban = request("PUT", &path).body(r#"{"ban": {"for": "2h"}}"#);
        act(&fleet.nodes[node], ban).await;
    }
    let other =
        request("PUT", "/limits/a/keys?value=198.51.100.1").body(r#"{"ban": {"for": "2h"}}"#);
    act(&fleet.nodes[0], other).await;
    let lifted = fleet.nodes[1]
        .admin(delete("/bans?cidr=192.0.2.0/24").bearer(TOKEN))
        .await;
    let answer = lifted.json();
    assert_eq!(
        (&answer["bans"], &answer["fleet"]),
        (&2.into(), &true.into()),
        "{answer}"
    );
    eventually("the bans of the network end at the first", async || {
        let page = fleet.nodes[0]
            .admin(get("/limits/a/bans").bearer(TOKEN))
            .await
            .json();
        let banned = page["keys"]
            .as_array()?
            .iter()
            .filter(|key| key["left"].as_f64() > Some(0.0));
        (banned.count() == 1).then_some(())
    })
    .await;
}
