//! What has a counter of its own: every value that a key can be made of, its normal forms, and requests without it.

use crate::harness::*;

/// Two an hour by `key`, answered here.
fn two_by(key: &str, rest: &str) -> String {
    format!(
        "[limit.k]\nkey = {key}\nrates = [\"2 per hour\"]\n{rest}\n\
         [[route]]\npath = \"/*\"\nlimits = [\"k\"]\nrespond = {{ status = 200 }}\n"
    )
}

/// The statuses of these requests, one after the other on connections of their own.
async fn statuses(gateway: &Gateway, requests: impl IntoIterator<Item = Request>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(gateway.send(request).await.status);
    }
    statuses
}

#[tokio::test]
async fn each_value_of_a_header_has_a_counter() {
    // Goal: a header key separates clients behind one address, and repeated fields give no fresh counter. Method: two keys, then one
    // of them among copies; a copy that differs is no value, and refused with 400.
    let gateway = Gateway::start(&two_by("\"header.x-api-key\"", "on_missing = \"refuse\"")).await;
    let with = |key: &str| get("/").header("x-api-key", key);
    let sent = [
        with("a"),
        with("a"),
        with("a"),
        with("b"),
        with(" b "),
        with("b"),
    ];
    assert_eq!(
        statuses(&gateway, sent).await,
        [200, 200, 429, 200, 200, 429]
    );
    let twice = with("a").header("x-api-key", "a");
    let fresh = with("fresh").header("x-api-key", "a");
    assert_eq!(statuses(&gateway, [twice, fresh]).await, [429, 400]);
}

#[tokio::test]
async fn queries_and_cookies_count_by_what_they_decode_to() {
    // Goal: two spellings of one value share a counter. Method: two spellings, then a third that is refused.
    let gateway = Gateway::start(&two_by("\"query.phone\"", "on_missing = \"refuse\"")).await;
    let targets = [
        "/?phone=+1",
        "/?a=b&ph%6fne=%201",
        "/?phone=%20%31",
        "/?phone=2",
        "/?phone=",
        "/",
    ];
    assert_eq!(
        statuses(&gateway, targets.map(get)).await,
        [200, 200, 429, 200, 200, 400]
    );
    let gateway = Gateway::start(&two_by("\"cookie.sid\"", "on_missing = \"refuse\"")).await;
    let with = |cookies: &str| get("/").header("cookie", cookies);
    let sent = [
        with("sid=a"),
        with("x=1; sid=\"%61\""),
        with("sid=a; x=2"),
        with("sid=b"),
        with("x=1"),
    ];
    assert_eq!(statuses(&gateway, sent).await, [200, 200, 429, 200, 400]);
    let over_http2 = gateway.h2c().await;
    let split = get("/").header("cookie", "x=1").header("cookie", "sid=a");
    assert_eq!(over_http2.send(split).await.status, 429);
}

#[tokio::test]
async fn path_parameters_count_on_every_route_by_their_name() {
    // Goal: a tenant is one counter on all routes of a limit, however it is spelt, and never chosen by a path with two readings. Method:
    // two templates with the parameter at different places; then escapes, and dots that some origins keep.
    let gateway = Gateway::start(
        r#"
        [limit.tenant]
        key = "path.tenant"
        rates = ["2 per hour"]
        [[route]]
        path = "/t/{tenant}/*"
        limits = ["tenant"]
        respond = { status = 200 }
        [[route]]
        path = "/{kind}/of/{tenant}"
        limits = ["tenant"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let targets = ["/t/ann/x", "/file/of/%61nn", "/t/ann/y/z", "/t/bob/x"];
    assert_eq!(
        statuses(&gateway, targets.map(get)).await,
        [200, 200, 429, 200]
    );
    let mut raw = gateway.raw().await;
    for target in [
        "/t/ann%2Ffresh/x",
        "/t/ann/../fresh/x",
        "/t/x/%2e%2e/fresh/y",
        "/t/(S(fresh))/ann/x",
        "/t/index.php/t/ann/x",
    ] {
        raw.write(format!("GET {target} HTTP/1.1\r\nhost: a.test\r\n\r\n"))
            .await;
        assert_eq!(raw.read_response().await.status, 400, "{target}");
    }
    // Names of scripts behind it leave the parameter where it is.
    for target in ["/t/ann/index.php/a/fresh", "/t/ann/(S(fresh))/x"] {
        assert_eq!(gateway.get(target).await.status, 429, "{target}");
    }
}

#[tokio::test]
async fn invented_segments_give_a_path_no_fresh_counter() {
    // Goal: what ASP.NET takes out of a path is no part of what a limit by the path counts. Method: another session in each request, at
    // several places and escaped; another path.
    let gateway = Gateway::start(&two_by("\"path\"", "")).await;
    let targets = [
        "/(S(a))/page",
        "/page",
        "/(S(b))/page",
        "/(S(c)F(d))/PAGE/",
        "/%28A(e))/page",
        "/page/(S(f;x))",
        "/(S(a))/other",
    ];
    assert_eq!(
        statuses(&gateway, targets.map(get)).await,
        [200, 200, 429, 429, 429, 429, 200]
    );
}

#[tokio::test]
async fn a_key_of_several_parts_counts_every_combination() {
    // Goal: parts are counted together. Method: two values of each of two parts.
    let gateway = Gateway::start(&two_by(
        "[\"header.x-user\", \"query.q\", \"method\"]",
        "on_missing = \"refuse\"",
    ))
    .await;
    let with = |user: &str, q: &str| get(&format!("/?q={q}")).header("x-user", user);
    let sent = [
        with("a", "1"),
        with("a", "1"),
        with("a", "1"),
        with("a", "2"),
        with("b", "1"),
        with("a1", ""),
    ];
    assert_eq!(
        statuses(&gateway, sent).await,
        [200, 200, 429, 200, 200, 200]
    );
}

#[tokio::test]
async fn a_telephone_number_is_one_however_it_is_written() {
    // Goal: normal forms reach the counter. Method: three spellings of one German number, one number that does not exist; then the
    // domain of a mail address.
    let gateway = Gateway::start(&two_by(
        "\"query.phone | e164 DE\"",
        "on_missing = \"refuse\"",
    ))
    .await;
    let targets = [
        "/?phone=0151+12345678",
        "/?phone=%2B4915112345678",
        "/?phone=0049151/12345678",
        "/?phone=110",
    ];
    assert_eq!(
        statuses(&gateway, targets.map(get)).await,
        [200, 200, 429, 400]
    );
    let key = "\"query.mail | email | after '@'\"";
    let gateway = Gateway::start(&two_by(key, "on_missing = \"refuse\"")).await;
    let targets = [
        "/?mail=Ann@Example.com",
        "/?mail=bob@example.COM",
        "/?mail=c@example.com",
        "/?mail=c@example.org",
    ];
    assert_eq!(
        statuses(&gateway, targets.map(get)).await,
        [200, 200, 429, 200]
    );
}

#[tokio::test]
async fn a_request_without_the_key_gets_400_with_what_to_send() {
    // Goal: `refuse` names what is missing and no value, charges no limit of the route, and is seen by the operator. Method: a route with
    // a second limit; the problem body, the log, the metric, and the second limit's status afterwards.
    let gateway = Gateway::start(
        r#"
        [limit.all]
        key = "global"
        rates = ["2 per hour"]
        [limit.user]
        key = ["client.ip", "header.x-user"]
        on_missing = "refuse"
        rates = ["2 per hour"]
        [[route]]
        path = "/*"
        limits = ["all", "user"]
        respond = { status = 200 }
        "#,
    )
    .await;
    for _ in 0..3 {
        let answer = gateway.get("/?secret=1").await;
        answer.assert_problem(400);
        assert_eq!(answer.json()["detail"], "the header x-user is missing");
        assert!(answer.header("ratelimit").is_none());
    }
    let lines = gateway.access_lines(3).await;
    assert_eq!(lines[0]["missing"], "header.x-user");
    assert_eq!(lines[0]["missing_reason"], "absent");
    assert_eq!(lines[0]["outcome"], "rejected");
    let passed = gateway.send(get("/").header("x-user", "a")).await;
    assert_eq!((passed.status, passed.remaining("all")), (200, 1));
    let metrics = gateway.metrics().await;
    let incomplete = |limit| metrics.sum("sluicegate_limit_key_missing_total", &[("limit", limit)]);
    assert_eq!((incomplete("user"), incomplete("all")), (3.0, 0.0));
}

#[tokio::test]
async fn requests_without_the_key_count_as_the_rules_say() {
    // Goal: `ip`, `shared` and `skip` mean what they say, apart from all keys. Method: from two addresses, without the header, each
    // choice in turn; then a value that cannot be read, which nothing skips.
    for (choice, second_address, spoilt) in
        [("ip", 200, 429), ("shared", 429, 429), ("skip", 200, 200)]
    {
        let rest = format!("on_missing = \"{choice}\"");
        let gateway = Gateway::start(&two_by("\"header.x-user\"", &rest)).await;
        let bare = statuses(&gateway, [get("/"), get("/"), get("/")]).await;
        let third = if choice == "skip" { 200 } else { 429 };
        assert_eq!(bare, [200, 200, third], "{choice}");
        let mut other = gateway.client_from("127.0.0.9").await;
        assert_eq!(other.get("/").await.status, second_address, "{choice}");
        let keyed = gateway.send(get("/").header("x-user", "a")).await;
        assert_eq!((keyed.status, keyed.remaining("k")), (200, 1), "{choice}");
        let twice = || get("/").header("x-user", "a").header("x-user", "b");
        let answers = statuses(&gateway, [twice(), twice(), twice()]).await;
        assert_eq!((answers[0], answers[2]), (spoilt, 429), "{choice}");
    }
}

#[tokio::test]
async fn a_skipped_limit_leaves_the_others_in_their_places() {
    // Goal: where one of several limits is skipped, fields, log and refusal are about the others. Method: three limits, the second
    // skipped, the third refuses.
    let gateway = Gateway::start(
        r#"
        [limit.first]
        key = "client.ip"
        rates = ["9 per hour"]
        [limit.second]
        key = "header.x-user"
        on_missing = "skip"
        rates = ["9 per hour"]
        [limit.third]
        key = "path"
        rates = ["1 per hour"]
        [[route]]
        path = "/*"
        limits = ["first", "second", "third"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let passed = client.get("/").await;
    assert_eq!(
        (passed.remaining("first"), passed.remaining("third")),
        (8, 0)
    );
    assert!(!passed.header("ratelimit").unwrap().contains("second"));
    // The second refusal on a connection is answered without the proxy, and says the same.
    for _ in 0..3 {
        let refused = client.get("/").await;
        assert_eq!(
            (refused.status, refused.violated()),
            (429, vec!["third".to_owned()])
        );
        assert_eq!(
            (refused.remaining("first"), refused.remaining("third")),
            (8, 0)
        );
    }
    let lines = gateway.access_lines(4).await;
    assert!(
        lines[1..]
            .iter()
            .all(|line| line["limit"] == "third" && line["missing"] == "header.x-user")
    );
    // Whoever has the key faces all three, and such a refusal is repeated with all three.
    for _ in 0..3 {
        let refused = client.send(get("/").header("x-user", "ann")).await;
        let left = ["first", "second", "third"].map(|limit| refused.remaining(limit));
        assert_eq!((refused.status, left), (429, [8, 9, 0]));
    }
    let metrics = gateway.metrics().await;
    let sum = |name: &str, limit| metrics.sum(name, &[("limit", limit)]);
    assert_eq!(sum("sluicegate_limit_refused_total", "third"), 6.0);
    assert_eq!(sum("sluicegate_limit_admitted_total", "second"), 0.0);
    assert_eq!(sum("sluicegate_limit_key_missing_total", "second"), 4.0);
}

#[tokio::test]
async fn repeated_refusals_see_the_fields_that_keys_are_made_of() {
    // Goal: the quick answer to repeats reads the same key as the proxy. Method: on one connection, a client that was refused under one
    // key asks under another, with a cookie beside it.
    let gateway = Gateway::start(&two_by(
        "[\"header.x-user\", \"cookie.sid\"]",
        "on_missing = \"refuse\"",
    ))
    .await;
    let mut client = gateway.client().await;
    let with = |user: &str, sid: &str| {
        let cookies = format!("sid={sid}");
        get("/").header("x-user", user).header("cookie", &cookies)
    };
    let mut answers = Vec::new();
    for (user, sid) in [
        ("a", "1"),
        ("a", "1"),
        ("a", "1"),
        ("a", "1"),
        ("b", "1"),
        ("a", "2"),
        ("a", "1"),
    ] {
        answers.push(client.send(with(user, sid)).await.status);
    }
    answers.push(client.get("/").await.status);
    assert_eq!(answers, [200, 200, 429, 429, 200, 200, 429, 400]);
}

#[tokio::test]
async fn counters_survive_a_reload_that_edits_what_is_missing() {
    // Goal: C4: `on_missing` is no part of the key. Method: use a counter up, edit, ask again; then another normal form, which is another
    // key.
    let rules = |key: &str, choice: &str| two_by(key, &format!("on_missing = \"{choice}\""));
    let mut gateway = Gateway::start(&rules("\"header.x-user\"", "refuse")).await;
    let ask = || get("/").header("x-user", "a");
    assert_eq!(
        statuses(&gateway, [ask(), ask(), ask()]).await,
        [200, 200, 429]
    );
    gateway.reload(&rules("\"header.x-user\"", "ip")).await;
    assert_eq!(statuses(&gateway, [ask(), get("/")]).await, [429, 200]);
    gateway
        .reload(&rules("\"header.x-user | lower\"", "ip"))
        .await;
    assert_eq!(statuses(&gateway, [ask()]).await, [200]);
}
