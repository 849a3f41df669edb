//! An operator looks into a limit that is in use.

use std::collections::BTreeSet;

use crate::harness::*;

const RULES: &str = r#"
    [limit.otp]
    key = "client.ip"
    rates = ["5 per 1h"]
    [[route]]
    path = "/"
    limits = ["otp"]
    respond = { status = 200 }
"#;

#[tokio::test]
async fn the_top_of_a_limit_lists_the_fullest_keys() {
    // Goal: during an attack, `top` shows the clients. Method: three clients that use five, three and one of five; the top shows them
    // in that order,
    // the first as refused, and none by its address.
    let gateway = Gateway::start(RULES).await;
    for (client, requests) in [("127.0.0.5", 1), ("127.0.0.6", 7), ("127.0.0.7", 3)] {
        let mut client = gateway.client_from(client).await;
        for _ in 0..requests {
            client.get("/").await;
        }
    }
    let answer = gateway.admin(get("/limits/otp/top?n=2")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.text().contains("127.0.0."), "{answer:?}");
    let two = answer.json();
    let all = gateway.admin(get("/limits/otp/top")).await.json();
    let of = |top: &serde_json::Value| -> Vec<(f64, bool, u64)> {
        let keys = top["top"].as_array().unwrap().iter();
        keys.map(|key| {
            let used = key["used"].as_f64().unwrap();
            let remaining = key["rates"][0]["remaining"].as_u64().unwrap();
            (used, key["refused"].as_bool().unwrap(), remaining)
        })
        .collect()
    };
    let expected = [(1.0, true, 0), (0.6, false, 2), (0.2, false, 4)];
    assert_eq!(of(&two), expected[..2]);
    assert_eq!(of(&all), expected);
    let keys = all["top"].as_array().unwrap().iter();
    let distinct: BTreeSet<&str> = keys.map(|key| key["key"].as_str().unwrap()).collect();
    assert_eq!(distinct.len(), 3);
    assert_eq!(all["keys"], 3);
}

#[tokio::test]
async fn the_top_requires_the_token_and_bounds_its_number() {
    // Goal: neither strangers nor slips walk a table. Method: without the token, with it, with too many keys, and for no limit.
    let gateway = Setup::new()
        .tokens("0123456789abcdef")
        .rules(RULES)
        .start()
        .await;
    let status = async |request: Request| gateway.admin(request).await.status;
    let bearer = |target| get(target).bearer("0123456789abcdef");
    assert_eq!(status(get("/limits/otp/top")).await, 401);
    assert_eq!(status(bearer("/limits/otp/top")).await, 200);
    assert_eq!(status(bearer("/limits/otp/top?n=1000000")).await, 400);
    assert_eq!(status(bearer("/limits/absent/top")).await, 404);
}
