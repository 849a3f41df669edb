//! Spellings of an `Authorization` field: whatever a framework reads as the limited key is counted, or was rejected.

use super::{before_each_framework, started};
use crate::harness::*;

const RULES: &str = r#"
[limit.key]
key = "header.authorization"
on_missing = "skip"
rates = ["1 per 1d"]
[[route]]
path = "/*"
limits = ["key"]
origin = "app"
"#;

/// Spellings of the user `u` with the password `pp`.
const BASIC: [&str; 13] = [
    "Basic dTpwcA==",
    "basic dTpwcA==",
    "BASIC dTpwcA==",
    "Basic  dTpwcA==",
    "Basic\tdTpwcA==",
    "Basic dTpwcA",
    "Basic dTpwcA=",
    "Basic dTpwcA===",
    "Basic dTpwcB==",
    "Basic dTpw!cA==",
    "Basic dT-pwcA==",
    "Basic dTpw cA==",
    "Basic dTpwcA== x",
];

/// Spellings of the token `k1`.
const TOKEN: [&str; 13] = [
    "Bearer k1",
    "bearer k1",
    "Bearer  k1",
    "Bearer\tk1",
    "Token k1",
    "Token   k1",
    "Token token=k1",
    "Token token=\"k1\"",
    "Token token=\"k1\", nonce=\"2\"",
    "Bearer k1, x=1",
    "Bearer k1; x=1",
    "Bearer k1\tx=1",
    "Bearer token=k1;x",
];

// Those that find credentials by themselves.
before_each_framework!(
    are_one_counter,
    bottle: Bottle, flask: Flask, rails: Rails,
);

async fn are_one_counter(framework: Framework) {
    // Goal: a key has one counter, however it is written. Method: each key once plainly, and what is no value once; then every spelling,
    // of which none may reach an application that reads the key.
    let (_server, gateway) = started(framework, RULES).await;
    let asked = |text: &str| get("/x").header("authorization", text);
    assert_eq!(gateway.send(asked("a b c")).await.status, 200);
    let mut read = 0;
    for (spellings, key) in [(BASIC, "u:pp"), (TOKEN, "k1")] {
        let first = gateway.send(asked(spellings[0])).await;
        let reading = Reading::of(&first).unwrap_or_else(|| panic!("{first:?}"));
        read += usize::from(reading.credentials() == [key]);
        for spelling in spellings {
            let answer = gateway.send(asked(spelling)).await;
            if let Some(reading) = Reading::of(&answer) {
                let found = reading.credentials();
                assert!(!found.contains(&key), "{spelling}: {reading:?}");
            }
        }
    }
    assert!(read > 0, "the application reads no credentials");
    assert_eq!(gateway.send(asked("Bearer k2")).await.status, 200);
}
