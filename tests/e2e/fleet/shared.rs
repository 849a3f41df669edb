//! `store = "shared"`: each gateway decides at once, and tells the others afterwards.

use serde_json::Value;

use super::*;

/// What `[store]` says of this server.
pub(super) fn often(place: &str) -> String {
    format!("url = \"redis://{place}\"\nsync_interval = \"50ms\"\ntimeout = \"300ms\"")
}

/// A shared limit `name` with these lines.
pub(super) fn shared(name: &str, lines: &str) -> String {
    format!("[limit.{name}]\nkey = \"client.ip\"\nstore = \"shared\"\n{lines}\n")
}

fn one_limit(lines: &str) -> String {
    shared("a", lines) + &route("/a", "\"a\"")
}

/// So many gateways that know of each other, and how keys are hashed.
pub(super) async fn fleet_of(count: usize, origin: &Origin, place: &str, rules: &str) -> Fleet {
    fleet_at(count, origin, &often(place), rules).await
}

/// As [`fleet_of`], at the store that these lines name.
pub(super) async fn fleet_at(count: usize, origin: &Origin, store: &str, rules: &str) -> Fleet {
    let fleet = Fleet::of(count, origin, store, rules).await;
    fleet
        .everywhere("the gateways know of each other", |store, _| {
            store["nodes"] == count && store["seed_known"] == true
        })
        .await;
    fleet
}

impl Fleet {
    /// Waits until `/status` of every gateway, its parts `store` and `replication`, says so.
    pub(super) async fn everywhere(&self, what: &str, says: impl Fn(&Value, &Value) -> bool) {
        eventually(what, async || {
            for node in &self.nodes {
                let status = node.status().await;
                says(&status["store"], &status["replication"]).then_some(())?;
            }
            Some(())
        })
        .await;
    }

    /// Waits until the store was told everything.
    pub(super) async fn told(&self) {
        self.everywhere("the store is told", |_, replication| {
            replication["keys"] == 0
        })
        .await;
    }

    pub(super) async fn reached(&self, state: &str) {
        self.everywhere("the gateways notice", |store, _| {
            store["servers"][0]["state"] == state
        })
        .await;
    }

    /// Asks every gateway until all of them refuse, telling the store between rounds; how many passed meanwhile.
    pub(super) async fn exhaust(&self, target: &str) -> usize {
        let mut passed = 0;
        // Every round passes somebody or is the last.
        for _ in 0..1_000 {
            let statuses = self.spread(self.nodes.len(), || get(target)).await;
            assert_eq!(
                count(&statuses, 200) + count(&statuses, 429),
                statuses.len()
            );
            if count(&statuses, 200) == 0 {
                return passed;
            }
            passed += count(&statuses, 200);
            self.told().await;
        }
        panic!("{passed} have passed, and nobody is refused");
    }

    /// Units beyond the limits, by all gateways.
    pub(super) async fn excess(&self) -> usize {
        let mut sum = 0.0;
        for node in &self.nodes {
            let metrics = node.metrics().await;
            sum += metrics.sum("sluicegate_limit_excess_units_total", &[]);
        }
        sum as usize
    }
}

/// Units that the server counts in sliding windows, of all keys.
pub(super) fn counted(redis: &Redis) -> usize {
    let keys = redis.command(&["KEYS", "sluicegate{*"]);
    let keys = keys.as_array().unwrap().iter().filter_map(Value::as_str);
    let units = |key: &str| {
        let fields = redis.command(&["HGETALL", key]);
        let fields: Vec<&str> = fields
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let windows = fields.chunks(2).filter(|pair| pair[0].starts_with('s'));
        // Second, units of the window before, units of that window.
        let units = windows.flat_map(|pair| pair[1].split(' ').skip(1));
        units
            .map(|units| units.parse::<usize>().unwrap())
            .sum::<usize>()
    };
    keys.map(units).sum()
}

#[tokio::test]
async fn gateways_that_exchange_their_counts_come_to_one_limit() {
    // Goal: the excess is at most the documented one, each unit is charged, and then no request passes.
    // Method: a client spread over three gateways; what the origin saw, what the server counts, what lies beyond the limit.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules = one_limit("rates = [\"20 per 1h\"]");
    let fleet = fleet_of(3, &origin, &redis.address().to_string(), &rules).await;
    fleet.spread(90, || get("/a")).await;
    fleet.told().await;
    fleet.exhaust("/a").await;
    let passed = origin.count();
    // However late a gateway hears of the others, its own count it knows.
    assert!((20..=60).contains(&passed), "{passed} passed");
    assert_eq!(counted(&redis), passed);
    assert_eq!(fleet.excess().await, passed - 20);
    assert_eq!(fleet.spread(30, || get("/a")).await, [429; 30]);
    assert_eq!(origin.count(), passed);
}

#[tokio::test]
async fn a_client_that_moves_to_another_gateway_meets_its_count_there() {
    // Goal: after one sync a gateway that has never seen the client refuses it. Method: the limit used up at one gateway; the other lets
    // one request pass before it has heard.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules = one_limit("rates = [\"5 per 1h\"]");
    let fleet = fleet_of(2, &origin, &redis.address().to_string(), &rules).await;
    let [home, away] = &fleet.nodes[..] else {
        panic!("two gateways");
    };
    let mut client = home.client().await;
    for left in (0..5).rev() {
        assert_eq!(client.get("/a").await.remaining("a"), left);
    }
    assert_eq!(client.get("/a").await.status, 429);
    fleet.told().await;
    assert_eq!(away.get("/a").await.status, 200);
    fleet.told().await;
    let refused = away.get("/a").await;
    assert_eq!((refused.status, refused.remaining("a")), (429, 0));
    assert_eq!(fleet.excess().await, 1);
}

#[tokio::test]
async fn without_the_store_each_gateway_admits_its_share_and_pushes_it_later() {
    // Goal: no 5xx, together about what the limit says, and no refill when a server is back that has lost everything. Method: three
    // gateways with nine units, the server killed, then started empty.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let rules = one_limit("rates = [\"9 per 1h\"]");
    let fleet = fleet_of(3, &origin, &redis.address().to_string(), &rules).await;
    redis.kill();
    fleet.reached("unavailable").await;
    for node in &fleet.nodes {
        let mut client = node.client().await;
        let mut statuses = Vec::new();
        for _ in 0..5 {
            statuses.push(client.get("/a").await.status);
        }
        assert_eq!(statuses, [200, 200, 200, 429, 429]);
        assert_eq!(node.status().await["replication"]["keys"], 1);
    }
    let line = fleet.nodes[0].access_lines(5).await.pop().unwrap();
    assert_eq!(line["decided_by"]["a"], "fallback");
    redis.restart().await;
    fleet.reached("connected").await;
    fleet.told().await;
    assert_eq!(counted(&redis), 9);
    // Who told first has not heard of the others.
    fleet.exhaust("/a").await;
    assert_eq!(counted(&redis), origin.count());
    assert_eq!(fleet.excess().await, origin.count() - 9);
}

#[tokio::test]
async fn what_a_server_counted_before_it_hung_counts_once() {
    // Goal: pushes whose answers come too late are repeated, and count once. Method: SIGSTOP while a client is admitted, until a push has
    // timed out; SIGCONT, whereupon the server runs what it had been sent.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules = one_limit("rates = [\"1000 per 1h\"]");
    let fleet = fleet_of(2, &origin, &redis.address().to_string(), &rules).await;
    fleet.spread(10, || get("/a")).await;
    redis.pause();
    let mut statuses = fleet.spread(10, || get("/a")).await;
    fleet.reached("unavailable").await;
    statuses.extend(fleet.spread(10, || get("/a")).await);
    assert_eq!(statuses, [200; 20]);
    redis.resume();
    fleet.reached("connected").await;
    fleet.told().await;
    assert_eq!(counted(&redis), 30);
    assert_eq!(fleet.spread(1, || get("/a")).await, [200]);
    fleet.told().await;
    assert_eq!(counted(&redis), 31);
}

#[tokio::test]
async fn an_answer_that_is_lost_charges_once() {
    // Goal: a push is repeated until it is answered, and counts once. Method: a line that cuts answers short, until one of them was
    // that of
    // a push.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let line = Mishap::before(redis.address()).await;
    let rules = one_limit("rates = [\"1000 per 1h\"]");
    let fleet = fleet_of(1, &origin, &line.address().to_string(), &rules).await;
    let node = &fleet.nodes[0];
    let mut charged = 0;
    eventually("an answer to a push is lost", async || {
        fleet.reached("connected").await;
        line.set(Way::CutAfter(3));
        assert_eq!(node.get("/a").await.status, 200);
        charged += 1;
        fleet.told().await;
        assert_eq!(counted(&redis), charged);
        (node.status().await["replication"]["retries"] != 0).then_some(())
    })
    .await;
    let lost = node.metrics().await;
    assert_eq!(
        lost.sum("sluicegate_store_sync_dropped_units_total", &[]),
        0.0
    );
}

#[tokio::test]
async fn refunded_charges_are_never_pushed() {
    // Goal: `count_if` works across gateways, and refunded units are not pushed. Method: one gateway sees successes between three
    // failures; the other then hears of these, by a request that it lets pass and that succeeds.
    let redis = Redis::start().await;
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/ok" => Answer::new(200).into(),
        _ => Answer::new(401).into(),
    });
    let lines = "rates = [\"3 per 1h\"]\ncount_if = \"response.status in [401]\"";
    let rules = shared("a", lines) + &route("/*", "\"a\"");
    let fleet = fleet_of(2, &origin, &redis.address().to_string(), &rules).await;
    let [one, two] = &fleet.nodes[..] else {
        panic!("two gateways");
    };
    for (target, status, units) in [
        ("/ok", 200, 0),
        ("/no", 401, 1),
        ("/ok", 200, 1),
        ("/no", 401, 2),
        ("/no", 401, 3),
        ("/ok", 429, 3),
    ] {
        assert_eq!(one.get(target).await.status, status);
        fleet.told().await;
        assert_eq!(counted(&redis), units);
    }
    assert_eq!(two.get("/ok").await.status, 200);
    fleet.told().await;
    assert_eq!(two.get("/ok").await.status, 429);
    assert_eq!(counted(&redis), 3);
}

#[tokio::test]
async fn an_edit_from_local_to_shared_and_back_refills_no_key() {
    // Goal: counts survive where they are kept (contract C4). Method: a client uses three of five units before the edit, two after it,
    // and
    // none after the edit is taken back.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let lines = "rates = [\"5 per 1h\"]";
    let local = format!(
        "[limit.a]\nkey = \"client.ip\"\n{lines}\n{}",
        route("/a", "\"a\"")
    );
    let local = format!("[store]\n{}\n{local}", often(&redis.address().to_string()));
    let exchanged = local.replace("key =", "store = \"shared\"\nkey =");
    let mut node = Gateway::before(&origin, &local).await;
    let ask = async |node: &Gateway, times: usize| {
        let mut statuses = Vec::new();
        for _ in 0..times {
            statuses.push(node.get("/a").await.status);
        }
        statuses
    };
    assert_eq!(ask(&node, 3).await, [200; 3]);
    node.reload(&exchanged).await;
    assert_eq!(ask(&node, 4).await, [200, 200, 429, 429]);
    node.reload(&local).await;
    assert_eq!(ask(&node, 2).await, [429; 2]);
}

#[tokio::test]
async fn a_shared_limit_may_be_open_or_closed_without_its_store() {
    // Goal: `on_store_failure` applies to each limit, and a request that is not decided charges nothing. Method: both on routes of
    // their own, one with
    // a limit of the gateway beside.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let one = "rates = [\"1 per 1h\"]\non_store_failure";
    let rules = [
        shared("open", &format!("{one} = \"open\"")),
        shared("closed", &format!("{one} = \"closed\"")),
        "[limit.own]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n".to_owned(),
        route("/open", "\"open\""),
        route("/closed", "\"own\", \"closed\""),
        route("/own", "\"own\""),
    ];
    let place = redis.address().to_string();
    let fleet = fleet_of(1, &origin, &place, &rules.concat()).await;
    let node = &fleet.nodes[0];
    redis.kill();
    fleet.reached("unavailable").await;
    for _ in 0..3 {
        assert_eq!(node.get("/open").await.status, 200);
        let closed = node.get("/closed").await;
        assert_eq!(
            (closed.status, closed.violated()),
            (503, vec!["closed".to_owned()])
        );
    }
    assert_eq!(node.get("/own").await.remaining("own"), 4);
    redis.restart().await;
    fleet.reached("connected").await;
    fleet.told().await;
    assert_eq!(node.get("/open").await.status, 429);
}

#[tokio::test]
async fn local_shared_and_strict_limits_are_charged_together_or_not_at_all() {
    // Goal: whichever kind refuses, the others are not charged (contract C2). Method: each kind is the narrowest once; a
    // rejection that only the store knows of comes last.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let limits = |name: &str, count: u32| {
        let lines = format!("rates = [\"{count} per 1h\"]");
        let own = format!("[limit.{name}-own]\nkey = \"client.ip\"\n{lines}\n");
        [
            own,
            shared(&format!("{name}-shared"), &lines),
            strict(&format!("{name}-strict"), &lines),
        ]
        .concat()
    };
    let mut rules = limits("wide", 9) + &limits("narrow", 2);
    let kinds = ["own", "shared", "strict"];
    for kind in kinds {
        let wide: Vec<String> = kinds
            .iter()
            .map(|other| format!("\"wide-{other}\""))
            .collect();
        rules += &route(
            &format!("/{kind}"),
            &format!("{}, \"narrow-{kind}\"", wide.join(", ")),
        );
    }
    rules += &route("/wide", "\"wide-own\", \"wide-shared\", \"wide-strict\"");
    let fleet = fleet_of(2, &origin, &redis.address().to_string(), &rules).await;
    let node = &fleet.nodes[0];
    for (left, kind) in [(7, "own"), (5, "shared"), (3, "strict")] {
        let mut last = None;
        for status in [200, 200, 429, 429] {
            let answer = node.get(&format!("/{kind}")).await;
            assert_eq!(answer.status, status, "{kind}");
            last = Some(answer).filter(|answer| answer.status == 200).or(last);
        }
        let last = last.unwrap();
        for other in kinds {
            assert_eq!(
                last.remaining(&format!("wide-{other}")),
                left,
                "{kind}, {other}"
            );
        }
    }
    // The other gateway has not heard of the key, so the store itself rejects it there.
    let other = &fleet.nodes[1];
    assert_eq!(other.get("/strict").await.status, 429);
    assert_eq!(other.get("/wide").await.remaining("wide-own"), 8);
    fleet.told().await;
    let shared = "sluicegate{*:wide-shared";
    let key = redis.command(&["KEYS", shared])[0]
        .as_str()
        .unwrap()
        .to_owned();
    let fields = redis.command(&["HGET", &key, "s3600"]);
    let units = fields.as_str().unwrap().split(' ').skip(1);
    assert_eq!(
        units
            .map(|units| units.parse::<u32>().unwrap())
            .sum::<u32>(),
        7
    );
}
