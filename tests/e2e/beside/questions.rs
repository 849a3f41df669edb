//! Questions of any proxy: who may ask, what they must name, and that the request in question is judged like one that came itself.

use super::*;

/// Two listeners of one gateway: requests come to [`Gateway::address`], questions to the other. Proxies are 127.0.0.1.
async fn gateway_with(rules: &str) -> (Gateway, SocketAddr) {
    gateway_asked("", rules).await
}

async fn gateway_asked(listener: &str, rules: &str) -> (Gateway, SocketAddr) {
    let asked = free_address();
    let whole = format!(
        "[[listener]]\naddress = \"{{listener}}\"\n[[listener]]\naddress = \"{asked}\"\nprotocol = \"forward-auth\"\n{listener}\n\
         [client]\ntrusted_proxies = [\"127.0.0.1/32\"]\n[admin]\naddress = \"{{admin}}\"\n\
         [log]\naccess = \"{{directory}}/access.log\"\n{rules}"
    );
    (Setup::new().whole(&whole).start().await, asked)
}

const SITE: &str = r#"
[limit.otp]
key   = "client.ip"
rates = ["2 per 1h"]

[origin.site]
servers = ["127.0.0.1:1"]

[[route]]
path   = "/auth/sendOTP"
limits = ["otp"]
origin = "site"

[[route]]
path    = "/fixed"
limits  = ["otp"]
respond = { status = 200 }
"#;

/// A question about a request of 192.0.2.1.
fn about(method: &str, uri: &str) -> Request {
    get("/")
        .header("X-Forwarded-Method", method)
        .header("X-Forwarded-Host", "site.test")
        .header("X-Forwarded-Uri", uri)
        .forwarded_for("192.0.2.1")
}

async fn ask(asked: SocketAddr, question: Request) -> Response {
    Client::connect(asked).await.send(question).await
}

#[tokio::test]
async fn a_route_can_name_the_listener_that_is_asked() {
    // Goal: a question comes by the listener that is asked, whatever the proxy in front has. Method: one path, by a question and by itself.
    let rules = "[[route]]\npath = \"/*\"\nlisteners = [\"asked\"]\nrespond = { status = 451 }\n\
         [[route]]\npath = \"/*\"\nrespond = { status = 202 }\n";
    let (gateway, asked) = gateway_asked("name = \"asked\"", rules).await;
    assert_eq!(ask(asked, about("GET", "/x")).await.status, 451);
    assert_eq!(gateway.get("/x").await.status, 202);
}

#[tokio::test]
async fn a_question_takes_from_the_same_counters() {
    // Goal: nothing is forwarded, and requests and questions of a client share its counters. Method: a question, a request, and one of each
    // too many; the origin of the route does not exist.
    let (gateway, asked) = gateway_with(SITE).await;
    let allowed = ask(asked, about("POST", "/auth/sendOTP?x=1")).await;
    assert_eq!((allowed.status, allowed.remaining("otp")), (204, 1));
    let fixed = gateway.send(get("/fixed").forwarded_for("192.0.2.1")).await;
    assert_eq!((fixed.status, fixed.remaining("otp")), (200, 0));
    let refused = ask(asked, about("POST", "/auth/sendOTP")).await;
    refused.assert_problem(429);
    assert!(refused.retry_after() > 0);
    gateway
        .send(get("/fixed").forwarded_for("192.0.2.1"))
        .await
        .assert_problem(429);

    gateway.access_lines(4).await;
    // Lines of different threads have no order.
    let lines = gateway.lines_of(&[allowed, refused]).await;
    let line = |at: usize| &lines[at];
    assert_eq!(line(0)["outcome"], "allowed");
    assert_eq!(line(0)["status"], 204);
    assert_eq!(line(0)["method"], "POST");
    assert_eq!(line(0)["target"], "/auth/sendOTP?x=1");
    assert_eq!(line(0)["host"], "site.test");
    assert_eq!(line(0)["client"], "192.0.2.1");
    assert_eq!(line(0)["peer"], "127.0.0.1");
    assert_eq!(line(1)["outcome"], "rate-limited");
    let metrics = gateway.metrics().await;
    let requests = |outcome| metrics.sum("sluicegate_requests_total", &[("outcome", outcome)]);
    assert_eq!((requests("allowed"), requests("rate-limited")), (1.0, 2.0));
}

#[tokio::test]
async fn only_trusted_proxies_may_ask() {
    // Goal: nobody else learns or spends what a client may. Method: a question from an address that is not trusted, then the same from one
    // that is.
    let (gateway, asked) = gateway_with(SITE).await;
    let mut stranger = Client::connect_from("127.0.0.9", asked).await;
    let refused = stranger.send(about("POST", "/auth/sendOTP")).await;
    refused.assert_problem(403);
    assert_eq!(
        ask(asked, about("POST", "/auth/sendOTP"))
            .await
            .remaining("otp"),
        1
    );
    let line = &gateway.access_lines(2).await[0];
    assert_eq!(line["client"], "127.0.0.9");
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("trusted_proxies"), "{line}");
}

#[tokio::test]
async fn a_forgotten_field_is_named() {
    // Goal: a proxy that forgets a field, or adds its own to that of its client, gets no decision, and the log says which field. Method:
    // each field left out, and sent twice, at a listener that answers rejections with 403: these keep 400.
    let (gateway, asked) = gateway_asked("rejection_status = 403", SITE).await;
    let fields = [
        ("X-Forwarded-Method", "GET"),
        ("X-Forwarded-Host", "site.test"),
        ("X-Forwarded-Uri", "/auth/sendOTP"),
        ("X-Forwarded-For", "192.0.2.1"),
    ];
    let with = |is_sent: &dyn Fn(&str) -> usize| {
        fields.iter().fold(
            get("/auth/sendOTP").header("Host", "site.test"),
            |question, (name, value)| {
                (0..is_sent(name)).fold(question, |question, _| question.header(name, value))
            },
        )
    };
    for (count, most) in [(0, fields.len()), (2, fields.len() - 1)] {
        for (absent, _) in &fields[..most] {
            let answer = ask(asked, with(&|name| if name == *absent { count } else { 1 })).await;
            answer.assert_problem(400);
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(absent), "{absent}: {detail}");
            assert_eq!(answer.header("x-sluicegate-status"), None);
            let lines = gateway.lines_of(&[answer]).await;
            assert!(
                lines[0]["reason"].as_str().unwrap().contains(absent),
                "{lines:?}"
            );
        }
    }
    let unreadable = about("GET", "/auth/sendOTP").header("X-Forwarded-For", "unknown");
    ask(asked, unreadable).await.assert_problem(400);
}

#[tokio::test]
async fn the_request_in_question_is_read_like_one_that_came() {
    // Goal: no spelling that is rejected, or counted otherwise, when it comes itself is admitted when it is asked about. Method: targets,
    // hosts and methods of each kind, as a request and as a question; statuses agree, and so do the counters afterwards.
    let rules = format!("{SITE}\n[[route]]\npath = \"/*\"\nrespond = {{ status = 204 }}\n");
    let rules = rules
        .replace("respond = { status = 200 }", "respond = { status = 204 }")
        .replace("origin = \"site\"", "respond = { status = 204 }");
    let (gateway, asked) = gateway_with(&rules).await;
    let long = format!("/{}", "a".repeat(9_000));
    for (method, host, target) in [
        ("GET", "site.test", "/"),
        ("GET", "SITE.test:80", "/a?x=\"y\"&z=\u{e9}"),
        ("GET", "site.test", "http://site.test/a"),
        ("GET", "site.test", "http://other.test/a"),
        ("GET", "site.test", "/a b"),
        ("GET", "site.test", "/a#b"),
        ("GET", "site.test", "/%zz"),
        ("GET", "site.test", "/%00"),
        ("GET", "site.test", "a"),
        ("GET", "site.test", "*"),
        ("GET", "site.test", "/auth//sendOTP"),
        ("GET", "site.test", "/x/..;/auth/sendOTP"),
        ("GET", "site.test", "/%2fauth/sendOTP"),
        ("GET", "site.test", "/<a>"),
        ("GET", "site.test", long.as_str()),
        ("GET", "a b", "/"),
        ("GET", "a,b", "/"),
        ("GET", "a@b", "/"),
        ("CONNECT", "site.test", "site.test:443"),
        ("CONNECT", "site.test", "/"),
        ("G(T", "site.test", "/"),
        ("GET /x", "site.test", "/"),
        ("PUT", "site.test", "/fixed"),
        ("get", "site.test", "/"),
        ("OPTIONS", "site.test", "/"),
        ("TRACE", "site.test", "/"),
    ] {
        let mut direct = gateway.raw().await;
        direct
            .write(format!(
                "{method} {target} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n"
            ))
            .await;
        let direct = direct.read_response().await;
        let mut question = RawConnection::connect(asked).await;
        question
            .write(format!(
                "GET / HTTP/1.1\r\nHost: gateway\r\nX-Forwarded-For: 192.0.2.8\r\nX-Forwarded-Method: {method}\r\n\
                 X-Forwarded-Host: {host}\r\nX-Forwarded-Uri: {target}\r\n\r\n"
            ))
            .await;
        let question = question.read_response().await;
        assert_eq!(question.status, direct.status, "{method} {host} {target}");
    }
    let left = async |client| {
        let question = get("/")
            .header("X-Forwarded-Method", "GET")
            .header("X-Forwarded-Host", "a");
        let question = question
            .header("X-Forwarded-Uri", "/fixed")
            .forwarded_for(client);
        ask(asked, question).await.remaining("otp")
    };
    assert_eq!(left("192.0.2.8").await, left("192.0.2.9").await);
}

#[tokio::test]
async fn an_answer_is_framed_for_the_question() {
    // Goal: a question about HEAD gets a body with its rejection, and a HEAD that asks gets none, so that the next question on the
    // connection is answered. Method: both in turn on one connection, over both versions.
    for version in [Version::Http1, Version::Http2] {
        let (gateway, asked) = gateway_with(SITE).await;
        for _ in 0..2 {
            assert_eq!(ask(asked, about("HEAD", "/auth/sendOTP")).await.status, 204);
        }
        let mut client = Client::connect_by(version, None, asked).await;
        for _ in 0..2 {
            client
                .send(about("HEAD", "/auth/sendOTP"))
                .await
                .assert_problem(429);
            let silent = client.send(about("GET", "/auth/sendOTP").by("HEAD")).await;
            assert_eq!((silent.status, silent.body.len()), (429, 0));
            let other = about("POST", "/").header("X-Tenant", "a");
            client.send(other).await.assert_problem(404);
        }
        drop(gateway);
    }
}

#[tokio::test]
async fn the_next_question_on_a_connection_is_about_anybody() {
    // Goal: after a rejection a connection repeats nothing: the next question has another client. Method: questions about two clients in
    // turn, several sent at once.
    let (gateway, asked) = gateway_with(SITE).await;
    let question = |client: &str| {
        format!(
            "GET / HTTP/1.1\r\nHost: gateway\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Host: site.test\r\n\
             X-Forwarded-Uri: /fixed\r\nX-Forwarded-For: {client}\r\n\r\n"
        )
    };
    let mut connection = RawConnection::connect(asked).await;
    let mut statuses = Vec::new();
    for client in
        ["192.0.2.1"; 3]
            .iter()
            .chain(&["192.0.2.2", "192.0.2.1", "192.0.2.2", "192.0.2.2"])
    {
        connection.write(question(client)).await;
        statuses.push(connection.read_response().await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 200, 429, 200, 429]);
    connection
        .write(
            ["192.0.2.1", "192.0.2.3", "192.0.2.1"]
                .map(question)
                .concat(),
        )
        .await;
    for status in [429, 200, 429] {
        assert_eq!(connection.read_response().await.status, status);
    }
    drop(gateway);
}

#[tokio::test]
async fn no_rejection_looks_like_leave_to_forward() {
    // Goal: callers of gRPC, who get 200 elsewhere, are rejected; the one status for all has the own one beside it; so has a list that
    // blocks. Method: a limit that is used up, and a blocked client.
    let rules = format!(
        "{SITE}\n[list.bad]\ncidrs = [\"192.0.2.66\"]\n[[route]]\npath = \"/blocked\"\nblock = [\"bad\"]\nrespond = {{ status = 200 }}\n"
    );
    for (line, expected) in [
        ("", [429, 429, 403]),
        ("rejection_status = 403", [403, 403, 403]),
    ] {
        let (gateway, asked) = gateway_asked(line, &rules).await;
        for _ in 0..2 {
            let called = about("POST", "/auth/sendOTP").header("Content-Type", "application/grpc");
            assert_eq!(ask(asked, called).await.status, 204);
        }
        let plain = ask(asked, about("POST", "/auth/sendOTP")).await;
        let called = about("POST", "/auth/sendOTP").header("Content-Type", "application/grpc");
        let called = ask(asked, called).await;
        let blocked = about("GET", "/blocked").header("X-Forwarded-For", "192.0.2.66");
        let blocked = ask(asked, blocked).await;
        assert_eq!([plain.status, called.status, blocked.status], expected);
        if !line.is_empty() {
            let own = |answer: &Response| answer.header("x-sluicegate-status").map(str::to_owned);
            assert_eq!(own(&plain).as_deref(), Some("429"));
            assert_eq!(own(&called).as_deref(), Some("429"));
            assert_eq!(own(&blocked).as_deref(), Some("403"));
            assert!(plain.retry_after() > 0);
        }
        drop(gateway);
    }
}

#[tokio::test]
async fn a_charge_that_waits_for_a_response_is_kept() {
    // Goal: a limit that counts by the response, which nobody shows, still limits. Method: `count_if` and a cost of the response, before an
    // origin and before a fixed response.
    let lines = "rates = [\"2 per 1h\"]\ncount_if = \"response.status == 401\"";
    let rules = [
        limit("guesses", &["client.ip"], lines),
        route("/login", &["guesses"], "origin = \"site\""),
        route("/fixed", &["guesses"], "respond = { status = 204 }"),
        "[origin.site]\nservers = [\"127.0.0.1:1\"]\n".to_owned(),
    ];
    let (gateway, asked) = gateway_with(&rules.concat()).await;
    for client in ["192.0.2.1", "192.0.2.2"] {
        let uri = if client == "192.0.2.1" {
            "/login"
        } else {
            "/fixed"
        };
        let question = || {
            let question = get("/")
                .header("X-Forwarded-Method", "POST")
                .header("X-Forwarded-Host", "a");
            question
                .header("X-Forwarded-Uri", uri)
                .forwarded_for(client)
        };
        assert_eq!(ask(asked, question()).await.status, 204);
        assert_eq!(ask(asked, question()).await.status, 204);
        ask(asked, question()).await.assert_problem(429);
    }
    drop(gateway);
}

#[tokio::test]
async fn marks_and_bodies_reach_whoever_sends_them_on() {
    // Goal: the mark of a limit that is exceeded comes with the leave to forward, for the proxy to copy; a body that comes with the
    // question is that of the request. Method: a limit that marks, by a number in the body.
    let rules = r#"
[limit.sms]
key        = "body.json./phone"
rates      = ["1 per 1h"]
on_missing = "refuse"
action     = "mark"

[[route]]
path   = "/sms"
limits = ["sms"]
origin = "site"

[origin.site]
servers = ["127.0.0.1:1"]
"#;
    let (gateway, asked) = gateway_with(rules).await;
    let sms = |phone: &str| {
        let question = about("POST", "/sms")
            .by("POST")
            .header("Content-Type", "application/json");
        question.body(format!("{{\"phone\":\"{phone}\"}}"))
    };
    let first = ask(asked, sms("1")).await;
    let second = ask(asked, sms("1")).await;
    let other = ask(asked, sms("2")).await;
    let marked = |answer: &Response| answer.headers.contains_key("x-sluicegate-limit");
    assert_eq!([first.status, second.status, other.status], [204; 3]);
    assert_eq!(
        [marked(&first), marked(&second), marked(&other)],
        [false, true, false],
        "{second:?}"
    );
    // The same without an origin.
    let bare_rules = rules.replace("origin = \"site\"", "respond = { status = 204 }");
    let (_answering, answered) = gateway_with(&bare_rules).await;
    let answers = [ask(answered, sms("1")).await, ask(answered, sms("1")).await];
    assert_eq!(answers.each_ref().map(marked), [false, true]);
    let bare = about("POST", "/sms").header("Content-Type", "application/json");
    ask(asked, bare).await.assert_problem(400);
    drop(gateway);
}

#[tokio::test]
async fn a_preflight_that_is_asked_about_counts() {
    // Goal: the gateway answers preflights itself, uncounted; a proxy that asks about one forwards it, so it counts. Method: preflights for
    // a route with CORS rules, until none is left.
    let rules = r#"
[limit.few]
key   = "client.ip"
rates = ["2 per 1h"]

[[route]]
path    = "/api"
limits  = ["few"]
respond = { status = 200 }
cors    = { origins = ["https://app.test"] }
"#;
    let (gateway, asked) = gateway_with(rules).await;
    let preflight = || {
        let question = about("OPTIONS", "/api").header("Origin", "https://app.test");
        question.header("Access-Control-Request-Method", "GET")
    };
    for status in [200, 200, 429] {
        assert_eq!(ask(asked, preflight()).await.status, status);
    }
    drop(gateway);
}

#[tokio::test]
async fn a_file_without_origins_decides() {
    // Goal: a gateway that only decides needs no origin, and explains itself. Method: the file that ships, explained; a question about a
    // path that its last route takes.
    let (gateway, _) = super::gateway().await;
    let answer = ask(gateway.address(), about("DELETE", "/anything")).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let file = gateway.config_path();
    let mut explain = Process::run(&["explain", file.to_str().unwrap()]);
    assert_eq!(explain.exit_code().await, 0, "{}", explain.stderr());
    let text = explain.stdout();
    assert!(
        text.contains(&format!("listener {}", gateway.address())),
        "{text}"
    );
    assert!(
        text.contains("Proxies of 127.0.0.1/32 ask about requests"),
        "{text}"
    );
    assert!(text.contains("X-Sluicegate-Status"), "{text}");
}
