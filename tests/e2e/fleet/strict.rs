//! `store = "shared-strict"`: several gateways admit what one would.

use std::time::Duration;

use super::*;

const TEN: &str = "rates = [\"10 per 1h\"]";

#[tokio::test]
async fn a_client_that_is_spread_over_three_gateways_meets_one_limit() {
    // Goal: exactly as many pass as one gateway would let pass, whether they come one by one or at once. Method: two limits of ten, one
    // for each way, over three gateways; one gateway with a limit of its own beside.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules =
        strict("a", TEN) + &strict("b", TEN) + &route("/a", "\"a\"") + &route("/b", "\"b\"");
    let fleet = Fleet::three(&origin, &redis, &rules).await;
    let statuses = fleet.spread(30, || get("/a")).await;
    assert_eq!(statuses[..10], [200; 10]);
    assert_eq!(statuses[10..], [429; 20]);
    assert_eq!(fleet.at_once(60, || get("/b"), 200).await, 10);
    assert_eq!(origin.count(), 20);

    let local = format!(
        "[limit.a]\nkey = \"client.ip\"\n{TEN}\n{}",
        route("/a", "\"a\"")
    );
    let alone = Gateway::before(&origin, &local).await;
    let mut client = alone.client().await;
    for status in statuses {
        assert_eq!(client.get("/a").await.status, status);
    }
    assert_eq!(fleet.decided("fallback").await, 0.0);
}

#[tokio::test]
async fn more_than_a_strict_limit_ever_admits_is_rejected_at_each_gateway() {
    // Goal: an announced cost above the count is rejected before and in the store, and takes nothing. Method: a thousand units of ten at
    // each gateway, then all ten at one of them, under two algorithms.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let announced =
        "rates = [\"10 per 1h\"]\ncost = \"response.header.x-cost\"\nreserve = \"body.json./cost\"";
    let rules = strict("a", announced)
        + &strict("b", &format!("{announced}\nalgorithm = \"exact\""))
        + &route("/a", "\"a\"")
        + &route("/b", "\"b\"");
    let fleet = Fleet::three(&origin, &redis, &rules).await;
    for path in ["/a", "/b"] {
        let costing = |cost: u32| {
            let request = post(path).header("content-type", "application/json");
            request.body(format!("{{\"cost\": {cost}}}"))
        };
        for node in &fleet.nodes {
            let answer = node.send(costing(1_000)).await;
            assert_eq!((answer.status, answer.header("retry-after")), (429, None));
        }
        let answer = fleet.nodes[0].send(costing(10)).await;
        assert_eq!((answer.status, answer.remaining(&path[1..])), (200, 0));
        let answer = fleet.nodes[1].send(costing(1)).await;
        assert_eq!(answer.status, 429);
        assert!(answer.retry_after() <= 7_200, "{answer:?}");
    }
}

#[tokio::test]
async fn limit_fields_count_the_whole_fleet() {
    // Goal: RateLimit counts the whole fleet, and the log has the decider. Method: one client sends to three gateways in turn.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules = strict("a", "rates = [\"3 per 1h\"]") + &route("/", "\"a\"");
    let fleet = Fleet::three(&origin, &redis, &rules).await;
    for (left, node) in [2, 1, 0].into_iter().zip(&fleet.nodes) {
        let answer = node.get("/").await;
        assert_eq!((answer.status, answer.remaining("a")), (200, left));
        assert_eq!(node.access_line().await["decided_by"]["a"], "store");
    }
    let refused = fleet.nodes[0].get("/").await;
    assert_eq!((refused.status, refused.remaining("a")), (429, 0));
    assert!((1..=7200).contains(&refused.retry_after()));
    let mut lines = fleet.nodes[0].access_lines(2).await;
    assert_eq!(lines.pop().unwrap()["decided_by"]["a"], "store");
    // Asked once, the gateway remembers.
    assert_eq!(fleet.nodes[0].get("/").await.status, 429);
    let mut lines = fleet.nodes[0].access_lines(3).await;
    assert_eq!(lines.pop().unwrap()["decided_by"]["a"], "cache");
}

#[tokio::test]
async fn a_strict_limit_and_one_of_the_gateway_are_charged_together_or_not_at_all() {
    // Goal: whichever refuses, the other is not charged (contract C2). Method: each is the narrower one once; what is left of the other
    // shows in the answers of a route of its own.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let own = |name: &str, count: u32| {
        format!("[limit.{name}]\nkey = \"client.ip\"\nrates = [\"{count} per 1h\"]\n")
    };
    let rules = [
        own("wide", 100),
        own("narrow", 2),
        strict("shared-wide", "rates = [\"100 per 1h\"]"),
        strict("shared-narrow", "rates = [\"2 per 1h\"]"),
        route("/by-store", "\"wide\", \"shared-narrow\""),
        route("/by-gateway", "\"shared-wide\", \"narrow\""),
        route("/wide", "\"wide\""),
        route("/shared-wide", "\"shared-wide\""),
    ];
    let fleet = Fleet::three(&origin, &redis, &rules.concat()).await;
    let node = &fleet.nodes[0];
    // Another gateway uses the shared limit up, so that this one has to be told.
    assert_eq!(fleet.nodes[1].get("/by-store").await.status, 200);
    assert_eq!(fleet.nodes[2].get("/by-store").await.status, 200);
    let refused = node.get("/by-store").await;
    assert_eq!(
        (refused.status, refused.violated()),
        (429, vec!["shared-narrow".to_owned()])
    );
    assert_eq!(node.get("/wide").await.remaining("wide"), 99);

    for status in [200, 200, 429, 429] {
        assert_eq!(node.get("/by-gateway").await.status, status);
    }
    let run = scripts_run(&redis);
    assert_eq!(node.get("/shared-wide").await.remaining("shared-wide"), 97);
    assert!(scripts_run(&redis) > run);
}

/// Two strict limits with keys of their own; what becomes of one client with several users.
async fn two_keys(store: &str) -> Vec<u16> {
    let origin = Origin::echo();
    let by_user = "[limit.user]\nkey = \"header.x-user\"\non_missing = \"refuse\"\nstore = \"shared-strict\"\nrates = [\"2 per 1h\"]\n";
    let rules =
        strict("client", "rates = [\"5 per 1h\"]") + by_user + &route("/", "\"client\", \"user\"");
    let fleet = Fleet::of(3, &origin, store, &rules).await;
    let mut statuses = Vec::new();
    for (at, user) in ["a", "a", "a", "a", "b", "b", "c", "c", "d"]
        .into_iter()
        .enumerate()
    {
        let request = get("/").header("x-user", user);
        statuses.push(fleet.nodes[at % 3].send(request).await.status);
        // What was taken from the one limit and not granted by the other is on its way back.
        let returned = statuses.iter().filter(|status| **status == 429).count();
        if store.contains("cluster") && returned == 2 && user == "a" {
            fleet.settled(2.0).await;
        }
    }
    statuses
}

#[tokio::test]
async fn limits_with_keys_of_their_own_are_charged_together_or_not_at_all() {
    // Goal: a request that one limit refuses leaves the other as it was, on one server, where a call decides, and in a Cluster, where
    // each key may live elsewhere. Method: a user is refused twice; the client has room for three more.
    let expected = [200, 200, 429, 429, 200, 200, 200, 429, 429];
    let redis = Redis::start().await;
    assert_eq!(two_keys(&at(&redis)).await, expected);
    let cluster = Redis::cluster(3).await;
    assert_eq!(
        two_keys(&format!("cluster = {}", cluster.toml())).await,
        expected
    );
}

#[tokio::test]
async fn parallel_guesses_at_three_gateways_reach_the_origin_five_times() {
    // Goal: guesses that are sent before the first is answered do not slip through, wherever they are sent. Method: sixty at once, and
    // the origin takes its time to refuse each password.
    let redis = Redis::start().await;
    let wrong = Reply::After(
        Duration::from_millis(300),
        Box::new(Answer::new(401).into()),
    );
    let origin = Origin::answering(move |_| wrong.clone());
    let limit = strict(
        "failures",
        "rates = [\"5 per 1h\"]\ncount_if = \"response.status == 401\"",
    );
    let fleet = Fleet::three(&origin, &redis, &(limit + &route("/*", "\"failures\""))).await;
    assert_eq!(fleet.at_once(60, || post("/login"), 401).await, 5);
    assert_eq!(origin.count(), 5);
    for node in &fleet.nodes {
        assert_eq!(node.post("/login").await.status, 429);
    }
}

#[tokio::test]
async fn answers_that_do_not_count_are_given_back_in_the_store() {
    // Goal: successes are free for the whole fleet, failures are not. Method: more successes than the limit, each given back before the
    // next; then failures.
    let redis = Redis::start().await;
    let origin = Origin::answering(|received| {
        let status = received.target.trim_start_matches('/').parse();
        Answer::new(status.unwrap_or(200)).into()
    });
    let limit = strict(
        "failures",
        "rates = [\"3 per 1h\"]\ncount_if = \"response.status == 401\"",
    );
    let fleet = Fleet::three(&origin, &redis, &(limit + &route("/*", "\"failures\""))).await;
    for (at, settled) in (1..=12).enumerate() {
        let answer = fleet.nodes[at % 3].get("/200").await;
        assert_eq!((answer.status, answer.remaining("failures")), (200, 2));
        fleet.settled(f64::from(settled)).await;
    }
    assert_eq!(
        fleet.spread(5, || get("/401")).await,
        [401, 401, 401, 429, 429]
    );
}

#[tokio::test]
async fn a_response_cost_counts_in_the_whole_fleet() {
    // Goal: what a request cost counts everywhere. Method: one request of four units; the others find what is left.
    let redis = Redis::start().await;
    let origin = Origin::answering(|_| Answer::new(200).header("x-cost", "4").into());
    let limit = strict(
        "units",
        "rates = [\"10 per 1h\"]\ncost = \"response.header.x-cost\"\nmax_cost = 10",
    );
    let fleet = Fleet::three(&origin, &redis, &(limit + &route("/", "\"units\""))).await;
    for (at, (settled, left)) in [(1.0, 9), (2.0, 5), (3.0, 1)].into_iter().enumerate() {
        let answer = fleet.nodes[at].get("/").await;
        assert_eq!((answer.status, answer.remaining("units")), (200, left));
        fleet.settled(settled).await;
    }
    assert_eq!(fleet.nodes[0].get("/").await.status, 429);
}

#[tokio::test]
async fn a_reserve_is_held_in_the_store_until_the_cost_is_known() {
    // Goal: requests that are in flight at all gateways cannot exceed a budget together, and it is settled to the unit. Method: 30 requests
    // at once over three gateways, of 100 units of which each reserves 10 and costs 4, as its answer says.
    let redis = Redis::start().await;
    let body = serde_json::json!({"usage": {"units": 4}});
    let answer = Box::new(Answer::new(200).json(&body).into());
    let reply = Reply::After(std::time::Duration::from_secs(2), answer);
    let origin = Origin::answering(move |_| reply.clone());
    let limit = strict(
        "units",
        "rates = [\"100 per 1h\"]\ncost = \"response.json./usage/units\"\nreserve = 10",
    );
    let fleet = Fleet::three(&origin, &redis, &(limit + &route("/", "\"units\""))).await;
    let asked = (0..30).map(|at| fleet.nodes[at % 3].get("/"));
    let answers = futures_util::future::join_all(asked).await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(passed, 10);
    fleet.settled(10.0).await;
    for (node, left) in [(0, 50), (1, 46), (2, 42)] {
        let answer = fleet.nodes[node].get("/").await;
        assert_eq!((answer.status, answer.remaining("units")), (200, left));
        fleet.settled(11.0 + node as f64).await;
    }
}

#[tokio::test]
async fn a_request_that_is_tried_again_charges_the_store_once() {
    // Goal: retries of the origin charge nothing in the store either. Method: one of two servers is dead; ten requests, some of which are
    // tried twice, and what each answer says is left.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let dead = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let store = format!(
        "[store]\n{}\ntimeout = \"5s\"\nrequired_for_ready = true\n",
        at(&redis)
    );
    let limit = strict("a", "rates = [\"100 per 1h\"]");
    let gateway = Setup::new()
        .servers("app", &[dead, origin.address()])
        .rules(&(store + &limit + &route("/", "\"a\"")))
        .start()
        .await;
    for left in (90..100).rev() {
        let answer = gateway.get("/").await;
        assert_eq!((answer.status, answer.remaining("a")), (200, left));
    }
    let lines = gateway.access_lines(10).await;
    assert!(lines.iter().any(|line| line["attempts"] == 2), "{lines:?}");
}

#[tokio::test]
async fn an_attack_on_one_key_does_not_reach_the_store() {
    // Goal: rejections are cached: the store gets less than one request in a hundred. Method: a flood over one gateway after
    // the limit is used up, counted by the server itself, heartbeats included, and by the gateway.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules = strict("a", TEN) + &route("/*", "\"a\"");
    let fleet = Fleet::of(1, &origin, &at(&redis), &rules).await;
    assert_eq!(count(&fleet.spread(11, || get("/")).await, 429), 1);
    assert_eq!(
        (fleet.decided("store").await, fleet.decided("cache").await),
        (10.0, 1.0)
    );
    let run = scripts_run(&redis);
    let flood = Flood::gets(5_000, "/x").connections(8);
    let report = flood.run(fleet.nodes[0].address()).await;
    assert_eq!(report.count(429), 5_000);
    assert_eq!(
        (fleet.decided("store").await, fleet.decided("cache").await),
        (10.0, 5_001.0)
    );
    let commands = scripts_run(&redis) - run;
    assert!(commands < 50, "{commands} commands for 5,000 requests");
}

#[tokio::test]
async fn every_algorithm_counts_for_the_whole_fleet() {
    // Goal: an algorithm means the same in the store. Method: five units of each, asked of three gateways at once.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let algorithms = [
        ("sliding", "rates = [\"5 per 1h\", \"50 per 1d\"]"),
        ("exact", "rates = [\"5 per 1h\"]\nalgorithm = \"exact\""),
        (
            "fixed",
            "rates = [\"5 per 1h\"]\nalgorithm = \"fixed-window\"",
        ),
        (
            "first",
            "rates = [\"5 per 1h\"]\nalgorithm = \"fixed-window\"\nalign = \"first-request\"",
        ),
        (
            "days",
            "rates = [\"5 per 1d\"]\nalgorithm = \"fixed-window\"\ntimezone = \"Europe/Berlin\"",
        ),
        (
            "tokens",
            "rates = [\"1 per 1h\"]\nalgorithm = \"token-bucket\"\nburst = 5",
        ),
        (
            "interval",
            "rates = [\"5 per 1h\"]\nalgorithm = \"token-bucket\"\nrefill = \"interval\"",
        ),
        (
            "gcra",
            "rates = [\"1 per 1h\"]\nalgorithm = \"gcra\"\nburst = 5",
        ),
        (
            "leaky",
            "rates = [\"36000 per 1h\"]\naction = \"delay\"\nqueue = 4",
        ),
    ];
    let rules: String = algorithms
        .iter()
        .map(|(name, lines)| {
            strict(name, lines) + &route(&format!("/{name}"), &format!("\"{name}\""))
        })
        .collect();
    let fleet = Fleet::three(&origin, &redis, &rules).await;
    for (name, _) in algorithms {
        let path = format!("/{name}");
        let passed = fleet.at_once(12, || get(&path), 200).await;
        match name {
            // Some leave the queue while others come.
            "leaky" => assert!((5..12).contains(&passed), "{name}: {passed}"),
            _ => assert_eq!(passed, 5, "{name}"),
        }
    }
    assert_eq!(fleet.decided("fallback").await, 0.0);
}

#[tokio::test]
async fn tiers_shadows_and_marks_work_as_with_counters_of_the_gateway() {
    // Goal: whatever a limit does beside refusing, it does with the fleet's counts. Method: a tier with more, a limit in shadow that
    // reports, one that marks; each asked beyond its rate on three gateways.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let tiers = "[limit.tiers]\nkey = \"header.x-user\"\non_missing = \"refuse\"\nstore = \"shared-strict\"\n\
        rates = [\"1 per 1h\"]\noverrides = \"../tiers.csv\"\n";
    let one = "rates = [\"1 per 1h\"]";
    let rules = [
        strict("shadow", &format!("{one}\naction = \"shadow\"")),
        strict(
            "mark",
            &format!("{one}\naction = \"mark\"\nmark = {{ header = \"X-Over\" }}"),
        ),
        tiers.to_owned(),
        route("/shadow", "\"shadow\""),
        route("/mark", "\"mark\""),
        route("/tiers", "\"tiers\""),
    ];
    let file = ("tiers.csv", "header.x-user, rates\ngold, 3 per 1h\n");
    let fleet = Fleet::with_file(3, &origin, &at(&redis), &rules.concat(), file).await;
    let user = |user: &'static str| move || get("/tiers").header("x-user", user);
    assert_eq!(fleet.spread(4, user("gold")).await, [200, 200, 200, 429]);
    assert_eq!(fleet.spread(3, user("tin")).await, [200, 429, 429]);
    assert_eq!(fleet.spread(4, || get("/shadow")).await, [200; 4]);
    assert_eq!(fleet.spread(4, || get("/mark")).await, [200; 4]);
    let marked = origin.requests();
    let marked = marked
        .iter()
        .filter(|request| request.header("x-over").is_some());
    assert_eq!(marked.count(), 3);
    let mut reported = 0.0;
    for node in &fleet.nodes {
        let metrics = node.metrics().await;
        reported += metrics.sum(
            "sluicegate_limit_shadow_refused_total",
            &[("limit", "shadow")],
        );
    }
    assert_eq!(reported, 3.0);
}

#[tokio::test]
async fn a_limit_changes_between_its_own_counters_and_the_stores() {
    // Goal: a reload may move a limit to the store and back; what the gateway admitted is not forgotten by the way back. Method: two of
    // three units alone, two of three in the store, then alone again.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let three = "rates = [\"3 per 1h\"]";
    let other = strict("other", three) + &route("/other", "\"other\"");
    let local = format!(
        "[limit.a]\nkey = \"client.ip\"\n{three}\n{}{other}",
        route("/", "\"a\"")
    );
    let shared = strict("a", three) + &route("/", "\"a\"") + &other;
    let mut fleet = Fleet::of(2, &origin, &at(&redis), &local).await;
    let store = fleet.store.clone();
    let [node, beside] = &mut fleet.nodes[..] else {
        unreachable!()
    };
    assert_eq!(node.get("/").await.remaining("a"), 2);
    for gateway in [&mut *node, &mut *beside] {
        gateway.reload(&format!("{store}{shared}")).await;
    }
    // The store begins with what it was told: nothing.
    assert_eq!(node.get("/").await.remaining("a"), 2);
    assert_eq!(beside.get("/").await.remaining("a"), 1);
    for gateway in [&mut *node, &mut *beside] {
        gateway.reload(&format!("{store}{local}")).await;
    }
    assert_eq!(
        node.get("/").await.remaining("a"),
        0,
        "two before, and one now"
    );
    assert_eq!(
        beside.get("/").await.remaining("a"),
        1,
        "one before, and one now"
    );
    assert_eq!(node.get("/").await.status, 429);
}
