//! `chat-streams.toml`: answers that take minutes.

use super::kit;
use crate::harness::*;

#[tokio::test]
async fn two_answers_of_a_client_run_and_silence_is_allowed_for_long() {
    // Goal: long answers are bounded by their number, not by the silence of half a minute. Method: two answers that never end, a third,
    // another client, one of the two given up; the silence that the configuration in force allows.
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = kit("chat-streams", &origin).start().await;
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut raw = gateway.raw().await;
        raw.write(
            "GET /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
        )
        .await;
        running.push(raw);
    }
    origin.is_asked(2).await;
    let third = || get("/v1/chat/completions").forwarded_for("192.0.2.1");
    let refused = gateway.send(third()).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.violated(), ["answers-concurrency"]);
    let mut other = gateway.raw().await;
    other
        .write("GET /v1/chat/x HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n")
        .await;
    origin.is_asked(3).await;
    let config = gateway.admin(get("/config")).await.json();
    let timeouts = &config["configuration"]["origin"]["model"]["timeouts"];
    assert_eq!(timeouts["read"], "10m");
}
