//! The store may die, the site may not: what strict limits do meanwhile, and when it is back.

use super::shared::fleet_at;
use super::*;

/// What `[store]` says where it is to be lost.
pub(super) fn short(redis: &Redis) -> String {
    format!("{}\ntimeout = \"1s\"", at(redis))
}

/// Waits until every gateway knows of all.
pub(super) async fn acquainted(fleet: &Fleet) {
    let nodes = fleet.nodes.len();
    eventually("the gateways know of each other", async || {
        for node in &fleet.nodes {
            let status = node.status().await;
            (status["store"]["nodes"] == nodes).then_some(())?;
        }
        Some(())
    })
    .await;
}

/// Waits until the store decides again at every gateway, by requests of somebody else.
pub(super) async fn decides_again(fleet: &Fleet) {
    for node in &fleet.nodes {
        let by_store = async || {
            let metrics = node.metrics().await;
            metrics.sum("sluicegate_limit_store_decisions_total", &[("by", "store")])
        };
        let before = by_store().await;
        eventually("the store decides again", async || {
            node.get("/other").await;
            (by_store().await > before).then_some(())
        })
        .await;
    }
}

/// A limit under test, and one for who finds out whether the store is there.
pub(super) fn rules(lines: &str) -> String {
    let other = "[limit.other]\nkey = \"global\"\nstore = \"shared-strict\"\nrates = [\"1000000 per 1h\"]\n\
        on_store_failure = \"open\"\n";
    strict("a", lines) + &route("/a", "\"a\"") + other + &route("/other", "\"other\"")
}

#[tokio::test]
async fn without_its_store_each_gateway_lets_its_share_pass() {
    // Goal: no 5xx and no open door: three gateways admit together what one would. Method: the server is killed; nine units over three
    // gateways are three each.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let fleet = Fleet::of(3, &origin, &short(&redis), &rules("rates = [\"9 per 1h\"]")).await;
    acquainted(&fleet).await;
    redis.kill();
    for node in &fleet.nodes {
        let mut client = node.client().await;
        let mut statuses = Vec::new();
        for _ in 0..6 {
            statuses.push(client.get("/a").await.status);
        }
        assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    }
    assert_eq!(fleet.decided("store").await, 0.0);
    let refused = fleet.nodes[0].get("/a").await;
    let line = fleet.nodes[0].lines_of(&[refused]).await;
    assert_eq!(line[0]["decided_by"]["a"], "fallback");
}

#[tokio::test]
async fn a_rejection_without_the_store_shows_the_local_share() {
    // Goal: a rejection during an outage shows the remainder of this gateway's share, not the store's last state. Method: two
    // gateways, so a share is a half; one unit is used while the store is there, the rest of the narrow limit after it was killed.
    for kind in ["shared-strict", "shared"] {
        let (mut redis, origin) = (Redis::start().await, Origin::echo());
        let limit = |name: &str, count: u32| {
            let lines = format!("store = \"{kind}\"\nrates = [\"{count} per 1h\"]");
            format!("[limit.{name}]\nkey = \"client.ip\"\n{lines}\n")
        };
        let limits = limit("narrow", 6) + &limit("wide", 40);
        let rules = limits + &route("/", "\"narrow\", \"wide\"");
        let fleet = fleet_at(2, &origin, &short(&redis), &rules).await;
        let mut client = fleet.nodes[0].client().await;
        let mut ask = async || {
            let answer = client.get("/").await;
            let left = (answer.remaining("narrow"), answer.remaining("wide"));
            (answer.status, left)
        };
        assert_eq!(ask().await, (200, (5, 39)), "{kind}");
        redis.kill();
        fleet.reached("unavailable").await;
        for (status, left) in [
            (200, (1, 18)),
            (200, (0, 17)),
            (429, (0, 17)),
            (429, (0, 17)),
        ] {
            assert_eq!(ask().await, (status, left), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_store_that_hangs_delays_no_request() {
    // Goal: requests end and are decided though the server neither answers nor closes; it decides again when it runs on. Method: SIGSTOP
    // while requests come from all sides, then SIGCONT.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let fleet = Fleet::of(3, &origin, &short(&redis), &rules("rates = [\"9 per 1h\"]")).await;
    acquainted(&fleet).await;
    redis.pause();
    let passed = fleet.at_once(30, || get("/a"), 200).await;
    assert_eq!(passed, 9);
    assert_eq!(fleet.at_once(30, || get("/a"), 429).await, 30);
    assert_eq!(fleet.decided("fallback").await, 60.0);
    redis.resume();
    decides_again(&fleet).await;
}

#[tokio::test]
async fn a_limit_may_be_open_or_closed_without_its_store() {
    // Goal: each limit says what holds. Method: both on routes of their own, one with a limit of the gateway beside, which is not charged
    // for what nobody could decide.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let one = "rates = [\"1 per 1h\"]";
    let rules = [
        strict("open", &format!("{one}\non_store_failure = \"open\"")),
        strict(
            "closed",
            &format!("{one}\non_store_failure = \"closed\"\nrefusal = {{ status = 418 }}"),
        ),
        "[limit.own]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n".to_owned(),
        route("/open", "\"open\""),
        route("/closed", "\"own\", \"closed\""),
        route("/own", "\"own\""),
    ];
    let fleet = Fleet::of(1, &origin, &short(&redis), &rules.concat()).await;
    let node = &fleet.nodes[0];
    redis.kill();
    for _ in 0..5 {
        assert_eq!(node.get("/open").await.status, 200);
        let closed = node.get("/closed").await;
        assert_eq!((closed.status, closed.retry_after()), (503, 1));
        let problem = closed.json();
        let kind = problem["type"].as_str().unwrap();
        assert!(kind.ends_with("#temporary-reduced-capacity"), "{problem}");
        assert_eq!(closed.violated(), ["closed"]);
        let line = node.lines_of(&[closed]).await;
        assert_eq!(line[0]["outcome"], "store-unavailable");
        assert_eq!(line[0]["limit"], "closed");
    }
    // Who looks gets what a request gets.
    eventually("the outage is known", async || {
        let key = "/limits/closed/keys?value=127.0.0.1";
        let key = node.admin(get(key)).await.json();
        (key["next"] == "store-unavailable" && key["admits"] == false).then_some(())
    })
    .await;
    let open = node.admin(get("/limits/open/keys?value=127.0.0.1")).await;
    assert_eq!(open.json()["next"], "admitted");
    let explained = node
        .admin(get("/explain?url=/closed&client=127.0.0.1"))
        .await;
    let explained = explained.json();
    assert_eq!(
        explained["outcome"],
        "rejected with 503: the limit closed admits nothing while its store cannot be reached"
    );
    let line = explained["limits"][1].as_str().unwrap();
    assert!(
        line.ends_with("; its store cannot be reached, and it admits nothing until then"),
        "{line}"
    );
    assert_eq!(node.get("/own").await.remaining("own"), 4);
    let metrics = node.metrics().await;
    let away = metrics.sum(
        "sluicegate_limit_store_unavailable_total",
        &[("limit", "closed")],
    );
    assert_eq!(away, 5.0);
}

#[tokio::test]
async fn counts_in_the_store_outlast_its_restart_and_nothing_is_refilled() {
    // Goal: what was used before stays used. Method: a server that keeps what it knows is killed while a client has used two of three
    // units, and started again; the client is refused by what the server remembers.
    let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
    let (mut redis, origin) = (Redis::start_with(&arguments).await, Origin::echo());
    let closed = "rates = [\"3 per 1h\"]\non_store_failure = \"closed\"";
    let fleet = Fleet::of(3, &origin, &short(&redis), &rules(closed)).await;
    assert_eq!(fleet.spread(2, || get("/a")).await, [200, 200]);
    redis.kill();
    assert_eq!(fleet.spread(6, || get("/a")).await, [503; 6]);
    redis.restart().await;
    decides_again(&fleet).await;
    assert_eq!(fleet.spread(4, || get("/a")).await, [200, 429, 429, 429]);
}

#[tokio::test]
async fn what_the_store_refused_stays_refused_while_it_is_away() {
    // Goal: an outage does not refill a key. Method: a client uses up its limit, the server is killed, and even an open limit keeps
    // refusing whom it knows.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let open = "rates = [\"2 per 1h\"]\non_store_failure = \"open\"";
    let fleet = Fleet::of(1, &origin, &short(&redis), &rules(open)).await;
    assert_eq!(fleet.spread(3, || get("/a")).await, [200, 200, 429]);
    redis.kill();
    assert_eq!(fleet.spread(3, || get("/a")).await, [429; 3]);
    assert_eq!(fleet.decided("fallback").await, 0.0);
}

#[tokio::test]
async fn a_failover_under_load_is_no_outage_and_refills_no_key() {
    // Goal: while Sentinels promote a replica every request is decided, what was used stays used, and what is admitted meanwhile is
    // within
    // the documented bound. Method: the master of a replica that knows of twelve units is killed under requests, which go on until the
    // new
    // one decides at every gateway.
    let (mut master, origin) = (Redis::start().await, Origin::echo());
    let replica = Redis::replica_of(&master).await;
    let sentinels = Sentinels::start(&master, 1).await;
    let place = format!(
        "sentinel = {{ master = 'gateway', nodes = {} }}\ntimeout = \"200ms\"",
        sentinels.toml()
    );
    let fleet = Fleet::of(3, &origin, &place, &rules("rates = [\"30 per 1h\"]")).await;
    acquainted(&fleet).await;
    let mut statuses = fleet.spread(12, || get("/a")).await;
    assert_eq!(count(&statuses, 200), 12);
    let followers = master.command(&["WAIT", "1", "5000"]);
    assert_eq!(followers, 1);
    let before = fleet.decided_each("store").await;

    master.kill();
    eventually("the new master decides at every gateway", async || {
        statuses.extend(fleet.spread(3, || get("/a")).await);
        fleet.spread(3, || get("/other")).await;
        let now = fleet.decided_each("store").await;
        let all = now.iter().zip(&before).all(|(now, before)| now > before);
        all.then_some(())
    })
    .await;

    fleet.settled_debts().await;
    assert_eq!(fleet.spread(60, || get("/a")).await, [429; 60]);
    let passed = count(&statuses, 200);
    assert_eq!(passed + count(&statuses, 429), statuses.len());
    // The limit, and what the other two may still have owed while the first asked the new master already.
    assert!((30..=50).contains(&passed), "{passed} passed");
    assert!(fleet.decided("fallback").await > 0.0);
    assert_eq!(sentinels.master(), replica.port());
}
