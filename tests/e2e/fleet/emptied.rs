//! A store that has lost what it counted is told it again before anybody passes.

use nix::sys::signal::Signal;

use super::outage::{acquainted, decides_again, rules, short};
use super::*;

const HUNDRED: &str = "rates = [\"100 per 1h\"]";

/// How the store loses everything.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Flushed,
    Restarted,
}

impl Loss {
    async fn befalls(self, redis: &mut Redis) {
        match self {
            Self::Flushed => {
                redis.command(&["FLUSHALL"]);
            }
            Self::Restarted => {
                redis.kill();
                redis.restart().await;
            }
        }
    }
}

#[tokio::test]
async fn an_emptied_store_refills_no_strict_limit() {
    // Goal: what was used before a loss stays used, also while the gateways find out. Method: sixty of a hundred over two gateways, a
    // loss,
    // and requests that never stop until the store decides again and everybody is refused. What one gateway admits by its share, fifty
    // less
    // the thirty that it has admitted, the other may not have heard of when it asks the store again.
    for loss in [Loss::Flushed, Loss::Restarted] {
        let mut redis = Redis::start().await;
        let origin = Origin::echo();
        let fleet = Fleet::of(2, &origin, &short(&redis), &rules(HUNDRED)).await;
        acquainted(&fleet).await;
        assert_eq!(fleet.spread(60, || get("/a")).await, [200; 60]);
        loss.befalls(&mut redis).await;
        let mut statuses = fleet.spread(60, || get("/a")).await;
        decides_again(&fleet).await;
        fleet.settled_debts().await;
        statuses.extend(fleet.spread(60, || get("/a")).await);
        let passed = count(&statuses, 200);
        assert!((40..=60).contains(&passed), "{loss:?}: {passed} passed");
    }
}

#[tokio::test]
async fn while_counts_are_restored_each_gateway_admits_its_share() {
    // Goal: gateways that wait for a missing one decide by their shares in both modes, and `/status` says so. Method: four gateways, of
    // which one stands still; the store comes back empty; the three have five of twenty each, which `connected` would make twenty each.
    for mode in ["shared", "shared-strict"] {
        let mut redis = Redis::start().await;
        let origin = Origin::echo();
        let twenty = strict("a", "rates = [\"20 per 1h\"]") + &route("/a", "\"a\"");
        let twenty = twenty.replace("shared-strict", mode);
        let mut fleet = Fleet::of(4, &origin, &short(&redis), &twenty).await;
        acquainted(&fleet).await;
        let missing = fleet.nodes.pop().unwrap();
        missing.signal(Signal::SIGSTOP);
        redis.kill();
        fleet.reached("unavailable").await;
        redis.restart().await;
        fleet.reached("recovering").await;
        let statuses = fleet.spread(45, || get("/a")).await;
        assert_eq!(count(&statuses, 200), 15, "{mode}");
        fleet.reached("recovering").await;
    }
}

#[tokio::test]
async fn cached_state_of_one_gateway_is_restored_for_all() {
    // Goal: every gateway restores its state before any admits, whatever the algorithm. Method: one gateway admits six of ten of each;
    // after the loss another one admits four. At the last, a loss of what was told again.
    let algorithms = [
        "algorithm = \"sliding-window\"",
        "algorithm = \"fixed-window\"",
        "algorithm = \"fixed-window\"\nalign = \"first-request\"",
        "algorithm = \"token-bucket\"",
        "algorithm = \"gcra\"",
        "algorithm = \"exact\"",
    ];
    let mut all = rules("rates = [\"1 per 1h\"]");
    for (at, algorithm) in algorithms.iter().enumerate() {
        let rates = format!("{algorithm}\nrates = [\"10 per 6h\"]");
        all += &strict(&format!("l{at}"), &rates);
        all += &route(&format!("/l{at}"), &format!("\"l{at}\""));
    }
    for loss in [Loss::Flushed, Loss::Restarted] {
        let mut redis = Redis::start().await;
        let origin = Origin::echo();
        let fleet = Fleet::of(2, &origin, &short(&redis), &all).await;
        acquainted(&fleet).await;
        let pass = async |node: usize, path: &str, times: usize| {
            let mut client = fleet.nodes[node].client().await;
            let mut passed = 0;
            for _ in 0..times {
                passed += usize::from(client.get(path).await.status == 200);
            }
            passed
        };
        for at in 0..algorithms.len() {
            assert_eq!(pass(0, &format!("/l{at}"), 6).await, 6);
        }
        for round in [2, 4] {
            loss.befalls(&mut redis).await;
            decides_again(&fleet).await;
            for (at, algorithm) in algorithms.iter().enumerate() {
                let passed = pass(1, &format!("/l{at}"), round).await;
                assert_eq!(passed, 2, "{loss:?}: {algorithm}, {round}");
            }
        }
    }
}

#[tokio::test]
async fn charges_that_the_store_got_late_are_restored() {
    // Goal: what a gateway admitted without the store, and sent afterwards, stays used when the store then loses it. Method: a client uses
    // three of five units while the server is down; it gets them when it is back, and is emptied before the client's next request.
    for loss in [Loss::Flushed, Loss::Restarted] {
        let mut redis = Redis::start().await;
        let origin = Origin::echo();
        let five = rules("rates = [\"5 per 1h\"]");
        let fleet = Fleet::of(1, &origin, &short(&redis), &five).await;
        redis.kill();
        // What is sent to a server that is just going away may have arrived, and is not sent again.
        fleet.reached("unavailable").await;
        assert_eq!(fleet.spread(3, || get("/a")).await, [200; 3]);
        redis.restart().await;
        decides_again(&fleet).await;
        fleet.settled_debts().await;
        loss.befalls(&mut redis).await;
        decides_again(&fleet).await;
        let statuses = fleet.spread(4, || get("/a")).await;
        assert_eq!(statuses, [200, 200, 429, 429], "{loss:?}");
    }
}

#[tokio::test]
async fn state_is_restored_to_an_emptied_master_of_a_cluster() {
    // Goal: the same by masters, each of which may lose its part. Method: clients of two gateways use half of a limit; every master is
    // emptied; who asks the other gateway once it was told has the other half.
    let (cluster, origin) = (Redis::cluster(3).await, Origin::echo());
    let store = format!("cluster = {}", cluster.toml());
    let by_user = "[limit.a]\nkey = \"header.x-user\"\non_missing = \"refuse\"\nstore = \"shared-strict\"\nrates = [\"4 per 1h\"]\n";
    let fleet = Fleet::of(
        2,
        &origin,
        &store,
        &format!("{by_user}{}", route("/", "\"a\"")),
    )
    .await;
    let users: Vec<String> = (0..12).map(|user| format!("user-{user}")).collect();
    let ask = async |node: usize, user: &str| {
        let request = get("/").header("x-user", user);
        fleet.nodes[node].send(request).await.status
    };
    for user in &users {
        assert_eq!([ask(0, user).await, ask(0, user).await], [200; 2]);
    }
    for node in &cluster.nodes {
        node.command(&["FLUSHALL"]);
    }
    eventually("each master was told its keys again", async || {
        let keys = cluster.nodes.iter().map(|node| {
            let keys = node.command(&["KEYS", "sluicegate{*"]);
            keys.as_array().unwrap().len()
        });
        (keys.sum::<usize>() == users.len()).then_some(())
    })
    .await;
    for user in &users {
        let statuses = [ask(1, user).await, ask(1, user).await, ask(1, user).await];
        assert_eq!(statuses, [200, 200, 429], "{user}");
    }
}
