//! Fields in spellings that a server could fold to the counted one, before real frameworks.

use super::*;

/// Some servers want the length of a body.
fn asked() -> Request {
    post(LIMITED)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body("a=1")
}

before_each_framework!(counts_what_it_reads);

async fn counts_what_it_reads(framework: Framework) {
    // Goal: a key of a header is the value that the application reads, whatever stands beside it. Method: two a day for one key; the real
    // key in every spelling that CGI folds, beside a fresh one in the counted spelling, alone, and twice. What the application reads is
    // what was counted, or the request is rejected.
    let (_server, gateway) = started(
        framework,
        "[limit.key]\nkey = \"header.x-api-key\"\non_missing = \"refuse\"\nrates = [\"2 per 1d\"]\n\
             [[route]]\npath = \"/*\"\nlimits = [\"key\"]\norigin = \"app\"",
    )
    .await;
    for (n, spelling) in [
        "X_Api_Key",
        "x-api_key",
        "X_API-KEY",
        "X.Api.Key",
        "X!Api~Key",
        "X-Api-Key",
    ]
    .iter()
    .enumerate()
    {
        for order in 0..2 {
            let fresh = format!("fresh-{n}-{order}");
            let mut fields = [(*spelling, "real"), ("X-Api-Key", fresh.as_str())];
            if order == 1 {
                fields.reverse();
            }
            let add = |request: Request, (name, value): &(&str, &str)| request.header(name, value);
            let request = fields.iter().fold(asked(), add);
            let answer = gateway.send(request).await;
            if let Some(reading) = Reading::of(&answer) {
                assert_eq!(reading.header("x-api-key"), [&fresh], "{spelling}");
            } else {
                assert_eq!((*spelling, answer.status), ("X-Api-Key", 400));
            }
        }
        if *spelling != "X-Api-Key" {
            let alone = gateway.send(asked().header(spelling, "real")).await;
            assert_eq!(alone.status, 400, "{spelling}");
        }
    }
    for status in [200, 200, 429] {
        let answer = gateway.send(asked().header("X-API-KEY", "real")).await;
        assert_eq!(answer.status, status);
    }
}
