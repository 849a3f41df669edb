//! Each algorithm, from the file to the refusal.

use std::time::Duration;

use crate::harness::*;

/// A gateway that answers `/` itself, under one limit a client with these lines.
async fn limited(lines: &str) -> Gateway {
    Gateway::start(&rules(lines)).await
}

fn rules(lines: &str) -> String {
    format!(
        "[limit.a]\nkey = \"client.ip\"\n{lines}\n[[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = {{ status = 200 }}\n"
    )
}

/// How many of `asked` requests at once were admitted, and the first refusal.
async fn admitted(gateway: &Gateway, asked: usize) -> (usize, Option<Response>) {
    let mut client = gateway.client().await;
    let mut refusal = None;
    let mut count = 0;
    for _ in 0..asked {
        let answer = client.get("/").await;
        match answer.status {
            200 => count += 1,
            429 => drop(refusal.get_or_insert(answer)),
            other => panic!("{other}"),
        }
    }
    (count, refusal)
}

#[tokio::test]
async fn a_fixed_window_that_starts_with_a_request_lasts_its_period_from_there() {
    // Goal: `align = "first-request"`. Method: an hour's window cannot end within the test, so the refusal names all of it.
    let gateway =
        limited("rates = [\"3 per 1h\"]\nalgorithm = \"fixed-window\"\nalign = \"first-request\"")
            .await;
    let (count, refusal) = admitted(&gateway, 5).await;
    assert_eq!(count, 3);
    let wait = refusal.unwrap().retry_after();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_fixed_window_follows_the_days_of_a_place() {
    // Goal: `timezone`. Method: two places on either side of the date line are refused until different midnights, twelve hours
    // apart: Kiritimati is always at UTC+14, Wake at UTC+12, so two hours lie between their midnights.
    let wait = async |place: &str| {
        let gateway = limited(&format!(
            "rates = [\"1 per day\"]\nalgorithm = \"fixed-window\"\ntimezone = \"{place}\""
        ))
        .await;
        let (count, refusal) = admitted(&gateway, 2).await;
        assert!(count <= 2, "a midnight may pass in between");
        refusal.map_or(0, |refusal| refusal.retry_after())
    };
    let (kiritimati, wake) = (wait("Pacific/Kiritimati").await, wait("Pacific/Wake").await);
    let apart = (wake + 86_400 - kiritimati) % 86_400;
    assert!(apart.abs_diff(7_200) < 120, "{kiritimati} {wake}");
}

#[tokio::test]
async fn a_token_bucket_admits_its_burst_and_then_its_rate() {
    // Goal: `burst` above the rate's count. Method: one token an hour, a bucket of five.
    let gateway = limited("rates = [\"1 per 1h\"]\nalgorithm = \"token-bucket\"\nburst = 5").await;
    let (count, refusal) = admitted(&gateway, 7).await;
    assert_eq!(count, 5);
    let wait = refusal.unwrap().retry_after();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
}

#[tokio::test]
async fn tokens_that_come_at_once_come_with_the_next_period() {
    // Goal: `refill = "interval"`. Method: the wait ends with the hour of the clock, not an hour after the request.
    let gateway =
        limited("rates = [\"2 per 1h\"]\nalgorithm = \"token-bucket\"\nrefill = \"interval\"")
            .await;
    let (count, refusal) = admitted(&gateway, 4).await;
    assert!(
        (2..=4).contains(&count),
        "an hour may end in between: {count}"
    );
    assert!(refusal.is_none_or(|refusal| refusal.retry_after() <= 3_600));
}

#[tokio::test]
async fn gcra_spaces_requests_by_its_interval() {
    // Goal: `gcra` with `burst = 1`. Method: two an hour are half an hour apart.
    let gateway = limited("rates = [\"2 per 1h\"]\nalgorithm = \"gcra\"\nburst = 1").await;
    let (count, refusal) = admitted(&gateway, 3).await;
    assert_eq!(count, 1);
    let wait = refusal.unwrap().retry_after();
    assert!((1_700..=1_800).contains(&wait), "{wait}");
}

#[tokio::test]
async fn an_exact_limit_frees_when_its_oldest_admission_is_a_period_old() {
    // Goal: `exact`. Method: the wait of a refusal is the hour since the first request, wherever the clock's hours begin.
    let gateway = limited("rates = [\"3 per 1h\"]\nalgorithm = \"exact\"").await;
    let (count, refusal) = admitted(&gateway, 5).await;
    assert_eq!(count, 3);
    let wait = refusal.unwrap().retry_after();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
}

#[tokio::test]
async fn no_client_of_an_exact_limit_waits_longer_than_its_period() {
    // Goal: `Retry-After` of "1 per 1h" is at most 3,600, though admissions are kept in milliseconds, rounded up. Method: two requests in
    // one write, decided within a millisecond, by each of many clients.
    let gateway = Gateway::start(
        "[limit.a]\nkey = \"header.x-client\"\non_missing = \"refuse\"\nrates = [\"1 per 1h\"]\nalgorithm = \"exact\"\n\
         [[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = { status = 200 }\n",
    )
    .await;
    let mut raw = gateway.raw().await;
    for client in 0..200 {
        let request = format!("GET / HTTP/1.1\r\nhost: a.test\r\nx-client: {client}\r\n\r\n");
        raw.write(request.repeat(2)).await;
        assert_eq!(raw.read_response().await.status, 200);
        let refused = raw.read_response().await;
        assert_eq!(refused.status, 429);
        let wait = refused.retry_after();
        assert!((3_599..=3_600).contains(&wait), "{wait}");
    }
}

#[tokio::test]
async fn a_leaky_bucket_lets_requests_wait_for_their_turn() {
    // Goal: the queue: the first goes at once, three wait, the rest is refused; the log says how long each was held back, and
    // the metric how many. Method: thirty requests at once at ten a second.
    let gateway = limited(
        "rates = [\"10 per 1s\"]\nalgorithm = \"leaky-bucket\"\nqueue = 3\nmax_wait = \"5s\"",
    )
    .await;
    let mut clients = Vec::new();
    for _ in 0..30 {
        clients.push(gateway.client().await);
    }
    let asking = clients
        .iter_mut()
        .map(|client| async { client.get("/").await.status });
    let statuses = futures_util::future::join_all(asking).await;
    let passed = statuses.iter().filter(|status| **status == 200).count();
    // A slow machine may leave time for other turns.
    assert!((4..30).contains(&passed), "{statuses:?}");
    let lines = gateway.access_lines(30).await;
    let mut delays: Vec<f64> = lines
        .iter()
        .filter_map(|line| line["delay_ms"].as_f64())
        .collect();
    delays.sort_by(f64::total_cmp);
    assert!(delays.len() >= 3, "{delays:?}");
    assert!(
        delays.iter().all(|delay| *delay <= 300.0),
        "at most three waited: {delays:?}"
    );
    assert!(
        lines.iter().all(|line| line["delay_ms"].is_null()
            || line["duration_ms"].as_f64() >= line["delay_ms"].as_f64()),
        "each was held back as long as it says: {lines:?}"
    );
    let delayed = gateway
        .metrics()
        .await
        .sum("sluicegate_limit_delayed_total", &[("limit", "a")]);
    assert_eq!(delayed, delays.len() as f64);
}

#[tokio::test]
async fn another_algorithm_continues_from_the_counts() {
    // Goal: C4 for an edit of the algorithm. Method: use a limit up, then judge it by every other algorithm in turn.
    let mut gateway = limited("rates = [\"3 per 1h\"]").await;
    assert_eq!(admitted(&gateway, 4).await.0, 3);
    for algorithm in [
        "algorithm = \"fixed-window\"\nalign = \"first-request\"",
        "algorithm = \"gcra\"",
        "algorithm = \"exact\"",
        "algorithm = \"token-bucket\"",
        "algorithm = \"sliding-window\"",
    ] {
        gateway
            .reload(&rules(&format!("rates = [\"3 per 1h\"]\n{algorithm}")))
            .await;
        let count = admitted(&gateway, 3).await.0;
        assert_eq!(count, 0, "{algorithm}");
    }
}

#[tokio::test]
async fn retry_after_is_enough_for_every_algorithm() {
    // Goal: `Retry-After` is true. Method: short periods; use the limit up, wait as `Retry-After` says, repeat.
    for lines in [
        "rates = [\"2 per 1s\"]\nalgorithm = \"fixed-window\"",
        "rates = [\"2 per 1s\"]\nalgorithm = \"fixed-window\"\nalign = \"first-request\"",
        "rates = [\"2 per 2s\"]\nalgorithm = \"token-bucket\"",
        "rates = [\"2 per 1s\"]\nalgorithm = \"token-bucket\"\nrefill = \"interval\"",
        "rates = [\"2 per 2s\"]\nalgorithm = \"gcra\"\nburst = 1",
        "rates = [\"2 per 1s\"]\nalgorithm = \"exact\"",
    ] {
        let gateway = limited(lines).await;
        let mut client = gateway.client().await;
        let mut refusal = None;
        for _ in 0..1_000 {
            refusal = Some(client.get("/").await).filter(|answer| answer.status == 429);
            if refusal.is_some() {
                break;
            }
        }
        let refusal = refusal.unwrap_or_else(|| panic!("{lines}: never refused"));
        tokio::time::sleep(Duration::from_secs(refusal.retry_after())).await;
        assert_eq!(client.get("/").await.status, 200, "{lines}");
    }
}
