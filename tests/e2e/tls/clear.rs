//! What is told to those who come in clear text, and to those who should not come so again.

use super::*;

#[tokio::test]
async fn clear_text_is_sent_on_to_tls_but_for_certificate_authorities() {
    // Goal: `redirect_to_https`, with a port and without. Method: requests of several kinds, and where they are sent.
    let rules = format!("{HELLO}[client]\ntrusted_proxies = [\"127.0.0.9\"]\n");
    for (line, port) in [
        ("redirect_to_https = true", ""),
        ("redirect_to_https = 8443", ":8443"),
    ] {
        let gateway = Setup::new().listener_line(line).rules(&rules).start().await;
        for (request, to) in [
            (
                get("/a/b?c=d%2F").header("Host", "A.test:8080"),
                "/a/b?c=d%2F",
            ),
            (post("/a").header("Host", "a.test"), "/a"),
            (
                // Anybody can write this field.
                get("/")
                    .header("Host", "a.test")
                    .header("X-Forwarded-Proto", "https"),
                "/",
            ),
        ] {
            let answer = gateway.send(request).await;
            assert_eq!(answer.status, 308);
            let location = format!("https://a.test{port}{to}");
            assert_eq!(answer.header("location"), Some(&*location));
        }
        let answer = gateway.h2c().await.send(get("/x")).await;
        assert_eq!(answer.status, 308);
        let challenge = gateway.get("/.well-known/acme-challenge/token").await;
        assert_eq!(challenge.text(), "hello");
        gateway
            .send(get("/").header("Host", "a b"))
            .await
            .assert_problem(400);
        let mut proxy = gateway.client_from("127.0.0.9").await;
        let under_tls = get("/")
            .header("Host", "a.test")
            .header("X-Forwarded-Proto", "https");
        assert_eq!(proxy.send(under_tls).await.text(), "hello");
        assert_eq!(
            proxy.send(get("/").header("Host", "a.test")).await.status,
            308
        );
    }
}

#[tokio::test]
async fn a_cookie_of_a_server_is_secure_where_its_connection_is() {
    // Goal: a cookie that was given under TLS is never sent in clear text. Method: the same origin behind a listener with TLS and behind
    // one without.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let origin = Origin::echo();
    let rules = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    for (setup, is_secure) in [(with(&[&pair], ""), true), (Setup::new(), false)] {
        let gateway = setup
            .origin("app", &origin)
            .origin_line("sticky = {}")
            .rules(rules)
            .start()
            .await;
        let answer = match is_secure {
            true => {
                let clients = TlsClients::of(&authority);
                let mut client = clients.connect(gateway.address(), "a.test").await;
                client.get("/").await
            }
            false => gateway.get("/").await,
        };
        let cookie = answer.header("set-cookie").unwrap();
        assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
    }
}

#[tokio::test]
async fn every_tls_answer_has_hsts() {
    // Goal: `hsts`, and the scheme that origins get. Method: an origin's answer, a problem, a refusal and its repeat, a head that is
    // broken; and an origin that sends the field itself.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let origin = Origin::echo();
    let rules = "[limit.one]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n\n\
                 [[route]]\npath = \"/limited\"\nlimits = [\"one\"]\norigin = \"app\"\n\n\
                 [[route]]\npath = \"/open\"\norigin = \"app\"\n";
    let lines = "hsts = { max_age = \"365d\", include_subdomains = true, preload = true }";
    let gateway = with(&[&pair], lines)
        .origin("app", &origin)
        .rules(rules)
        .start()
        .await;
    let expected = "max-age=31536000; includeSubDomains; preload";
    let clients = TlsClients::of(&authority);
    let mut client = clients.connect(gateway.address(), "a.test").await;
    for (path, status) in [
        ("/open", 200),
        ("/nowhere", 404),
        ("/limited", 200),
        ("/limited", 429),
        ("/limited", 429),
        ("/limited", 429),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.all("strict-transport-security"),
            [expected],
            "{path}"
        );
        if status == 200 {
            assert_eq!(answer.echo().header("x-forwarded-proto"), Some("https"));
        }
    }
    let long = "x".repeat(100_000);
    let answer = client.send(get("/open").header("x-long", &long)).await;
    answer.assert_problem(431);
    assert_eq!(answer.header("strict-transport-security"), Some(expected));
}
