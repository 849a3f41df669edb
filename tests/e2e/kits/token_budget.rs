//! `token-budget.toml`: budgets of tokens for a language model.

use std::time::Duration;

use serde_json::json;

use super::{assert_refused_by, kit};
use crate::harness::*;

#[tokio::test]
async fn parallel_questions_of_a_key_share_its_budgets() {
    // Goal: what questions may use is taken when they come, and given back but for what they used; errors are free. Method: three questions
    // of a key at once, of which two fit; then one after the other, with and without a number, until the month shows what was used.
    let origin = Origin::answering(|received| {
        let answer = match received.body.windows(5).any(|word| word == b"wrong") {
            true => Answer::new(400).json(&json!({"error": "no"})),
            false => Answer::new(200).json(&json!({"usage": {"total_tokens": 1_500}})),
        };
        Reply::After(Duration::from_secs(2), Box::new(answer.into()))
    });
    let gateway = kit("token-budget", &origin).start().await;
    let question = |text: &str| {
        post("/v1/chat/completions")
            .header("x-api-key", "k")
            .header("content-type", "application/json")
            .body(text.to_owned())
    };
    let asked = (0..3).map(|_| gateway.send(question("{\"max_tokens\": 16000}")));
    let answers = futures_util::future::join_all(asked).await;
    let (passed, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((passed.len(), refused.len()), (2, 1));
    assert_refused_by("tokens-a-minute", &refused[0]);
    gateway.access_lines(3).await;
    let mut left = 1_000_000 - 3_000;
    for (served, (text, reserve, status, used)) in [
        ("{\"max_tokens\": 100}", 2_100, 200, 1_500),
        ("{}", 20_000, 200, 1_500),
        ("{\"max_tokens\": 100, \"wrong\": 1}", 2_100, 400, 0),
        ("{\"max_tokens\": 1}", 2_001, 200, 1_500),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = gateway.send(question(text)).await;
        assert_eq!(
            (answer.status, answer.remaining("tokens-a-month")),
            (status, left - reserve),
            "{text}"
        );
        gateway.access_lines(4 + served).await;
        left -= used;
    }
}
