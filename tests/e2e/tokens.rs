//! Keys by claims: a claim counts only out of a token that is to be believed.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::harness::*;

const RULES: &str = r#"
[jwt]
algorithms = ["EdDSA"]
key_file = "../key.pem"
issuer = "us"
[limit.user]
key = "jwt.sub"
on_missing = "refuse"
rates = ["2 per hour"]
[[route]]
path = "/*"
limits = ["user"]
respond = { status = 200 }
"#;

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

pub fn token(claims: &Value) -> String {
    let private = EncodingKey::from_ed_pem(include_bytes!("../tokens/ed.pem")).unwrap();
    encode(&Header::new(Algorithm::EdDSA), claims, &private).unwrap()
}

fn of(user: Value) -> Value {
    json!({ "sub": user, "iss": "us", "exp": now() + 3600 })
}

fn with(token: &str) -> Request {
    get("/").bearer(token)
}

fn setup() -> Setup {
    Setup::new()
        .file("key.pem", include_str!("../tokens/ed.pub.pem"))
        .rules(RULES)
}

#[tokio::test]
async fn a_claim_counts_out_of_a_verified_token_only() {
    // Goal: each subject has a counter, and an invented token gets none. Method: two tokens of one subject and one of another;
    // then a broken signature, an expired token, another issuer, no token; the reasons of the log.
    let gateway = setup().start().await;
    let mut client = gateway.client().await;
    let mut later = of(json!("ann"));
    later["exp"] = json!(now() + 7200);
    let mut statuses = Vec::new();
    for claims in [
        of(json!("ann")),
        later,
        of(json!("ann")),
        of(json!("ann")),
        of(json!(7)),
        of(json!("7")),
    ] {
        statuses.push(client.send(with(&token(&claims))).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429, 200, 200]);
    let good = token(&of(json!("bob")));
    let mut expired = of(json!("bob"));
    expired["exp"] = json!(now() - 600);
    let mut foreign = of(json!("bob"));
    foreign["iss"] = json!("them");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{signed}.{first}{}", &signature[1..]);
    let said = |field: &str| get("/").header("authorization", field);
    let wrong = [
        (get("/"), "absent"),
        (get("/").header("authorization", "Basic YTpi"), "absent"),
        (with(&forged), "unverified"),
        // What some library takes for a token.
        (said(&format!("Bearer\t{good}")), "malformed"),
        (said(&format!("bearer {good} x")), "malformed"),
        (said(&format!("JWT {good}")), "malformed"),
        (said(&good), "malformed"),
        (with(&format!("{good}!")), "malformed"),
        (said("Bearer"), "malformed"),
        (with(&token(&expired)), "unverified"),
        (with(&token(&foreign)), "unverified"),
        (with(&good).bearer("x"), "repeated"),
        (with(&token(&of(json!(null)))), "absent"),
        // RFC 7519 §4.1.2: a subject is text.
        (with(&token(&of(json!({})))), "unverified"),
    ];
    let reasons: Vec<&str> = wrong.iter().map(|(_, reason)| *reason).collect();
    let mut answers = Vec::new();
    for (request, reason) in wrong {
        let answer = client.send(request).await;
        assert_eq!(answer.status, 400, "{reason}");
        answers.push(answer);
    }
    let lines = gateway.lines_of(&answers).await;
    let logged: Vec<_> = lines
        .iter()
        .map(|line| line["missing_reason"].as_str().unwrap())
        .collect();
    assert_eq!(logged, reasons);
    assert_eq!(client.send(with(&good)).await.status, 200);
}

#[tokio::test]
async fn a_new_key_file_is_a_new_configuration() {
    // Goal: keys are rotated like any other rule, counters stay. Method: replace the file by a key that verifies nothing of ours, see
    // tokens refused, put the first back.
    let gateway = setup().start().await;
    let ask = || with(&token(&of(json!("ann"))));
    assert_eq!(gateway.send(ask()).await.remaining("user"), 1);
    let path = gateway.directory().join("key.pem");
    let own = std::fs::read(&path).unwrap();
    let other = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
    std::fs::write(&path, other).unwrap();
    gateway.serves_after(1).await;
    assert_eq!(gateway.send(ask()).await.status, 400);
    std::fs::write(&path, own).unwrap();
    gateway.serves_after(2).await;
    assert_eq!(gateway.send(ask()).await.remaining("user"), 0);
}
