//! What the origin is told about the request and its client, and what it is not.

use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";
const PASS_TRUSTING: &str = r#"
[client]
trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]
[[route]]
path = "/*"
origin = "app"
"#;

#[tokio::test]
async fn the_origin_sees_the_host_that_the_client_sent() {
    // Goal: the default Host policy. Method: the echoing origin.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let echo = gateway
        .send(get("/").header("Host", "shop.test:8080"))
        .await
        .echo();
    assert_eq!(echo.header("host"), Some("shop.test:8080"));
    assert_eq!(echo.header("x-forwarded-host"), None);
}

#[tokio::test]
async fn the_origin_sees_a_fixed_host_where_one_is_configured() {
    // Goal: `host` of an origin; the client's own name travels in X-Forwarded-Host. Method: the echoing origin.
    let origin = Origin::echo();
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("host = \"inner.test\"");
    let gateway = setup.rules(PASS).start().await;
    let echo = gateway
        .send(get("/").header("Host", "shop.test"))
        .await
        .echo();
    assert_eq!(echo.header("host"), Some("inner.test"));
    assert_eq!(echo.header("x-forwarded-host"), Some("shop.test"));
}

#[tokio::test]
async fn forwarded_fields_of_an_untrusted_peer_are_replaced() {
    // Goal: an origin can trust X-Forwarded-*. Method: an untrusted client claims to be another.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client_from("127.0.0.9").await;
    let forged = get("/")
        .header("Host", "shop.test")
        .header("X-Forwarded-For", "203.0.113.7")
        .header("X-Forwarded-For", "203.0.113.8")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "evil.test")
        .header("X-Real-IP", "203.0.113.7")
        .header("Forwarded", "for=203.0.113.7;proto=https;host=evil.test");
    let echo = client.send(forged).await.echo();
    assert_eq!(echo.header("x-forwarded-for"), Some("127.0.0.9"));
    assert_eq!(echo.header("x-real-ip"), None);
    assert_eq!(echo.header("x-forwarded-proto"), Some("http"));
    assert_eq!(echo.header("x-forwarded-host"), None);
    assert_eq!(echo.header("forwarded"), None);
}

#[tokio::test]
async fn a_trusted_hop_is_appended_to_the_chain() {
    // Goal: the chain grows by the peer, whether it came as one field or several; what else the peer sends it may pass on. Method: a
    // trusted peer.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, PASS_TRUSTING).await;
    let request = get("/")
        .forwarded_for("203.0.113.7")
        .forwarded_for("10.0.0.3")
        .header("X-Real-IP", "203.0.113.7");
    let echo = gateway.send(request).await.echo();
    let chain = echo.all("x-forwarded-for").join(", ");
    assert_eq!(chain, "203.0.113.7, 10.0.0.3, 127.0.0.1");
    assert_eq!(echo.header("x-real-ip"), None);
}

#[tokio::test]
async fn the_forwarded_field_is_sent_where_it_is_configured() {
    // Goal: RFC 7239 in place of X-Forwarded-For, replaced for an untrusted peer and extended for a trusted hop. Method: the echo.
    let origin = Origin::echo();
    let rules = PASS_TRUSTING.replace("[client]", "[client]\nclient_ip_header = \"forwarded\"");
    let gateway = Gateway::before(&origin, &rules).await;
    let request = get("/").header("Forwarded", "for=203.0.113.7");
    let extended = gateway
        .send(request.clone())
        .await
        .echo()
        .all("forwarded")
        .join(", ");
    assert!(
        extended.starts_with("for=203.0.113.7, for=127.0.0.1"),
        "{extended}"
    );
    let mut stranger = gateway.client_from("127.0.0.9").await;
    let replaced = stranger
        .send(request)
        .await
        .echo()
        .all("forwarded")
        .join(", ");
    assert!(
        replaced.starts_with("for=127.0.0.9") && !replaced.contains("203.0.113"),
        "{replaced}"
    );
}

#[tokio::test]
async fn fields_of_one_hop_go_no_further() {
    // Goal: RFC 9110 §7.6.1 for requests: Connection, what it names, and the other fields of one hop. Method: the echo.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write(
        "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, X-Hop\r\nX-Hop: secret\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nTrailer: X-T\r\nUpgrade: foo\r\n\
         X-End: kept\r\n\r\n",
    )
    .await;
    let echo = raw.read_response().await.echo();
    for gone in [
        "x-hop",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
    ] {
        assert_eq!(echo.header(gone), None, "{gone} went on");
    }
    assert!(
        echo.header("connection")
            .is_none_or(|value| !value.to_lowercase().contains("x-hop")),
        "{echo:?}"
    );
    assert_eq!(echo.header("x-end"), Some("kept"));
}

#[tokio::test]
async fn fields_of_one_hop_are_no_keys_and_no_variants() {
    // Goal: nobody gets a counter, or stores an answer, by a field that the origin does not get. Method: `Connection` names the field of
    // a key, of a cookie, and of `Vary`; the same requests without them.
    let origin = Origin::answering(|request| {
        let language = request
            .header("accept-language")
            .unwrap_or("none")
            .to_owned();
        Answer::new(200)
            .header("Vary", "Accept-Language")
            .header("Cache-Control", "max-age=60")
            .body(language)
            .into()
    });
    let keyed = |name: &str, key: &str| {
        format!(
            "[limit.{name}]\nkey = \"{key}\"\nrates = [\"2 per 1h\"]\non_missing = \"ip\"\n\
             [[route]]\npath = \"/{name}\"\nlimits = [\"{name}\"]\norigin = \"app\"\n"
        )
    };
    let rules = format!(
        "{}{}[[route]]\npath = \"/cached\"\norigin = \"app\"\n[route.cache]\n",
        keyed("field", "header.x-api-key"),
        keyed("cookie", "cookie.sid")
    );
    let gateway = Gateway::before(&origin, &rules).await;
    for (target, name, named) in [
        ("/field", "X-Api-Key", "x-api-key"),
        ("/cookie", "Cookie", "keep-alive, COOKIE"),
    ] {
        let mut statuses = Vec::new();
        for number in 0..4 {
            let request = get(target)
                .header(name, &format!("sid={number}"))
                .header("Connection", named);
            statuses.push(gateway.send(request).await.status);
        }
        assert_eq!(statuses, [200, 200, 429, 429], "{target}");
    }
    let cached = || get("/cached").header("Accept-Language", "de");
    let hidden = cached().header("Connection", "accept-language");
    assert_eq!(gateway.send(hidden).await.text(), "none");
    assert_eq!(gateway.send(cached()).await.text(), "de");
}

#[tokio::test]
async fn a_proxy_cannot_be_made_to_hide_its_client() {
    // Goal: the field that names the client is not removed by the client. Method: a trusted proxy that passes `Connection` on.
    let origin = Origin::echo();
    let rules = "[client]\ntrusted_proxies = [\"127.0.0.9\"]\nclient_ip_header = \"CF-Connecting-IP\"\n\
        [[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let mut proxy = gateway.client_from("127.0.0.9").await;
    let request = get("/").header("CF-Connecting-IP", "192.0.2.1");
    let hidden = request.header("Connection", "cf-connecting-ip");
    proxy.send(hidden).await.assert_problem(400);
}

#[tokio::test]
async fn fields_that_must_stay_cannot_be_removed_through_connection() {
    // Goal: `Connection: X-Forwarded-For` does not strip what the gateway says. Method: name each of its fields; a refusal of
    // the strange request is as good as the echo of an untouched field.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    for name in [
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Request-Id",
        "Host",
    ] {
        let answer = gateway
            .send(get("/").header("Connection", &format!("{name}, close")))
            .await;
        assert!(
            answer.status == 400 || answer.echo().header(name).is_some(),
            "{name} was removed"
        );
    }
}

#[tokio::test]
async fn fields_of_one_hop_do_not_come_back() {
    // Goal: the same for answers. Method: an origin that names a field of its own in Connection.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200)
            .header("Connection", "X-Hop")
            .header("X-Hop", "secret");
        answer
            .header("Keep-Alive", "timeout=77")
            .header("X-End", "kept")
            .body("ok")
            .into()
    });
    let gateway = Gateway::passing(&origin).await;
    let answer = gateway.get("/").await;
    assert_eq!(
        (answer.header("x-hop"), answer.header("x-end")),
        (None, Some("kept"))
    );
    assert_ne!(answer.header("keep-alive"), Some("timeout=77"));
}

#[tokio::test]
async fn one_request_id_goes_to_the_origin_the_client_and_the_log() {
    // Goal: one request can be followed through all three. Method: compare them; an untrusted client's own id is not accepted.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let answer = gateway
        .send(get("/").header("X-Request-Id", "forged"))
        .await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    assert_eq!(answer.echo().header("x-request-id"), Some(id.as_str()));
    assert_eq!(gateway.access_line().await["id"], id);
    assert_ne!(id, "forged");
    assert_ne!(
        gateway.get("/").await.header("x-request-id"),
        Some(id.as_str())
    );
}

#[tokio::test]
async fn every_answer_of_the_gateway_itself_carries_a_request_id() {
    // Goal: a complaint about any answer can be looked up. Method: a fixed answer, a refusal, a 404, a 502.
    let gateway = Setup::new()
        .servers("gone", &["127.0.0.1:1".parse().unwrap()])
        .rules(
            r#"
            [limit.one]
            key = "client.ip"
            rates = ["1 per 1h"]
            [[route]]
            path = "/fixed"
            limits = ["one"]
            respond = { status = 200 }
            [[route]]
            path = "/gone"
            origin = "gone"
            "#,
        )
        .start()
        .await;
    for (path, status) in [
        ("/fixed", 200),
        ("/fixed", 429),
        ("/nowhere", 404),
        ("/gone", 502),
    ] {
        let answer = gateway.get(path).await;
        assert_eq!(answer.status, status);
        assert!(answer.header("x-request-id").is_some(), "{answer:?}");
    }
}

/// The head that an origin gets and the bytes that a client gets, where both write names in their own case.
async fn names_through(origin_lines: &[&str]) -> (Vec<String>, String) {
    let answer = Answer::new(200).header("X-Old-Answer", "1").body("ok");
    let origin = Origin::answering(move |_| Reply::Answer(answer.clone()));
    let setup = origin_lines
        .iter()
        .fold(Setup::new().origin("app", &origin), |setup, line| {
            setup.origin_line(line)
        });
    let gateway = setup.rules(PASS).start().await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: k\r\nConnection: close\r\n\r\n")
        .await;
    let answer = String::from_utf8(raw.read_to_end().await).unwrap();
    let request = origin.only_request();
    let names = request.headers.into_iter().map(|(name, _)| name);
    (names.collect(), answer)
}

#[tokio::test]
async fn field_names_travel_in_lower_case() {
    // Goal: the default, as in HTTP/2. Method: names with capitals on both sides, read as bytes.
    let (names, answer) = names_through(&[]).await;
    assert!(names.iter().any(|name| name == "x-api-key"), "{names:?}");
    assert!(answer.contains("\r\nx-old-answer: 1\r\n"), "{answer}");
}

#[tokio::test]
async fn field_names_travel_as_sent_where_the_origin_minds() {
    // Goal: `header_case = "as-sent"`. Method: the same.
    let (names, answer) = names_through(&["header_case = \"as-sent\""]).await;
    assert!(names.iter().any(|name| name == "X-Api-Key"), "{names:?}");
    assert!(answer.contains("\r\nX-Old-Answer: 1\r\n"), "{answer}");
}
