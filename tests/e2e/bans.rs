//! Bans: refusals that outlast the rate, escalate, and survive.

use serde_json::Value;

use crate::harness::*;

const ABNORMAL: &str = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

/// The limit `otp` of so many a period on `/`, from the first request on so that no window ends between two, with these lines.
fn otp(rate: &str, lines: &str) -> String {
    let head = "algorithm = \"fixed-window\"\nalign = \"first-request\"";
    format!(
        "[limit.otp]\nkey = \"client.ip\"\nrates = [\"{rate}\"]\n{head}\n{lines}\n\
         [[route]]\npath = \"/\"\nlimits = [\"otp\"]\nrespond = {{ status = 200 }}\n"
    )
}

/// One a second and an hour of ban on `/`, beside the same limit without one on `/free`.
fn beside_one_without_a_ban() -> String {
    let rules = otp("1 per 1s", "ban = { for = \"1h\" }");
    let free = otp("1 per 1s", "").replace("otp", "free");
    rules + &free.replace("path = \"/\"", "path = \"/free\"")
}

/// What `/status` says of the bans of `otp`.
async fn bans(gateway: &Gateway) -> Value {
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    let found = limits.iter().find(|limit| limit["name"] == "otp");
    found.unwrap()["ban"].clone()
}

fn assert_banned(answer: &Response, seconds: std::ops::RangeInclusive<u64>) {
    answer.assert_problem(429);
    assert_eq!(answer.json()["type"], ABNORMAL, "{answer:?}");
    assert_eq!(answer.violated(), ["otp"]);
    assert!(seconds.contains(&answer.retry_after()), "{answer:?}");
    // How the limit stands says nothing about when to come back.
    assert_eq!(answer.header("ratelimit"), None);
}

#[tokio::test]
async fn a_ban_outlasts_the_rate() {
    // Goal: a client that exceeds a limit is rejected until the ban ends, with its wait from the first rejection on, and no other
    // is. Method: one a second, and an hour of ban, beside the same limit without one: when that has room again the ban still holds.
    let gateway = Gateway::start(&beside_one_without_a_ban()).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.get("/free").await.status, 200);
    let begins = client.get("/").await;
    assert_banned(&begins, 3590..=3600);
    eventually("the rate has room again", async || {
        (client.get("/free").await.status == 200).then_some(())
    })
    .await;
    let banned = client.get("/").await;
    assert_banned(&banned, 3500..=3600);
    assert_eq!(
        gateway.client_from("127.0.0.5").await.get("/").await.status,
        200
    );

    let lines = gateway.lines_of(&[begins, banned]).await;
    for (line, outcome) in lines.iter().zip(["rate-limited", "banned"]) {
        assert_eq!(line["outcome"], outcome, "{line}");
        assert_eq!(
            (&line["limit"], &line["ban_level"]),
            (&"otp".into(), &1.into())
        );
        assert_eq!(line["ban_key"].as_str().map(str::len), Some(16), "{line}");
    }
    let metrics = gateway.metrics().await;
    let of = |name: &str| metrics.sum(name, &[("limit", "otp")]);
    assert_eq!(of("sluicegate_limit_refused_total"), 1.0);
    assert_eq!(of("sluicegate_limit_banned_total"), 1.0);
    assert_eq!(of("sluicegate_limit_bans_total"), 1.0);
    assert_eq!(of("sluicegate_limit_ban_keys"), 1.0);
    assert_eq!(
        metrics.sum("sluicegate_requests_total", &[("outcome", "banned")]),
        1.0
    );
    assert_eq!(bans(&gateway).await["begun"], 1);
}

#[tokio::test]
async fn a_ban_costs_the_other_limits_nothing() {
    // Goal: C2 with a ban. Method: a limit a client of 10, and one of 3 that bans; 1,000 requests after the third leave the first at 3,
    // over connections that are answered by the quick path as well.
    let rules = "[limit.each]\nkey = \"client.ip\"\nrates = [\"10 per 1h\"]\n\
        [limit.otp]\nkey = \"client.ip\"\nrates = [\"3 per 1h\"]\nban = { for = \"2h\" }\n\
        [[route]]\npath = \"/\"\nlimits = [\"each\", \"otp\"]\nrespond = { status = 200 }\n\
        [[route]]\npath = \"/each\"\nlimits = [\"each\"]\nrespond = { status = 200 }\n";
    let gateway = Gateway::start(rules).await;
    let flood = Flood::gets(1_000, "/").run(gateway.address()).await;
    assert_eq!((flood.count(200), flood.count(429)), (3, 997));
    assert_eq!(gateway.get("/each").await.remaining("each"), 6);
    let metrics = gateway.metrics().await;
    let of = |name: &str| metrics.sum(name, &[("limit", "otp")]);
    let refused = of("sluicegate_limit_refused_total") + of("sluicegate_limit_banned_total");
    assert_eq!((of("sluicegate_limit_bans_total"), refused), (1.0, 997.0));
}

#[tokio::test]
async fn repeated_bans_grow_longer() {
    // Goal: `factor`, and that asking during a ban does not lengthen it. Method: a second, then two; between them a client that asks all
    // the time until it passes.
    let rules = otp(
        "1 per 1s",
        "ban = { for = \"1s\", factor = 2, max = \"1m\" }",
    );
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    let first = client.get("/").await;
    assert_banned(&first, 1..=1);
    eventually("the ban is over", async || {
        (client.get("/").await.status == 200).then_some(())
    })
    .await;
    let second = client.get("/").await;
    assert_banned(&second, 1..=2);
    let lines = gateway.lines_of(&[first, second]).await;
    assert_eq!([&lines[0]["ban_level"], &lines[1]["ban_level"]], [1, 2]);
    assert_eq!(bans(&gateway).await["begun"], 2);
}

#[tokio::test]
async fn a_ban_shorter_than_the_rates_wait_shows_the_longer_one() {
    // Goal: a true `Retry-After`. Method: ten seconds of ban on a limit that stays full for an hour.
    let gateway = Gateway::start(&otp("1 per 1h", "ban = { for = \"10s\" }")).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    for _ in 0..3 {
        assert_banned(&client.get("/").await, 3590..=3600);
    }
}

#[tokio::test]
async fn of_several_bans_the_longest_is_shown() {
    // Goal: a true `Retry-After` where several limits ban a client. Method: two limits that both reject the second request, whose bans last
    // one hour and three, in either order.
    let limit = |name: &str, ban: &str| {
        format!(
            "[limit.{name}]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\nban = {{ for = \"{ban}\" }}\n"
        )
    };
    for (otp, other) in [("3h", "1h"), ("1h", "3h")] {
        let (otp, other) = (limit("otp", otp), limit("other", other));
        let gateway = Gateway::start(&format!(
            "{otp}{other}[[route]]\npath = \"/\"\nlimits = [\"otp\", \"other\"]\nrespond = {{ status = 200 }}\n"
        ))
        .await;
        let mut client = gateway.client().await;
        assert_eq!(client.get("/").await.status, 200);
        client.get("/").await.assert_problem(429);
        let banned = client.get("/").await;
        assert_eq!(banned.json()["type"], ABNORMAL);
        assert!(
            (10_790..=10_800).contains(&banned.retry_after()),
            "{banned:?}"
        );
    }
}

#[tokio::test]
async fn only_failed_logins_lead_to_a_ban() {
    // Goal: a ban with `count_if` begins with the guess after the last that is allowed. Method: successes without number, then failures.
    let rules = "[limit.otp]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncount_if = \"response.status == 401\"\n\
        ban = { for = \"3h\" }\n[[route]]\npath = \"/*\"\nlimits = [\"otp\"]\norigin = \"app\"\n";
    let origin = Origin::answering(|received| {
        let status = received.target.trim_start_matches('/').parse();
        Answer::new(status.unwrap_or(200)).into()
    });
    let gateway = Gateway::before(&origin, rules).await;
    let mut client = gateway.client().await;
    for path in ["/200", "/200", "/200", "/401", "/200", "/401"] {
        assert_eq!(client.get(path).await.status.to_string(), path[1..]);
    }
    assert_banned(&client.get("/401").await, 10_790..=10_800);
    assert_banned(&client.get("/200").await, 10_790..=10_800);
    assert_eq!(origin.count(), 6);
}

#[tokio::test]
async fn a_ban_survives_an_edit_of_its_limit() {
    // Goal: C4 within a process. Method: the limit becomes generous, and its bans longer and then shorter: the ban in force continues, no
    // longer than the new rules make it; without `ban` nobody is banned.
    let rules = |rate, ban| otp(rate, &format!("ban = {{ for = \"{ban}\" }}"));
    let mut gateway = Gateway::start(&rules("1 per 1s", "1h")).await;
    assert_eq!(gateway.get("/").await.status, 200);
    assert_banned(&gateway.get("/").await, 3590..=3600);
    gateway.reload(&rules("1000 per 1s", "2h")).await;
    assert_banned(&gateway.get("/").await, 3500..=3600);
    gateway.reload(&rules("1000 per 1s", "10m")).await;
    assert_banned(&gateway.get("/").await, 500..=600);
    gateway.reload(&otp("1000 per 1s", "")).await;
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn a_ban_survives_kill_9() {
    // Goal: C4 beyond the process. Method: kill -9 over a state directory; the next process bans the same client and no other, and
    // says that it found the bans.
    let mut rules = otp("1 per 1s", "ban = { for = \"1h\" }");
    rules.push_str("[server]\nstate_dir = \"state\"\n");
    let mut gateway = Gateway::start(&rules).await;
    assert_eq!(gateway.get("/").await.status, 200);
    assert_banned(&gateway.get("/").await, 3590..=3600);
    gateway.kill();
    gateway.start_again().await;
    assert_banned(&gateway.get("/").await, 3400..=3600);
    assert_eq!(
        gateway.client_from("127.0.0.5").await.get("/").await.status,
        200
    );
    let bans = bans(&gateway).await;
    assert_eq!(
        (&bans["persistent"], &bans["found"]),
        (&true.into(), &"continued".into())
    );
}

#[tokio::test]
async fn a_limit_in_shadow_bans_no_key() {
    // Goal: a rollout can keep its `ban`. Method: exceed it in shadow; then enforce it, and the first refusal begins the first ban.
    let ban = "ban = { for = \"1h\" }";
    let mut gateway =
        Gateway::start(&otp("1 per 1h", &format!("action = \"shadow\"\n{ban}"))).await;
    for _ in 0..5 {
        assert_eq!(gateway.get("/").await.status, 200);
    }
    assert_eq!(bans(&gateway).await["begun"], 0);
    gateway.reload(&otp("1 per 1h", ban)).await;
    assert_banned(&gateway.get("/").await, 3500..=3600);
}

#[tokio::test]
async fn an_operator_lifts_a_ban() {
    // Goal: a ban can be found by the access log and lifted. Method: the key of the log's line, first without the token.
    let token = "0123456789abcdef";
    let setup = Setup::new()
        .tokens(token)
        .rules(&beside_one_without_a_ban());
    let gateway = setup.start().await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.get("/free").await.status, 200);
    let banned = client.get("/").await;
    assert_banned(&banned, 3590..=3600);
    let line = gateway.lines_of(&[banned]).await.remove(0);
    let key = line["ban_key"].as_str().unwrap();
    let page = gateway
        .admin(get("/limits/otp/bans").bearer(token))
        .await
        .json();
    assert_eq!(page["keys"][0]["key"], key, "{page}");
    assert_eq!(page["keys"][0]["level"], 1);

    let path = format!("/limits/otp/bans/{key}");
    assert_eq!(gateway.admin(delete(&path)).await.status, 401);
    assert_banned(&client.get("/").await, 3500..=3600);
    let pardoned = gateway.admin(delete(&path).bearer(token)).await;
    assert_eq!(
        (pardoned.status, &pardoned.json()["lifted"]),
        (200, &true.into())
    );
    // Asked too early the limit would refuse, and ban again.
    eventually("the rate has room again", async || {
        (client.get("/free").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(client.get("/").await.status, 200);
}
