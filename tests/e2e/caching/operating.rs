//! What the operator sees of the cache, and does with it.

use super::*;

const FRESH: &[(&str, &str)] = &[("Cache-Control", "max-age=60")];

/// A gateway whose operator has a token.
async fn with_token(origin: &Origin) -> Gateway {
    Setup::new()
        .origin("app", origin)
        .tokens("secret\n")
        .rules(&storing(""))
        .start()
        .await
}

/// Purges by this query with the token.
async fn purge(gateway: &Gateway, query: &str) -> Response {
    let request = post(&format!("/cache/purge?{query}"));
    gateway.admin(request.bearer("secret")).await
}

#[tokio::test]
async fn the_operator_takes_away_what_is_stored() {
    // Goal: a URL, all that begins so, or all can be purged, and nothing else goes. Method: four stored answers, purged one way after the
    // other.
    let origin = numbered(FRESH);
    let gateway = with_token(&origin).await;
    let fill = async || {
        for target in ["/a", "/a?b=1", "/ab", "/c d".replace(' ', "%20").as_str()] {
            gateway.get(target).await;
        }
    };
    for (query, count, gone) in [
        ("url=http://gateway.test/a", 1, "/a"),
        (
            "url=http%3A%2F%2FGATEWAY.test%3A80%2Fa%3Fb%3D1",
            1,
            "/a?b=1",
        ),
        ("url=http://gateway.test/c%2520d", 1, "/c%20d"),
        ("prefix=http://gateway.test/a", 3, "/ab"),
        ("url=https://gateway.test/a", 0, ""),
        ("prefix=http://other.test", 0, ""),
        ("prefix=http://gateway.test", 4, "/c%20d"),
        ("all", 4, "/a"),
    ] {
        fill().await;
        let answer = purge(&gateway, query).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        assert_eq!(answer.json()["purged"], count, "{query}");
        if !gone.is_empty() {
            assert!(!is_hit(&gateway.get(gone).await), "{query}");
        }
        if count < 3 {
            assert!(is_hit(&gateway.get("/ab").await), "{query}");
        }
    }
}

#[tokio::test]
async fn purges_require_the_token() {
    // Goal: only the token's owner can purge, and errors have a cure. Method: without token, with none configured, by GET,
    // and with queries that name nothing.
    let origin = numbered(FRESH);
    let gateway = with_token(&origin).await;
    gateway.get("/").await;
    assert_eq!(gateway.admin(post("/cache/purge?all")).await.status, 401);
    let read = get("/cache/purge?all").bearer("secret");
    let read = gateway.admin(read).await;
    assert_eq!((read.status, read.header("allow")), (405, Some("POST")));
    for query in [
        "",
        "all=1",
        "url=/a",
        "url=",
        "tag=x",
        "url=http://a.test/&all",
    ] {
        let answer = purge(&gateway, query).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains("url="), "{answer:?}");
    }
    assert!(is_hit(&gateway.get("/").await));
    let open = Gateway::before(&origin, &storing("")).await;
    assert_eq!(open.admin(post("/cache/purge?all")).await.status, 403);
}

async fn log_metrics_and_status_tell_how_the_cache_does(by: Version) {
    // Goal: one use, one word, everywhere. Method: a miss, a hit, a bypass and a refusal of only-if-cached.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/no" => Answer::new(200).into(),
        _ => with(FRESH).body("x").into(),
    });
    let gateway = before(by, &origin, &storing("")).await;
    let answers = [
        gateway.get("/").await,
        gateway.get("/").await,
        gateway.get("/no").await,
    ];
    let lines = gateway.lines_of(&answers).await;
    let seen: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["cache"].as_str().unwrap(),
                line["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("miss", "forwarded"),
            ("hit", "cached"),
            ("bypass", "forwarded")
        ]
    );
    assert!(lines[1]["origin"].is_null() && lines[0]["origin"] == "app");
    let metrics = gateway.metrics().await;
    for result in ["miss", "hit", "bypass"] {
        let labels = [("route", "/*"), ("result", result)];
        let count = metrics.sum("sluicegate_cache_requests_total", &labels);
        assert_eq!(count, 1.0, "{result}");
    }
    assert_eq!(metrics.sum("sluicegate_cache_objects", &[]), 1.0);
    assert_eq!(
        metrics.sum("sluicegate_requests_total", &[("outcome", "cached")]),
        1.0
    );
    let cache = &gateway.status().await["cache"];
    assert_eq!(cache["objects"], 1);
    assert_eq!(cache["memory"], 256 << 20);
    assert!(cache["bytes"].as_u64().unwrap() > 500, "{cache}");
}

#[tokio::test]
async fn what_is_stored_survives_a_reload_and_obeys_the_new_rules() {
    // Goal: a reload empties nothing, and holds from then on. Method: a hit before and after a change of limits; then less memory,
    // then no
    // cache at all.
    let origin = numbered(FRESH);
    let mut gateway = Gateway::before(&origin, &storing("")).await;
    gateway.get("/").await;
    gateway
        .reload(&format!(
            "{}\n[cache]\nmax_bytes = \"1MiB\"\n",
            storing("stale_if_error = \"1h\"")
        ))
        .await;
    assert!(is_hit(&gateway.get("/").await));
    gateway
        .reload("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .await;
    let answer = gateway.get("/").await;
    assert_eq!(
        (answer.text(), answer.header("cache-status")),
        ("answer 2", None)
    );
}

/// How many answers `/status` has, and their bytes.
async fn kept(gateway: &Gateway) -> (u64, u64) {
    let cache = &gateway.status().await["cache"];
    let number = |name: &str| cache[name].as_u64().unwrap_or_else(|| panic!("{cache}"));
    (number("objects"), number("bytes"))
}

#[tokio::test]
async fn a_reload_keeps_stored_answers_and_counts_them_once() {
    // Goal: what answers take is known across reloads, so the bound holds after them, and nothing is left when all are gone. Method: five
    // answers of one size; more memory, then less than they take; a write to each, and all stored again.
    let origin = Origin::answering(|_| with(FRESH).body(vec![b'x'; 300_000]).into());
    let rules = |memory: &str| format!("{}\n[cache]\nmax_bytes = \"{memory}\"\n", storing(""));
    let mut gateway = Setup::new()
        .origin("app", &origin)
        .rules(&rules("16MiB"))
        .start()
        .await;
    let fill = async |gateway: &Gateway| {
        for target in ["/0", "/1", "/2", "/3", "/4"] {
            gateway.get(target).await;
        }
        // The client may have its answer before it is stored.
        eventually("all are stored", async || {
            let (objects, bytes) = kept(gateway).await;
            (objects == 5).then_some(bytes)
        })
        .await
    };
    let bytes = fill(&gateway).await;
    assert!(bytes > 1_500_000, "{bytes}");
    gateway.reload(&rules("32MiB")).await;
    assert_eq!(kept(&gateway).await, (5, bytes));
    assert_eq!(gateway.status().await["cache"]["memory"], 32 << 20);
    gateway.reload(&rules("1MiB")).await;
    assert_eq!(kept(&gateway).await, (3, bytes / 5 * 3));
    assert_eq!(gateway.status().await["cache"]["evicted"], 2);
    for target in ["/0", "/1", "/2", "/3", "/4"] {
        gateway.post(target).await;
    }
    assert_eq!(kept(&gateway).await, (0, 0));
    gateway.reload(&rules("16MiB")).await;
    assert_eq!(fill(&gateway).await, bytes);
}

#[tokio::test]
async fn a_member_of_cache_status_is_added_to_those_of_others() {
    // Goal: RFC 9211: a cache further in is still heard. Method: an origin with a word of its own.
    let origin = numbered(&[
        ("Cache-Control", "max-age=60"),
        ("Cache-Status", "inner; hit"),
    ]);
    let gateway = Gateway::before(&origin, &storing("")).await;
    gateway.get("/").await;
    let hit = gateway.get("/").await;
    let members = hit.all("cache-status");
    assert_eq!(members[0], "inner; hit");
    assert!(
        members[1].starts_with("sluicegate; hit; ttl="),
        "{members:?}"
    );
}

#[tokio::test]
async fn explain_describes_the_cache() {
    // Goal: an operator reads what the keys come to. Method: a route and a limit with each of them.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[origin.app]\nservers = [\"127.0.0.1:3000\"]\n\
         [limit.few]\nkey = \"client.ip\"\nrates = [\"3 per 1h\"]\ncount = \"origin\"\n{}",
        storing("default_ttl = \"10m\"\nstale_if_error = \"1d\"")
            .replace("path =", "limits = [\"few\"]\npath =")
    );
    std::fs::write(&file, text).unwrap();
    let mut process = Process::run(&["explain", file.to_str().unwrap()]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let told = process
        .stdout()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for sentence in [
        "Responses are stored for their lifetime, or else for 10m;",
        "For 1d more they are served stale when the origin fails, unless they forbid it.",
        "refunded when the response comes from the cache without the origin.",
    ] {
        assert!(told.contains(sentence), "{sentence}: {told}");
    }
}

by_each_version! {
    log_metrics_and_status_tell_how_the_cache_does,
}
