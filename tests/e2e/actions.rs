//! What happens at a limit other than a refusal: marks, shadow, delays, and limits for a share of keys.

use serde_json::Value;

use crate::harness::*;

/// Everything goes to `app` under these limits, which the lines define.
fn rules(lines: &str, limits: &str) -> String {
    format!(
        "{lines}\n[[route]]\nname = \"all\"\npath = \"/*\"\nlimits = [{limits}]\norigin = \"app\"\n"
    )
}

/// A limit `name` of so many requests an hour for each client.
fn limit(name: &str, count: u32, lines: &str) -> String {
    format!("[limit.{name}]\nkey = \"client.ip\"\nrates = [\"{count} per 1h\"]\n{lines}\n")
}

/// How many lines of a log name `limit` in the list `field`.
fn naming(lines: &[Value], field: &str, limit: &str) -> usize {
    let names = |line: &&Value| {
        line[field]
            .as_array()
            .is_some_and(|list| list.contains(&limit.into()))
    };
    lines.iter().filter(names).count()
}

#[tokio::test]
async fn a_limit_in_shadow_counts_and_rejects_nothing() {
    // Goal: a shadow refusal neither refuses nor takes anything from the others, clients see nothing of it, and what the others
    // refuse does not reach it. Method: two in shadow before five; seven requests on one connection.
    let lines = limit("dark", 2, "action = \"shadow\"") + &limit("real", 5, "");
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &rules(&lines, "\"dark\", \"real\"")).await;
    let mut client = gateway.client().await;
    for left in [4, 3, 2, 1, 0] {
        let answer = client.get("/").await;
        assert_eq!((answer.status, answer.remaining("real")), (200, left));
        assert!(
            !format!("{:?}", answer.headers).contains("dark"),
            "{answer:?}"
        );
    }
    for _ in 0..2 {
        assert_eq!(client.get("/").await.violated(), ["real"]);
    }
    let metrics = gateway.metrics().await;
    let sum = |name| metrics.sum(name, &[("limit", "dark")]);
    assert_eq!(sum("sluicegate_limit_shadow_admitted_total"), 2.0);
    assert_eq!(sum("sluicegate_limit_shadow_refused_total"), 3.0);
    assert_eq!(sum("sluicegate_limit_refused_total"), 0.0);
    assert_eq!(
        naming(&gateway.access_lines(7).await, "shadow_refused", "dark"),
        3
    );
    assert_eq!(gateway.status().await["limits"][0]["action"], "shadow");
}

#[tokio::test]
async fn a_limit_in_shadow_lets_requests_without_its_key_pass() {
    // Goal: who tries a limit loses no request by it. Method: a key of a JSON body, and a form; in shadow, then enforced.
    let keyed = "[limit.dark]\nkey = \"body.json.phone\"\non_missing = \"refuse\"\nrates = [\"2 per 1h\"]\n";
    let shadow = format!("{keyed}action = \"shadow\"\n");
    let origin = Origin::echo();
    let kind = "application/x-www-form-urlencoded";
    let form = || post("/").header("content-type", kind).body("phone=1");
    let mut gateway = Gateway::before(&origin, &rules(&shadow, "\"dark\"")).await;
    assert_eq!(gateway.send(form()).await.status, 200);
    let lines = gateway.access_lines(1).await;
    assert_eq!(naming(&lines, "shadow_refused", "dark"), 1, "{lines:?}");
    let metrics = gateway.metrics().await;
    for name in [
        "sluicegate_limit_shadow_refused_total",
        "sluicegate_limit_key_missing_total",
    ] {
        assert_eq!(metrics.sum(name, &[("limit", "dark")]), 1.0, "{name}");
    }
    let before = gateway.generation().await;
    gateway.write_rules(&rules(keyed, "\"dark\""), Writing::Rename);
    gateway.serves_after(before).await;
    assert_eq!(gateway.send(form()).await.status, 400);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_route_with_shadow_limits_alone_sends_no_fields() {
    // Goal: no RateLimit fields where no limit is any of the client's business. Method: one limit, in shadow.
    let origin = Origin::echo();
    let lines = limit("dark", 1, "action = \"shadow\"");
    let gateway = Gateway::before(&origin, &rules(&lines, "\"dark\"")).await;
    for _ in 0..3 {
        let answer = gateway.get("/").await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            (
                answer.header("ratelimit"),
                answer.header("ratelimit-policy")
            ),
            (None, None)
        );
    }
}

#[tokio::test]
async fn an_exceeded_limit_marks_what_it_lets_pass() {
    // Goal: the origin gets the exceeded limit and its state, and no client can set these fields. Method: a client that writes the
    // field itself, before and beyond the limit; and on a route without the limit.
    let lines = limit(
        "fast",
        2,
        "action = \"mark\"\nmark = { header = \"X-Over\" }",
    );
    let free = "[[route]]\npath = \"/free\"\norigin = \"app\"\n";
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &(rules(&lines, "\"fast\"") + free)).await;
    let mut client = gateway.client().await;
    let mut marks = Vec::new();
    for path in ["/", "/", "/", "/", "/free"] {
        let answer = client.send(get(path).header("x-over", "forged")).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
        let echo = answer.echo();
        marks.push(echo.all("x-over").first().map(|mark| (*mark).to_owned()));
    }
    let [None, None, Some(third), Some(fourth), None] = &marks[..] else {
        panic!("{marks:?}");
    };
    for mark in [third, fourth] {
        assert!(mark.starts_with("\"fast\";r=0;t="), "{mark}");
    }
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_limit_marked_total", &[("limit", "fast")]),
        2.0
    );
    assert_eq!(naming(&gateway.access_lines(5).await, "marked", "fast"), 2);
}

#[tokio::test]
async fn a_fallback_limit_applies_once_the_first_is_exceeded() {
    // Goal: two buckets, the second for what the first has no room for, under any interleaving. Method: 200 requests at once against
    // five and ten; what the origin saw marked.
    let lines =
        limit("fast", 5, "action = \"mark\"\nfallback_limit = \"slow\"") + &limit("slow", 10, "");
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &rules(&lines, "\"fast\"")).await;
    let flood = Flood::gets(200, "/").run(gateway.address()).await;
    assert_eq!((flood.count(200), flood.count(429)), (15, 185));
    let marked = |request: &&Received| request.header("x-sluicegate-limit").is_some();
    assert_eq!(origin.requests().iter().filter(marked).count(), 10);
    let refused = gateway.get("/").await;
    assert_eq!(refused.violated(), ["slow"]);
    assert_eq!(refused.all("ratelimit-policy"), ["\"slow\";q=10;w=3600"]);
}

#[tokio::test]
async fn a_limit_that_marks_is_charged_with_the_others_or_not_at_all() {
    // Goal: C2 for marks. Method: another limit refuses after one request; the mark has its second unit left on a route of its own.
    let lines = limit("fast", 2, "action = \"mark\"") + &limit("real", 1, "");
    let alone = "[[route]]\npath = \"/alone\"\nlimits = [\"fast\"]\norigin = \"app\"\n";
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &(rules(&lines, "\"fast\", \"real\"") + alone)).await;
    let mut client = gateway.client().await;
    for status in [200, 429, 429, 429] {
        assert_eq!(client.get("/").await.status, status);
    }
    for marked in [false, true] {
        let echo = client.get("/alone").await.echo();
        assert_eq!(echo.header("x-sluicegate-limit").is_some(), marked);
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place_in_the_queue() {
    // Goal: `action = "delay"` detects that the client has left, over HTTP/1 with and without a body unread, and over HTTP/2.
    // Method: one place, and a turn every ten minutes: a waiting request occupies the place until it leaves.
    let lines = "[limit.turn]\nkey = \"global\"\nrates = [\"6 per 1h\"]\naction = \"delay\"\nqueue = 1\nmax_wait = \"10m\"\n";
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &rules(lines, "\"turn\"")).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let mut logged = 1;
    for head in [
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nbody",
    ] {
        let mut waiter = gateway.raw().await;
        waiter.write(head).await;
        refused(&gateway, &mut logged).await;
        drop(waiter);
        left(&gateway, &mut logged).await;
    }
    let h2c = gateway.h2c().await;
    let waiter = tokio::spawn(async move { h2c.send(get("/")).await });
    refused(&gateway, &mut logged).await;
    waiter.abort();
    left(&gateway, &mut logged).await;
    assert_eq!(origin.count(), 1);
    assert_eq!(gateway.status().await["limits"][0]["action"], "delay");
}

/// Waits until so many requests are in flight.
async fn in_flight(gateway: &Gateway, count: usize) {
    eventually("so many requests are in flight", async || {
        let metrics = gateway.metrics().await;
        let now = metrics.sum("sluicegate_requests_in_flight", &[]);
        (now == count as f64).then_some(())
    })
    .await;
}

/// Waits until somebody waits, so that the queue is full.
async fn refused(gateway: &Gateway, logged: &mut usize) {
    // A request that finds the place free would take it, so the waiter is looked for first.
    in_flight(gateway, 1).await;
    assert_eq!(gateway.get("/").await.violated(), ["turn"]);
    *logged += 1;
}

/// Waits until the gateway noticed that the waiter left.
async fn left(gateway: &Gateway, logged: &mut usize) {
    in_flight(gateway, 0).await;
    *logged += 1;
    let lines = gateway.access_lines(*logged).await;
    let gone = lines.iter().filter(|line| line["outcome"] == "client-gone");
    let gone: Vec<_> = gone.collect();
    assert!(
        !gone.is_empty() && gone.iter().all(|line| line["refunded"][0] == "turn"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_request_that_waited_for_its_turn_is_charged_as_any_other() {
    // Goal: only a request that leaves the queue is refunded, and the origin's times exclude the delay. Method: two requests at once,
    // and again should the machine be so slow that neither waits; what is left of a limit beside the queue, and the log.
    let turn = "[limit.turn]\nkey = \"global\"\nrates = [\"1 per 1s\"]\naction = \"delay\"\nqueue = 9\nmax_wait = \"10m\"\n";
    let lines = turn.to_owned() + &limit("beside", 1000, "");
    let alone = "[[route]]\npath = \"/alone\"\nlimits = [\"beside\"]\norigin = \"app\"\n";
    let origin = Origin::echo();
    let rules = rules(&lines, "\"turn\", \"beside\"") + alone;
    let gateway = Gateway::before(&origin, &rules).await;
    let client = gateway.h2c().await;
    let mut asked = 0;
    let delayed = eventually("one is held back", async || {
        let (one, other) = tokio::join!(client.send(get("/")), client.send(get("/")));
        assert_eq!((one.status, other.status), (200, 200));
        asked += 2;
        let metrics = gateway.metrics().await;
        let delayed = metrics.sum("sluicegate_limit_delayed_total", &[("limit", "turn")]);
        (delayed > 0.0).then_some(delayed)
    })
    .await;
    let left = gateway.get("/alone").await.remaining("beside");
    assert_eq!(left, 1000 - asked - 1);
    let lines = gateway.access_lines(asked as usize + 1).await;
    let held: Vec<_> = (lines.iter())
        .filter_map(|line| Some((line, line["delay_ms"].as_f64()?)))
        .collect();
    assert_eq!(held.len() as f64, delayed, "{lines:?}");
    for (line, delay) in held {
        let (whole, origins) = (&line["duration_ms"], &line["origin_ttfb_ms"]);
        let besides = whole.as_f64().unwrap() - origins.as_f64().unwrap();
        // Each is cut to a thousandth.
        assert!(besides >= delay - 0.001, "{line}");
    }
    assert!(
        lines.iter().all(|line| line["refunded"].is_null()),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_share_of_keys_is_refused_and_the_rest_is_in_shadow() {
    // Goal: `enforce`: always the same keys. Method: a hundred clients, three requests each against a limit of one; a client that is
    // refused once is refused again, and only those who can be refused are told of the limit.
    let lines = limit("a", 1, "enforce = \"30%\"");
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &rules(&lines, "\"a\"")).await;
    let mut enforced = 0;
    for host in 1..=100 {
        let mut client = gateway.client_from(&format!("127.0.7.{host}")).await;
        let first = client.get("/").await;
        let told = first.header("ratelimit").is_some();
        assert_eq!(
            (first.status, first.header("ratelimit-policy").is_some()),
            (200, told)
        );
        for _ in 0..2 {
            let expected = if told { 429 } else { 200 };
            assert_eq!(client.get("/").await.status, expected);
        }
        enforced += usize::from(told);
    }
    // Thirty in the mean; a hundred throws are outside of this once in a million runs.
    assert!((8..=55).contains(&enforced), "{enforced}");
    let metrics = gateway.metrics().await;
    let shadowed = metrics.sum("sluicegate_limit_shadow_refused_total", &[("limit", "a")]);
    assert_eq!(shadowed, (2 * (100 - enforced)) as f64);
}

#[tokio::test]
async fn rates_in_shadow_are_judged_beside_the_real_ones() {
    // Goal: what other rates would do, tighter and looser ones, also beyond what the real ones refuse. Method: three an hour for real;
    // one and five in shadow; six requests on one connection, of which the last three take the quick way of repeated refusals.
    let lines = limit("tight", 3, "shadow_rates = [\"1 per 1h\"]");
    let loose = limit("loose", 3, "shadow_rates = [\"5 per 1h\"]");
    for (lines, name, admitted, refused) in [(lines, "tight", 1, 5), (loose, "loose", 5, 1)] {
        let origin = Origin::echo();
        let gateway = Gateway::before(&origin, &rules(&lines, &format!("\"{name}\""))).await;
        let mut client = gateway.client().await;
        for status in [200, 200, 200, 429, 429, 429] {
            assert_eq!(client.get("/").await.status, status, "{name}");
        }
        let lines = gateway.access_lines(6).await;
        assert_eq!(naming(&lines, "shadow_rates_refused", name), refused);
        let metrics = gateway.metrics().await;
        let sum = |metric| metrics.sum(metric, &[("limit", name)]);
        assert_eq!(
            sum("sluicegate_limit_shadow_rates_admitted_total"),
            admitted as f64
        );
        assert_eq!(
            sum("sluicegate_limit_shadow_rates_refused_total"),
            refused as f64
        );
        let shown = &gateway.status().await["limits"][0]["shadow_rates"];
        assert_eq!(shown.as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test]
async fn a_limit_in_shadow_may_count_by_the_answer() {
    // Goal: the answer settles what is in shadow as it settles the rest. Method: failures in shadow; successes are free.
    let lines = limit(
        "dark",
        2,
        "action = \"shadow\"\ncount_if = \"response.status == 401\"",
    );
    let origin = Origin::answering(|received| {
        let status = if received.target == "/401" { 401 } else { 200 };
        Answer::new(status).into()
    });
    let gateway = Gateway::before(&origin, &rules(&lines, "\"dark\"")).await;
    let mut client = gateway.client().await;
    for path in ["/", "/", "/", "/401", "/401", "/401", "/"] {
        client.get(path).await;
    }
    let lines = gateway.access_lines(7).await;
    assert_eq!(naming(&lines, "refunded", "dark"), 3);
    assert_eq!(naming(&lines, "shadow_refused", "dark"), 2);
}
