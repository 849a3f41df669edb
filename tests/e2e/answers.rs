//! What clients are told about limits beside the draft's fields, how refusals are worded, and what callers that speak gRPC get.

use serde_json::{Value, json};

use crate::harness::*;

/// One per hour at `/`, and the lines that say how it is told.
fn one_per_hour(lines: &str) -> String {
    let lines = format!("rates = [\"1 per 1h\"]\n{lines}");
    limit("otp", &["client.ip"], &lines) + &route("/", &["otp"], ANSWERED)
}

/// A hundred per hour of every path of an origin, told in the fields of both kinds.
fn hundred_per_hour() -> String {
    let lines = "rates = [\"100 per 1h\"]\nheaders = \"both\"";
    limit("otp", &["client.ip"], lines) + &route("/*", &["otp"], "origin = \"app\"")
}

/// The answers to a request that passes, to one that is refused, and to one more on the same connection.
async fn three_answers(gateway: &Gateway) -> [Response; 3] {
    let mut client = gateway.client().await;
    [
        client.get("/").await,
        client.get("/").await,
        client.get("/").await,
    ]
}

#[tokio::test]
async fn a_limit_is_shown_in_the_fields_that_it_names() {
    // Goal: each style writes its own fields and no others, on admitted, refused and repeatedly refused answers. Method: all four.
    for (style, ietf, x) in [
        ("ietf", true, false),
        ("x-ratelimit", false, true),
        ("both", true, true),
        ("none", false, false),
    ] {
        let gateway = Gateway::start(&one_per_hour(&format!("headers = \"{style}\""))).await;
        let answers = three_answers(&gateway).await;
        assert_eq!(
            answers.each_ref().map(|answer| answer.status),
            [200, 429, 429]
        );
        for answer in &answers {
            for name in ["ratelimit", "ratelimit-policy"] {
                assert_eq!(answer.header(name).is_some(), ietf, "{style}: {answer:?}");
            }
            for name in [
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ] {
                assert_eq!(answer.header(name).is_some(), x, "{style}: {answer:?}");
            }
            assert_eq!(answer.header("retry-after").is_some(), answer.status == 429);
            if x {
                assert_eq!(answer.header("x-ratelimit-limit"), Some("1"));
                assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
                let reset: u64 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
                assert!((1..=7200).contains(&reset), "{answer:?}");
                if answer.status == 429 {
                    assert_eq!(reset, answer.retry_after());
                }
            }
        }
    }
}

#[tokio::test]
async fn of_several_rates_the_nearest_to_rejection_is_shown() {
    // Goal: three fields describe the nearest rate. Method: two limits, three rates; a hidden one is nearer still.
    let limits = [
        (
            "a",
            "client.ip",
            r#"["9 per 1h", "7 per 2h"]"#,
            "x-ratelimit",
        ),
        ("b", "global", r#"["8 per 1h"]"#, "both"),
        ("c", "client.ip", r#"["6 per 1h"]"#, "none"),
    ];
    let limits = limits.map(|(name, key, rates, headers)| {
        limit(
            name,
            &[key],
            &format!("rates = {rates}\nheaders = \"{headers}\""),
        )
    });
    let rules = limits.concat() + &route("/", &["a", "b", "c"], ANSWERED);
    let gateway = Gateway::start(&rules).await;
    let answer = gateway.get("/").await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("7"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("6"));
    assert_eq!(answer.all("ratelimit-policy"), ["\"b\";q=8;w=3600"]);
}

#[tokio::test]
async fn limit_fields_of_the_origin_are_never_loosened() {
    // Goal: a client that heeds the fields heeds both sides. Method: an origin that is tighter, then looser, under our own name
    // and in X-RateLimit, and one that speaks an older draft, which a further member would make unreadable.
    let origin = Origin::answering(|request| {
        let left = request.target.trim_start_matches('/').to_owned();
        let mut answer = Answer::new(200).header("X-RateLimit-Remaining", &left);
        answer = answer.header("X-RateLimit-Limit", "77");
        if left == "50" {
            return answer
                .header("RateLimit", "limit=100, remaining=50, reset=9")
                .into();
        }
        answer
            .header("RateLimit-Policy", "\"otp\";q=77;w=9, \"app\";q=9;w=9")
            .header(
                "RateLimit",
                &format!("\"otp\";r={left};t=9, \"app\";r=1;t=9"),
            )
            .into()
    });
    let gateway = Gateway::before(&origin, &hundred_per_hour()).await;
    let tighter = gateway.get("/3").await;
    assert_eq!((tighter.remaining("otp"), tighter.remaining("app")), (3, 1));
    assert_eq!(
        tighter.all("ratelimit-policy").join(", "),
        "\"otp\";q=77;w=9, \"app\";q=9;w=9"
    );
    assert_eq!(tighter.all("x-ratelimit-remaining"), ["3"]);
    assert_eq!(tighter.all("x-ratelimit-limit"), ["77"]);

    let looser = gateway.get("/99999").await;
    assert_eq!((looser.remaining("otp"), looser.remaining("app")), (98, 1));
    let policy = looser.all("ratelimit-policy").join(", ");
    assert!(
        policy.contains("\"otp\";q=100;w=3600") && !policy.contains("q=77"),
        "{policy}"
    );
    assert_eq!(looser.all("x-ratelimit-remaining"), ["98"]);
    assert_eq!(looser.all("x-ratelimit-limit"), ["100"]);

    let older = gateway.get("/50").await;
    assert_eq!(older.all("ratelimit"), ["limit=100, remaining=50, reset=9"]);
    assert_eq!(older.all("ratelimit-policy"), Vec::<&str>::new());
}

#[tokio::test]
async fn own_fields_are_sent_once_whatever_the_origin_sends() {
    // Goal: a forwarded answer has each field of the gateway's own once, and the request id of an origin that sends one, by which its
    // operators find the request; the log has both. Method: an origin that sends none of these fields, and one that sends an id; over both
    // versions.
    let origin = Origin::answering(|request| match &*request.target {
        "/named" => Answer::new(200).header("X-Request-Id", "origin").into(),
        _ => Answer::new(200).into(),
    });
    let gateway = Gateway::before(&origin, &hundred_per_hour()).await;
    for (path, remaining) in [("/", "99"), ("/named", "98")] {
        let answer = gateway.get(path).await;
        assert_eq!(answer.remaining("otp").to_string(), remaining, "{path}");
        assert_eq!(answer.all("ratelimit").len(), 1, "{path}");
        assert_eq!(
            answer.all("ratelimit-policy"),
            ["\"otp\";q=100;w=3600"],
            "{path}"
        );
        assert_eq!(answer.all("x-ratelimit-limit"), ["100"], "{path}");
        assert_eq!(answer.all("x-ratelimit-remaining"), [remaining], "{path}");
        assert_eq!(answer.all("x-ratelimit-reset").len(), 1, "{path}");
        let ids = answer.all("x-request-id");
        assert_eq!(ids.len(), 1, "{path}: {ids:?}");
        assert_eq!(ids == ["origin"], path == "/named", "{path}: {ids:?}");
    }
    let answer = gateway.h2c().await.send(get("/named")).await;
    assert_eq!(answer.all("x-request-id"), ["origin"]);
    let lines = gateway.access_lines(3).await;
    let ids: Vec<&Value> = lines.iter().map(|line| &line["origin_id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!("origin"), &json!("origin")]);
    assert!(
        lines
            .iter()
            .all(|line| line["id"].as_str().unwrap().len() == 32)
    );
}

const WORDED: &str = r#"
[limit.otp.refusal]
status = 503
content_type = "application/json"
body = '{ "by": "{limit}", "on": "{route}", "wait": {retry_after}, "id": "{request_id}" }'
headers = { X-Support = "help@example.com", set-cookie = "seen=1" }
"#;

#[tokio::test]
async fn a_rejection_has_the_body_of_its_limit() {
    // Goal: status, type, body and fields are the operator's, values are filled in and escaped, and the log has the status. Method:
    // refused twice on one connection, since two places write it, by HEAD, and over HTTP/2. The route is called by its query
    // condition, which holds quotes.
    let rules = one_per_hour(WORDED).replace("path = \"/\"", "path = '~ ^/\"?$'");
    let gateway = Gateway::start(&rules).await;
    let ask = || get("/");
    let mut client = gateway.client().await;
    assert_eq!(client.send(ask()).await.status, 200);
    let first = client.send(ask()).await;
    let second = client.send(ask()).await;
    let over_h2 = gateway.h2c().await.send(ask()).await;
    for refused in [&first, &second, &over_h2] {
        assert_eq!(refused.status, 503);
        assert_eq!(refused.header("content-type"), Some("application/json"));
        assert_eq!(refused.header("x-support"), Some("help@example.com"));
        assert_eq!(refused.all("set-cookie"), ["seen=1"]);
        assert_eq!(refused.header("vary"), None);
        assert_eq!(refused.remaining("otp"), 0);
        let body = refused.json();
        assert_eq!(
            (&body["by"], &body["on"]),
            (&"otp".into(), &"~ ^/\"?$".into())
        );
        assert_eq!(body["wait"], refused.retry_after());
        assert_eq!(body["id"], refused.header("x-request-id").unwrap());
    }
    let head = client.send(head("/")).await;
    assert_eq!((head.status, &*head.body), (503, &b""[..]));
    for line in gateway.lines_of(&[first, second]).await {
        assert_eq!(
            (&line["outcome"], &line["status"]),
            (&"rate-limited".into(), &503.into())
        );
    }
}

#[tokio::test]
async fn the_routes_words_go_before_the_limits() {
    // Goal: one limit on two routes, one of which has words of its own. Method: both refused; without a body the problem stays,
    // with the status that is sent.
    let rules = one_per_hour(WORDED)
        + "[[route]]\npath = \"/own\"\nlimits = [\"otp\"]\nrespond = { status = 200 }\nrefusal = { status = 420 }\n";
    let gateway = Gateway::start(&rules).await;
    assert_eq!(gateway.get("/").await.status, 200);
    assert_eq!(gateway.get("/").await.status, 503);
    let own = gateway.get("/own").await;
    own.assert_problem(420);
    assert_eq!(own.violated(), ["otp"]);
}

#[tokio::test]
async fn the_client_chooses_among_bodies() {
    // Goal: browsers get HTML, programs the type that they ask for, the others the default; caches get `Vary`. Method: one connection,
    // so that
    // repeated refusals are answered too, with a different Accept each time.
    let gateway = Gateway::start(&one_per_hour(
        r#"
        [limit.otp.refusal]
        html = "<p>Again in {retry_after} s"
        json = '{ "wait": {retry_after} }'
        "#,
    ))
    .await;
    let mut client = gateway.client().await;
    client.get("/").await;
    for (accept, expected) in [
        (
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/html; charset=utf-8",
        ),
        ("application/json", "application/json"),
        (
            "application/json;q=0.1, text/*;q=0.2",
            "text/html; charset=utf-8",
        ),
        ("*/*", "application/problem+json"),
        ("image/png", "application/problem+json"),
        ("text/html", "text/html; charset=utf-8"),
    ] {
        let answer = client.send(get("/").header("accept", accept)).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("content-type"), Some(expected), "{accept}");
        assert_eq!(answer.header("vary"), Some("accept"));
        if expected.starts_with("text/html") {
            assert_eq!(
                answer.text(),
                format!("<p>Again in {} s", answer.retry_after())
            );
        }
    }
    client.get("/").await.assert_problem(429);
}

#[tokio::test]
async fn new_words_leave_the_counters_alone() {
    // Goal: wording is no part of a counter. Method: use the limit up, reload with words and other fields, be refused in them.
    let mut gateway = Gateway::start(&one_per_hour("")).await;
    assert_eq!(gateway.get("/").await.status, 200);
    gateway
        .reload(&one_per_hour(
            "headers = \"none\"\nrefusal = { status = 420, body = \"no\" }",
        ))
        .await;
    let answer = gateway.get("/").await;
    assert_eq!((answer.status, answer.text()), (420, "no"));
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(answer.header("ratelimit"), None);
}

#[tokio::test]
async fn callers_that_speak_grpc_are_answered_in_it() {
    // Goal: a status of gRPC in a head that ends the stream, whatever the wording; a call that passes is left alone. Method: over
    // h2c, a refusal, an unknown method, an origin that is gone, and a call that the origin answers.
    let origin = Origin::echo();
    let gone = Origin::echo().stop();
    let rules = one_per_hour(WORDED)
        + "[[route]]\npath = \"/live/*\"\norigin = \"app\"\n[[route]]\npath = \"/gone/*\"\norigin = \"gone\"\n";
    let gateway = Setup::new()
        .origin("app", &origin)
        .servers("gone", &[gone])
        .rules(&rules)
        .start()
        .await;
    assert_eq!(gateway.get("/").await.status, 200);
    let client = gateway.h2c().await;
    let call = |target: &str| {
        let call = post(target).header("content-type", "application/grpc+proto");
        call.header("te", "trailers").body("\0\0\0\0\0")
    };
    for (target, status, words) in [
        ("/", "8", "the limit otp refuses; retry after "),
        ("/none.Service/Call", "12", "no route matches this request"),
        ("/gone/Call", "14", "the origin could not be reached"),
    ] {
        let (answer, end) = client.send_to_the_end(call(target)).await;
        assert_eq!((answer.status, end), (200, EndOfStream::Head), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/grpc"));
        assert_eq!(answer.header("grpc-status"), Some(status), "{answer:?}");
        let message = answer.header("grpc-message").unwrap();
        assert!(message.starts_with(words), "{message}");
        if target == "/" {
            assert_eq!(answer.remaining("otp"), 0);
            assert!(answer.retry_after() > 0);
        }
    }
    let (passed, _) = client.send_to_the_end(call("/live/Call")).await;
    assert_eq!(passed.header("grpc-status"), None);
    assert_eq!(passed.echo().target, "/live/Call");
    let web = post("/").header("content-type", "application/grpc-web+proto");
    let mut connection = gateway.client().await;
    for _ in 0..2 {
        let answer = connection.send(web.clone()).await;
        assert_eq!(
            (answer.status, answer.header("grpc-status")),
            (200, Some("8"))
        );
        assert_eq!(answer.header("content-type"), Some("application/grpc-web"));
    }
    let refused = gateway.metrics().await;
    assert_eq!(
        refused.sum("sluicegate_limit_refused_total", &[("limit", "otp")]),
        3.0
    );
}
