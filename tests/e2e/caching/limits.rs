//! Limits before the cache: who is refused does not get what is stored, and a limit may count only what reaches the origin.

use super::*;

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

/// A limit of three with these lines, before answers that are stored.
fn limited(lines: &str) -> String {
    format!(
        "[limit.few]\nkey = \"client.ip\"\nrates = [\"3 per 1h\"]\n{lines}\n{}",
        storing("stale_if_error = \"1h\"").replace("path =", "limits = [\"few\"]\npath =")
    )
}

async fn hits_count_by_default(by: Version) {
    // Goal: a stored answer does not bypass a limit, and each client gets its own state. Method: two clients ask for one stored
    // answer until they are refused.
    let origin = numbered(&[FRESH]);
    let gateway = before(by, &origin, &limited("")).await;
    for address in ["127.0.0.2", "127.0.0.3"] {
        let mut client = gateway.client_from(address).await;
        for left in [2, 1, 0] {
            let answer = client.get("/").await;
            assert_eq!((answer.text(), answer.remaining("few")), ("answer 1", left));
        }
        let refused = client.get("/").await;
        assert_eq!(
            (refused.status, refused.header("cache-status")),
            (429, None)
        );
    }
    assert_eq!(origin.count(), 1);
}

async fn a_limit_of_the_origin_gives_hits_back(by: Version) {
    // Goal: count = "origin" counts what reaches the origin: misses, confirmations and failures, and no hits; whoever is at the limit is
    // refused, whatever is stored. Method: hits between requests of each kind, looked at by what remains.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/stale" => with(&[
            ("Cache-Control", "max-age=60"),
            ("Age", "100"),
            ("ETag", "\"d\""),
        ])
        .into(),
        _ => with(&[FRESH]).body("x").into(),
    });
    let gateway = before(by, &origin, &limited("count = \"origin\"")).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.remaining("few"), 2);
    for _ in 0..20 {
        let hit = client.get("/").await;
        assert_eq!((is_hit(&hit), hit.remaining("few")), (true, 1));
    }
    assert_eq!(client.get("/stale").await.remaining("few"), 1);
    assert_eq!(client.get("/stale").await.remaining("few"), 0);
    assert_eq!(client.get("/stale").await.status, 429);
    assert_eq!(client.get("/").await.status, 429);
    assert_eq!(origin.count(), 3);
    let lines = gateway.access_lines(25).await;
    let released = lines.iter().filter(|line| line["refunded"][0] == "few");
    assert_eq!(released.count(), 20);
}

async fn a_stampede_cannot_slip_through_a_limit_of_the_origin(by: Version) {
    // Goal: concurrent requests are charged before the cache look-up. Method: 50 at once for 50 pages that are not
    // stored, three of which may be.
    let origin = numbered(&[FRESH]);
    let gateway = before(by, &origin, &limited("count = \"origin\"")).await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(gateway.client().await);
    }
    let asked = clients
        .iter_mut()
        .enumerate()
        .map(|(number, client)| async move { client.get(&format!("/{number}")).await.status });
    let statuses = futures_util::future::join_all(asked).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3);
    assert_eq!(origin.count(), 3);
}

async fn what_is_stored_settles_as_it_was_stored(by: Version) {
    // Goal: count_if is judged by the stored answer, also where the client gets 304 or a part of it. Method: a limit that counts 404s,
    // and one that counts 200s.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/none" => Answer::new(404).header(FRESH.0, FRESH.1).into(),
        _ => with(&[FRESH, ("ETag", "\"d\"")]).body("0123").into(),
    });
    let gateway = before(
        by,
        &origin,
        &limited("count_if = \"response.status == 404\""),
    )
    .await;
    let mut client = gateway.client().await;
    for _ in 0..5 {
        assert_eq!(client.get("/").await.remaining("few"), 2);
        client.send(get("/").header("If-None-Match", "\"d\"")).await;
    }
    for _ in 0..3 {
        assert_eq!(client.get("/none").await.status, 404);
    }
    assert_eq!(client.get("/none").await.status, 429);

    let gateway = before(
        by,
        &origin,
        &limited("count_if = \"response.status == 200\""),
    )
    .await;
    let mut client = gateway.client().await;
    client.get("/").await;
    let same = client.send(get("/").header("If-None-Match", "\"d\"")).await;
    assert_eq!((same.status, same.remaining("few")), (304, 1));
    let part = client.send(get("/").header("Range", "bytes=0-1")).await;
    assert_eq!((part.status, part.remaining("few")), (206, 0));
    assert_eq!(client.get("/").await.status, 429);
}

by_each_version! {
    hits_count_by_default,
    a_limit_of_the_origin_gives_hits_back,
    a_stampede_cannot_slip_through_a_limit_of_the_origin,
    what_is_stored_settles_as_it_was_stored,
}
