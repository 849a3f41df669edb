//! What attackers would try: forged, copied, early and foreign solutions.

use super::{Challenge, PAGES, exceed, visit};
use crate::harness::*;

#[tokio::test]
async fn a_solution_is_worth_one_quota_for_one_key() {
    // Goal: a solution gives one ordinary quota, whoever copies it, and nothing to other addresses and limits. Method: a solved challenge
    // used by two connections until it is used up, from another address, and for another limit.
    let other = PAGES
        .replace("limit.pages", "limit.other")
        .replace("[client]", "")
        .replace("trusted_proxies = [\"127.0.0.0/8\"]", "");
    let other = other.split_once("[limit.unsolved]").unwrap().0;
    let route = "[[route]]\nname = \"other\"\npath = \"/other\"\nlimits = [\"other\"]\nrespond = { status = 200 }\n";
    let gateway = Gateway::start(&format!("{PAGES}{other}{route}")).await;
    let (mut client, mut copy) = (gateway.client().await, gateway.client().await);
    let mut third = gateway.client().await;
    exceed(&mut client, "192.0.2.1").await;
    let page = client.send(visit("/", "192.0.2.1")).await;
    let challenge = Challenge::of(&page);
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("ratelimit"), None);
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .starts_with("default-src 'none'; script-src 'sha256-")
    );
    let cookie = challenge.solved();
    let with = |target: &str, address: &str| visit(target, address).header("cookie", &cookie);
    for (client, method) in [
        (&mut client, "GET"),
        (&mut third, "POST"),
        (&mut copy, "GET"),
    ] {
        let passed = client.send(with("/", "192.0.2.1").by(method)).await;
        assert_eq!(passed.status, 200);
    }
    // The second solution has a quota of its own.
    let next = Challenge::of(&copy.send(with("/", "192.0.2.1")).await);
    assert_ne!(next.token, challenge.token);
    let again = visit("/", "192.0.2.1").header("cookie", &next.solved());
    assert_eq!(copy.send(again).await.status, 200);
    // Another proof of the first challenge is the same solution.
    let proofs = std::cell::Cell::new(0);
    let second = challenge.with_proof(|zeros| {
        proofs.set(proofs.get() + u32::from(zeros >= challenge.bits));
        proofs.get() == 2
    });
    assert_ne!(second, cookie);
    Challenge::of(
        &copy
            .send(visit("/", "192.0.2.1").header("cookie", &second))
            .await,
    );
    exceed(&mut client, "192.0.2.2").await;
    Challenge::of(&client.send(with("/", "192.0.2.2")).await);
    for _ in 0..3 {
        assert_eq!(client.send(visit("/other", "192.0.2.3")).await.status, 200);
    }
    let renamed = cookie.replace("-pages-", "-other-");
    let foreign = visit("/other", "192.0.2.3").header("cookie", &renamed);
    Challenge::of(&client.send(foreign).await);
}

#[tokio::test]
async fn forged_and_early_solutions_fail() {
    // Goal: nothing passes but a solution. Method: proofs with too few bits, a changed character in each part of the token, easier terms, a
    // wait that is not over, and no number.
    let rules = PAGES
        .replace("5 per 1h", "100 per 1h")
        .replace("wait = \"1s\"", "wait = \"100s\"")
        .replace("4s", "100s");
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    exceed(&mut client, "192.0.2.1").await;
    let challenge = Challenge::of(&client.send(visit("/", "192.0.2.1")).await);
    let solved = challenge.solved();
    let (name, value) = solved.split_once('=').unwrap();
    let (token, counter) = value.split_once('.').unwrap();
    let mut forged = vec![
        challenge.with_proof(|zeros| zeros + 1 == challenge.bits),
        format!("{name}={token}.-{counter}"),
        format!("{name}={token}.{}{counter}", "0".repeat(20)),
        format!("{name}={token}."),
        format!("{name}={token}"),
        format!("{name}=.{counter}"),
        format!("{name}="),
        challenge.wait.clone().unwrap(),
    ];
    for at in [0, 1, 2, 5, 8, 12, 20, 22, 40, 63] {
        let other = if token.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        let token = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        // Whatever its difficulty became, this proof is hard enough.
        let changed = Challenge {
            token,
            bits: 16,
            cookie: name.to_owned(),
            wait: None,
        };
        forged.push(changed.solved());
    }
    for cookie in &forged {
        let page = client
            .send(visit("/", "192.0.2.1").header("cookie", cookie))
            .await;
        assert_eq!(page.status, 429, "{cookie}");
        let posted = post("/")
            .forwarded_for("192.0.2.1")
            .header("cookie", cookie);
        client.send(posted).await.assert_problem(429);
    }
    // Among others, the right one counts.
    let all = format!("{}; a=b; {solved}", forged[0]);
    let passed = client
        .send(visit("/", "192.0.2.1").header("cookie", &all))
        .await;
    assert_eq!(passed.status, 200);
    let metrics = gateway.metrics().await;
    let count = |name: &str| {
        metrics.sum(
            &format!("sluicegate_limit_{name}_total"),
            &[("limit", "pages")],
        )
    };
    assert_eq!(count("challenge_passed"), 1.0);
    // All but the two without a counter, which are waits that go on.
    assert_eq!(count("challenge_failed"), 2.0 * (forged.len() - 2) as f64);
}

#[tokio::test]
async fn a_wait_goes_on_in_every_page() {
    // Goal: several pages of one browser wait by one cookie, and none of them begins the wait anew. Method: a second page with the cookie
    // of the first; a page after three failures, which no longer reloads by itself.
    let gateway = Gateway::start(&PAGES.replace("wait = \"1s\"", "wait = \"4s\"")).await;
    let mut client = gateway.client().await;
    exceed(&mut client, "192.0.2.1").await;
    let first = client.send(visit("/", "192.0.2.1")).await;
    assert!(
        first
            .text()
            .contains("http-equiv=\"refresh\" content=\"4\""),
        "{}",
        first.text()
    );
    let wait = Challenge::of(&first).wait.unwrap();
    assert!(
        first
            .header("set-cookie")
            .unwrap()
            .ends_with("; path=/; samesite=lax; httponly; max-age=3600")
    );
    let second = client
        .send(visit("/", "192.0.2.1").header("cookie", &wait))
        .await;
    assert_eq!(Challenge::of(&second).wait.unwrap(), wait);
    let passed = eventually("the wait is over", async || {
        let asked = post("/").forwarded_for("192.0.2.1").header("cookie", &wait);
        Some(gateway.send(asked).await).filter(|answer| answer.status == 200)
    })
    .await;
    assert_eq!(passed.text(), "the site");
    let mut page = second;
    for _ in 0..3 {
        // What the page got is of another address: it fails, and says how often.
        let challenge = Challenge::of(&page);
        let wrong = challenge.with_proof(|zeros| zeros < challenge.bits);
        page = client
            .send(visit("/", "192.0.2.1").header("cookie", &wrong))
            .await;
    }
    let text = page.text();
    assert!(
        text.contains("data-reload=\"by-hand\"") && !text.contains("http-equiv"),
        "{text}"
    );
}
