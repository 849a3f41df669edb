//! Counters survive every edit that leaves the limit's key alone: C4, as far as a reload goes. `restart` has the rest.

use crate::harness::*;

/// The limit `otp` with these lines on `/`, and a route that other edits may touch.
fn rules(limit: &str, other: &str) -> String {
    format!(
        r#"
        [limit.otp]
        key = "client.ip"
        {limit}
        [[route]]
        path = "/"
        limits = ["otp"]
        respond = {{ status = 200 }}
        {other}
        "#
    )
}

/// A gateway with ten an hour, of which this client has used four.
async fn four_of_ten_used() -> Gateway {
    let gateway = Gateway::start(&rules("rates = [\"10 per 1h\"]", "")).await;
    let mut client = gateway.client().await;
    for left in [9, 8, 7, 6] {
        assert_eq!(client.get("/").await.remaining("otp"), left);
    }
    gateway
}

#[tokio::test]
async fn editing_another_route_refills_nothing() {
    // Goal: the plainest C4. Method: what remains after the edit continues what remained before.
    let mut gateway = four_of_ten_used().await;
    let other = "[[route]]\npath = \"/new\"\nrespond = { status = 204 }";
    gateway
        .reload(&rules("rates = [\"10 per 1h\"]", other))
        .await;
    assert_eq!(gateway.get("/new").await.status, 204);
    assert_eq!(gateway.get("/").await.remaining("otp"), 5);
}

#[tokio::test]
async fn raising_the_number_keeps_what_was_counted() {
    // Goal: an edit of the count. Method: 10 becomes 20: five used of twenty after the next.
    let mut gateway = four_of_ten_used().await;
    gateway.reload(&rules("rates = [\"20 per 1h\"]", "")).await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 15);
}

#[tokio::test]
async fn lowering_the_number_keeps_what_was_counted() {
    // Goal: the same downwards, to below what was used. Method: 10 becomes 5, then 3: refused; then 10 again.
    let mut gateway = four_of_ten_used().await;
    gateway.reload(&rules("rates = [\"5 per 1h\"]", "")).await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 0);
    gateway.reload(&rules("rates = [\"3 per 1h\"]", "")).await;
    assert_eq!(gateway.get("/").await.status, 429);
    gateway.reload(&rules("rates = [\"10 per 1h\"]", "")).await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 4);
}

#[tokio::test]
async fn adding_a_second_rate_keeps_what_the_first_counted() {
    // Goal: an edit of the list of rates. Method: two hours are added beside one, then the first is removed: at no time
    // may a client have more left than the four used allow.
    let mut gateway = four_of_ten_used().await;
    gateway
        .reload(&rules("rates = [\"10 per 1h\", \"15 per 2h\"]", ""))
        .await;
    let answer = gateway.get("/").await;
    assert_eq!(answer.remaining("otp-3600s"), 5, "{answer:?}");
    assert!(answer.remaining("otp-7200s") <= 10, "{answer:?}");
    gateway.reload(&rules("rates = [\"15 per 2h\"]", "")).await;
    assert!(gateway.get("/").await.remaining("otp") <= 9);
}

#[tokio::test]
async fn changing_the_capacity_keeps_what_was_counted() {
    // Goal: the table moves, the counts with it. Method: larger, then smaller, for two clients.
    let mut gateway = four_of_ten_used().await;
    let mut other = gateway.client_from("127.0.0.5").await;
    assert_eq!(other.get("/").await.remaining("otp"), 9);
    gateway
        .reload(&rules("rates = [\"10 per 1h\"]\ncapacity = 500000", ""))
        .await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 5);
    gateway
        .reload(&rules("rates = [\"10 per 1h\"]\ncapacity = 1000", ""))
        .await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 4);
    assert_eq!(
        gateway
            .client_from("127.0.0.5")
            .await
            .get("/")
            .await
            .remaining("otp"),
        8
    );
}

#[tokio::test]
async fn another_key_is_another_counter() {
    // Goal: the bound of C4: counts by address say nothing about counts by path. Method: the key changes; all ten are there.
    let mut gateway = four_of_ten_used().await;
    let edited = rules("rates = [\"10 per 1h\"]", "").replace("\"client.ip\"", "\"path\"");
    gateway.reload(&edited).await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 9);
}

#[tokio::test]
async fn a_reload_loop_under_load_refills_nothing_and_fails_nothing() {
    // Goal: C4 while requests run. Method: 3,000 requests against 100 an hour during edits that move the table to and fro;
    // requests that still hold the old table are carried over, so the count may err towards refusing, never beyond 100.
    let edit = |n: u32| {
        let capacity = 1000 + n % 3 * 1000;
        rules(
            &format!("rates = [\"100 per 1h\"]\ncapacity = {capacity}"),
            "",
        )
    };
    let mut gateway = Gateway::start(&edit(0)).await;
    let address = gateway.address();
    let flood =
        tokio::spawn(async move { Flood::gets(3000, "/").connections(16).run(address).await });
    let mut reloads = 0;
    while !flood.is_finished() || reloads < 3 {
        reloads += 1;
        gateway.reload(&edit(reloads)).await;
    }
    let report = flood.await.unwrap();
    assert_eq!(report.broken(), 0);
    assert_eq!(report.count(200) + report.count(429), 3000);
    assert!(
        (90..=100).contains(&report.count(200)),
        "{} admitted in {reloads} reloads",
        report.count(200)
    );
    assert_eq!(gateway.get("/").await.status, 429);
}
