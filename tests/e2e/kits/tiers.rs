//! `api-tiers.toml`: plans of customers, and shares of users.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::{answers_before, kit, passes_before};
use crate::harness::*;

/// The kit with the rows that ship and the keys of tests, before a service that knows no key but those of plans and of `free`.
async fn api(origin: &Origin) -> Gateway {
    let rows = include_str!("../../../conf/examples/api-tiers.csv");
    let keys = include_str!("../../tokens/jwks.json");
    let setup = kit("api-tiers", origin);
    let setup = setup.file("api-tiers.csv", rows);
    setup.file("api-tiers.jwks.json", keys).start().await
}

fn service() -> Origin {
    Origin::answering(|received| {
        let made_up = received
            .header("x-api-key")
            .is_some_and(|key| key.starts_with("made-up"));
        Answer::new(if made_up { 401 } else { 200 }).into()
    })
}

fn by_key(client: &str, key: &str) -> Request {
    get("/v1/things")
        .forwarded_for(client)
        .header("x-api-key", key)
}

/// A request with a token of this user, for this audience.
fn by_user(client: &str, user: &str, audience: &str) -> Request {
    by_member(client, user, audience, "none")
}

/// A request with a token of this user, for this audience, that says this plan.
fn by_member(client: &str, user: &str, audience: &str, plan: &str) -> Request {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let claims = json!({
        "sub": user,
        "iss": "https://login.example.com/",
        "aud": audience,
        "plan": plan,
        "exp": now.as_secs() + 3600,
    });
    let private = EncodingKey::from_rsa_pem(include_bytes!("../../tokens/rsa.pem")).unwrap();
    let mut header = Header::new(Algorithm::RS256);
    header.kid = Some("rsa-1".to_owned());
    let token = encode(&header, &claims, &private).unwrap();
    get("/app/things").forwarded_for(client).bearer(&token)
}

#[tokio::test]
async fn a_customer_has_the_rates_of_his_plan() {
    // Goal: the rows of the file that ships, the plan of all other keys, and requests without a key. Method: what each is told at its
    // first request, and how far the free ones get.
    let origin = service();
    let gateway = api(&origin).await;
    for (key, minute, day) in [
        ("business-7Fq2mX", 599, 99_999),
        ("enterprise-Vt51Rb", 5_999, 999_999),
        ("free", 59, 4_999),
    ] {
        let answer = gateway.send(by_key("192.0.2.1", key)).await;
        assert_eq!(answer.status, 200, "{key}");
        assert_eq!(
            (
                answer.remaining("plan-60s"),
                answer.remaining("plan-86400s")
            ),
            (minute, day),
            "{key}"
        );
        let left = answer.header("x-ratelimit-remaining").unwrap();
        assert_eq!(left, minute.to_string(), "{key}");
    }
    let leaked = by_key("192.0.2.1", "leaked-Hn46Ya");
    gateway.send(leaked).await.assert_problem(403);
    let mut client = gateway.client().await;
    for _ in 0..130 {
        let internal = by_key("192.0.2.1", "internal-9LsC3e");
        assert_eq!(client.send(internal).await.status, 200);
    }
    // Two colleagues share the key, and who has none is alone.
    let passed = passes_before(&gateway, "plan", 61, |n| {
        by_key(["192.0.2.7", "192.0.2.8"][n % 2], "shared")
    })
    .await;
    assert!((60..=62).contains(&passed), "{passed}");
    let passed = passes_before(&gateway, "plan", 61, |_| {
        get("/v1/things").forwarded_for("192.0.2.9")
    })
    .await;
    assert!((60..=62).contains(&passed), "{passed}");
    let other = get("/v1/things").forwarded_for("192.0.2.10");
    assert_eq!(gateway.send(other).await.status, 200);
}

#[tokio::test]
async fn keys_that_are_made_up_do_not_help() {
    // Goal: a counter for each key is no way around the limits. Method: a new key with every request, which the service refuses; a
    // customer
    // at another address goes on.
    let origin = service();
    let gateway = api(&origin).await;
    let passed = answers_before(&gateway, "made-up", 21, 401, |n| {
        by_key("192.0.2.1", &format!("made-up-{n}"))
    })
    .await;
    assert!((20..=22).contains(&passed), "{passed}");
    let customer = by_key("192.0.2.2", "business-7Fq2mX");
    assert_eq!(gateway.send(customer).await.status, 200);
}

#[tokio::test]
async fn a_user_is_counted_by_his_token() {
    // Goal: two devices of one user share, two users of one device do not; a token for another audience is none. Method: what is left
    // after each.
    let origin = service();
    let gateway = api(&origin).await;
    let left = async |request: Request| gateway.send(request).await.remaining("user");
    assert_eq!(left(by_user("192.0.2.1", "ann", "api")).await, 119);
    assert_eq!(left(by_user("192.0.2.2", "ann", "api")).await, 118);
    assert_eq!(left(by_user("192.0.2.2", "bob", "api")).await, 119);
    assert_eq!(left(by_user("192.0.2.3", "ann", "other")).await, 119);
    let nobody = get("/app/things").forwarded_for("192.0.2.3");
    assert_eq!(left(nobody).await, 118);
    let elsewhere = get("/").forwarded_for("192.0.2.3");
    assert_eq!(gateway.send(elsewhere).await.status, 404);
}

#[tokio::test]
async fn the_token_contains_the_plan_of_a_team() {
    // Goal: members have the plan of their issuer, and no other client has. Method: what is left after one request each: of a team, of
    // a partner, of who names a plan that nobody sells, and of who has a team's token for another audience.
    let origin = service();
    let gateway = api(&origin).await;
    let asked = async |user: &str, audience: &str, plan: &str| {
        gateway
            .send(by_member("192.0.2.1", user, audience, plan))
            .await
    };
    assert_eq!(asked("ann", "api", "team").await.remaining("user"), 599);
    assert_eq!(asked("bob", "api", "gold").await.remaining("user"), 119);
    assert_eq!(asked("eve", "other", "team").await.remaining("user"), 119);
    let partner = asked("dan", "api", "partner").await;
    assert_eq!(
        (partner.status, partner.header("x-ratelimit-limit")),
        (200, None)
    );
}
