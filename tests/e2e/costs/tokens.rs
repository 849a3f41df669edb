//! Costs that the origin reports in the body of its answer, before a server of a language model.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

/// A budget of so many tokens a day, of which each request reserves what it announces.
fn budget(tokens: u32) -> String {
    limited(&format!(
        "rates = [\"{tokens} per day\"]\nalgorithm = \"fixed-window\"\ntimezone = \"UTC\"\nquota_unit = \"tokens\"\n\
         cost = \"response.json./usage/total_tokens\"\nreserve = \"body.json./max_tokens\"\n"
    ))
}

fn ask(question: &Value) -> Request {
    post("/v1/chat/completions")
        .header("Content-Type", "application/json")
        .header("Accept-Encoding", "gzip, br")
        .body(question.to_string())
}

/// A gateway before a language model.
async fn before_model(by: Version, rules: String) -> (Gateway, FrameworkServer) {
    let model = Framework::LanguageModel.start().await;
    let setup = Setup::new().servers("app", &[model.address()]);
    let setup = setup.rules(&rules).spoken_to_by(by);
    (setup.start().await, model)
}

async fn tokens_are_settled_as_the_model_reports_them(by: Version) {
    // Goal: the tokens of an answer count, as JSON and as a stream, whose last event with them counts; nothing is delayed or changed, and
    // what a model writes forges nothing. Method: questions of which the model answers less than was announced, and what is left for the
    // next.
    let (gateway, _model) = before_model(by, budget(1_000)).await;
    let stream = |words| json!({"max_tokens": 100, "words": words, "stream": true, "stream_options": {"include_usage": true}});
    let mut left = 1_000;
    for (asked, (question, tokens)) in [
        (json!({"max_tokens": 100, "words": 7}), 7),
        (stream(9), 9),
        (json!({"max_tokens": 100, "words": 100}), 100),
        (stream(100), 100),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = gateway.send(ask(&question)).await;
        assert_eq!((answer.status, answer.remaining("a")), (200, left - 100));
        assert_eq!(
            answer.header("content-encoding"),
            None,
            "it is read as it passes"
        );
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some("\"a\";q=1000;qu=\"tokens\";w=86400")
        );
        match question["stream"].as_bool() {
            Some(true) => assert!(answer.text().ends_with("data: [DONE]\n\n")),
            _ => assert_eq!(answer.json()["usage"]["total_tokens"], tokens),
        }
        let lines = gateway.access_lines(asked + 1).await;
        assert_eq!(lines[asked]["cost"]["a"], tokens, "{}", lines[asked]);
        left -= tokens;
    }
}

#[tokio::test]
async fn tokens_are_settled_as_the_model_reports_them_over_http_1() {
    tokens_are_settled_as_the_model_reports_them(Version::Http1).await;
}

#[tokio::test]
async fn tokens_are_settled_as_the_model_reports_them_over_http_2() {
    tokens_are_settled_as_the_model_reports_them(Version::Http2).await;
}

#[tokio::test]
async fn tokens_are_settled_as_the_model_reports_them_over_http_3() {
    tokens_are_settled_as_the_model_reports_them(Version::Http3).await;
}

#[tokio::test]
async fn a_thousand_parallel_questions_never_exceed_a_budget() {
    // Goal: a budget of 10,000 tokens holds at every moment and is settled to the token. Method: 1,000 connections ask at once for up to
    // 100 tokens, while the model takes its time and writes 37: exactly as many pass as the budget has reserves for. Then one connection
    // asks on until the budget refuses, and the sum of what the model wrote is within one reserve of the budget.
    let (gateway, _model) = before_model(Version::Http1, budget(10_000)).await;
    let question = json!({"max_tokens": 100, "words": 37, "pause": 3_000});
    let mut clients = Vec::new();
    for _ in 0..1_000 {
        clients.push(gateway.client().await);
    }
    let answers = clients.iter_mut().map(|client| client.send(ask(&question)));
    let answers = futures_util::future::join_all(answers).await;
    let count = |status| {
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    assert_eq!((count(200), count(429)), (100, 900));
    let spent = || async {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_limit_response_cost_total", &[("limit", "a")])
    };
    assert_eq!(spent().await, 3_700.0);

    let question = json!({"max_tokens": 100, "words": 37, "stream": true, "stream_options": {"include_usage": true}});
    let mut client = gateway.client().await;
    let mut left = 6_300;
    while left >= 100 {
        let answer = client.send(ask(&question)).await;
        assert_eq!((answer.status, answer.remaining("a")), (200, left - 100));
        left -= 37;
    }
    let refused = client.send(ask(&question)).await;
    assert_eq!((refused.status, refused.remaining("a")), (429, left));
    assert_eq!(spent().await, 10_000.0 - left as f64);
    let small = json!({"max_tokens": left, "words": left});
    assert_eq!(
        client.send(ask(&small)).await.status,
        200,
        "the rest is there for who asks for no more"
    );
    assert_eq!(
        client.send(ask(&json!({"max_tokens": 1}))).await.status,
        429
    );
    assert_eq!(spent().await, 10_000.0);
}

#[tokio::test]
async fn who_announces_nothing_reserves_the_most() {
    // Goal: no way to write a question reserves less than the model may spend. Method: questions without the number, with two, with one in
    // another spelling, in a body that declares another type; each reserves `max_cost`.
    let rules = budget(1_000).replace("reserve =", "max_cost = 400\nreserve =");
    let (gateway, _model) = before_model(Version::Http1, rules).await;
    let mut client = gateway.client().await;
    let mut left = 1_000;
    for (kind, body) in [
        ("application/json", "{\"words\": 1}"),
        (
            "application/json",
            "{\"words\": 1, \"max_tokens\": 1, \"max_tokens\": 900}",
        ),
        ("application/json", "{\"words\": 1, \"Max_Tokens\": 1}"),
        (
            "application/json",
            "{\"words\": 1, \"max_tokens\": \"many\"}",
        ),
        ("application/json", "{\"words\": 1, \"max_tokens\": -1}"),
        ("text/plain", "{\"words\": 1, \"max_tokens\": 2}"),
        ("application/json", "{\"words\": 1, \"max_tokens\": 900}"),
    ] {
        let question = post("/").header("Content-Type", kind).body(body);
        let answer = client.send(question).await;
        assert_eq!(
            (answer.status, answer.remaining("a")),
            (200, left - 400),
            "{body}"
        );
        assert_eq!(answer.json()["usage"]["total_tokens"], 1, "{body}");
        left -= 1;
    }
}

#[tokio::test]
async fn an_answer_without_the_cost_keeps_the_reserve() {
    // Goal: what an origin may have spent is charged; what it was never asked is not. Method: a stream without usage, an answer of another
    // type, a client that leaves after the question or in the middle of a stream, and an origin that nobody serves.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/text" => Answer::new(200)
            .body("{\"usage\":{\"total_tokens\":1}}")
            .into(),
        "/events" => Answer::new(200)
            .header("Content-Type", "text/event-stream")
            .body("data: {\"usage\":null}\n\ndata: [DONE]\n\n")
            .into(),
        "/odd" => Answer::new(200)
            .json(&json!({"usage": {"total_tokens": "12"}}))
            .into(),
        "/error" => Answer::new(400).json(&json!({"error": "no"})).into(),
        "/cut" => {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\n";
            let event = "data: {\"usage\":{\"total_tokens\":1}}\n\n";
            Reply::Pieces(vec![format!("{head}{event}").into_bytes()], Duration::ZERO)
        }
        _ => Reply::Hang,
    });
    let gone = Origin::echo().stop();
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"1000 per 1h\"]\ncost = \"response.json./usage/total_tokens\"\n\
        reserve = 10\ncount_if = \"response.status in 200..=299\"\n\
        [[route]]\npath = \"/gone\"\nlimits = [\"a\"]\norigin = \"gone\"\n\
        [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let setup = Setup::new().origin("app", &origin).servers("gone", &[gone]);
    let gateway = setup.rules(rules).start().await;
    let mut left = 1_000;
    let mut client = gateway.client().await;
    for (path, status, charged) in [
        ("/text", 200, 10),
        ("/events", 200, 10),
        ("/odd", 200, 10),
        ("/error", 400, 0),
        ("/gone", 502, 0),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        if status != 502 {
            assert_eq!(answer.remaining("a"), left - 10, "{path}");
        }
        left -= charged;
    }
    let mut raw = gateway.raw().await;
    raw.write("GET /hang HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    origin.is_asked(5).await;
    drop(raw);
    gateway.access_lines(6).await;
    let mut raw = gateway.raw().await;
    raw.write("GET /cut HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    raw.read_response_to_head().await;
    drop(raw);
    let lines = gateway.access_lines(7).await;
    let missing = lines.iter().filter(|line| line["cost_missing"][0] == "a");
    assert_eq!(missing.count(), 4, "{lines:?}");
    left -= 20;
    assert_eq!(client.get("/events").await.remaining("a"), left - 10);
    let metrics = gateway.metrics().await;
    let malformed = metrics.sum("sluicegate_limit_cost_malformed_total", &[("limit", "a")]);
    assert_eq!(malformed, 1.0);
}

/// A stream of Anthropic's interface with these texts in place of the usage of its first and its last event.
fn anthropic_stream(first: &str, last: &str) -> String {
    format!(
        r#"event: message_start
data: {{"type":"message_start","message":{{"id":"msg_01","type":"message","role":"assistant","content":[],
data: "model":"claude-opus-4-6","stop_reason":null,"stop_sequence":null,"usage":{first}}}}}

event: content_block_start
data: {{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":""}}}}

event: ping
data: {{"type": "ping"}}

event: content_block_delta
data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{{\"usage\":{{\"output_tokens\":0}}}}"}}}}

event: content_block_stop
data: {{"type":"content_block_stop","index":0}}

{last}"#
    )
}

fn message_delta(usage: &str) -> String {
    format!(
        "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\",\"stop_sequence\":null}},\
         \"usage\":{usage}}}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    )
}

#[tokio::test]
async fn tokens_in_several_places_add_up() {
    // Goal: providers without a total are charged the sum, whole or streamed, and one whose stream ends in an error keeps the reserve.
    // Method: answers in the shapes of Anthropic's messages and of OpenAI's two interfaces, each with its own cost in the log.
    let started = r#"{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":1}"#;
    let searched = r#"{"input_tokens":310,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":51,
data: "server_tool_use":{"web_search_requests":1}}"#;
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let json = "application/json";
    let stream = "text/event-stream; charset=utf-8";
    let cases = [
        (
            "/v1/messages?whole",
            json,
            r#"{"id":"msg_01","type":"message","role":"assistant","content":[{"type":"text","text":"Hi!"}],
            "model":"claude-opus-4-6","stop_reason":"end_turn","stop_sequence":null,
            "usage":{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":6}}"#
                .to_owned(),
            Some(21),
        ),
        (
            "/v1/messages?before-caches",
            json,
            r#"{"type":"message","usage":{"input_tokens":12,"output_tokens":6}}"#.to_owned(),
            Some(18),
        ),
        (
            "/v1/messages?stream",
            stream,
            anthropic_stream(started, &message_delta(r#"{"output_tokens":15}"#)),
            Some(44),
        ),
        (
            "/v1/messages?tools",
            stream,
            // A tool of the server's adds to the input; the last event has the sums.
            anthropic_stream(started, &message_delta(searched)),
            Some(361),
        ),
        (
            "/v1/messages?broken",
            stream,
            anthropic_stream(started, error),
            None,
        ),
        (
            "/v1/chat/completions",
            json,
            r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi!"}}],
            "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}}"#
                .to_owned(),
            Some(29),
        ),
        (
            "/v1/responses",
            stream,
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"usage\":null}}\n\n\
             event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi!\"}\n\n\
             event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\
             \"usage\":{\"input_tokens\":36,\"output_tokens\":87,\"total_tokens\":123}}}\n\n"
                .to_owned(),
            Some(123),
        ),
    ];
    let answers = cases.clone();
    let origin = Origin::answering(move |received| {
        let mut cases = answers.iter();
        let (_, kind, body, _) = cases.find(|case| case.0 == received.target).unwrap();
        let answer = Answer::new(200).header("Content-Type", kind);
        answer.body(body.clone()).into()
    });
    let rules = r#"
[limit.messages]
key = "client.ip"
rates = ["10000 per 1h"]
cost = [
    ["response.json./usage/input_tokens", "response.json./message/usage/input_tokens"],
    ["response.json./usage/cache_read_input_tokens", "response.json./message/usage/cache_read_input_tokens", 0],
    "response.json./usage/output_tokens",
]
reserve = 500
[limit.tokens]
key = "client.ip"
rates = ["10000 per 1h"]
cost = [["response.json./usage/total_tokens", "response.json./response/usage/total_tokens"]]
reserve = 500
[[route]]
path = "/v1/messages"
limits = ["messages"]
origin = "app"
[[route]]
path = "/*"
limits = ["tokens"]
origin = "app"
"#;
    let gateway = Gateway::before(&origin, rules).await;
    let mut client = gateway.client().await;
    for (asked, (path, _, body, cost)) in cases.iter().enumerate() {
        let answer = client.send(post(path)).await;
        assert_eq!((answer.status, answer.text()), (200, body.as_str()));
        let lines = gateway.access_lines(asked + 1).await;
        let line = &lines[asked];
        let limit = if path.starts_with("/v1/messages") {
            "messages"
        } else {
            "tokens"
        };
        match cost {
            Some(cost) => assert_eq!(line["cost"][limit], *cost, "{line}"),
            None => assert_eq!(line["cost_missing"][0], limit, "{line}"),
        }
    }
    // What was charged: the sums, and the reserve of the stream that broke off.
    let left = client.send(post("/v1/messages?whole")).await;
    assert_eq!(
        left.remaining("messages"),
        10_000 - (21 + 18 + 44 + 361 + 500) - 500
    );
}

#[tokio::test]
async fn units_in_reserve_are_shown_while_they_are_held() {
    // Goal: an operator tells what is spent from what requests in flight hold. Method: two requests that the origin never answers; metric,
    // status and page while they are in flight, also after an edit of the limit, and once their clients have left.
    let origin = Origin::answering(|_| Reply::Hang);
    let lines =
        "rates = [\"5000 per 1h\"]\ncost = \"response.json./usage/total_tokens\"\nreserve = 700";
    let mut gateway = Gateway::before(&origin, &limited(lines)).await;
    // At once: the harness waits for requests in flight to end before it reads metrics.
    let reserved = async |gateway: &Gateway| {
        let scrape = gateway.admin(get("/metrics")).await;
        Metrics::parse(scrape.text()).sum("sluicegate_limit_reserved_units", &[("limit", "a")])
    };
    assert_eq!(reserved(&gateway).await, 0.0);
    let mut waiting = [gateway.raw().await, gateway.raw().await];
    for client in &mut waiting {
        client.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    }
    origin.is_asked(2).await;
    assert_eq!(reserved(&gateway).await, 1_400.0);
    assert_eq!(gateway.status().await["limits"][0]["reserved_units"], 1_400);
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limit/a")).await;
    page.shows("1,400 units of requests in flight").await;
    gateway.write_rules(&limited(&lines.replace("5000", "6000")), Writing::Rename);
    page.shows("6000 per 1h").await;
    page.shows("1,400 units of requests in flight").await;
    drop(waiting);
    eventually("the reserves have ended", async || {
        (reserved(&gateway).await == 0.0).then_some(())
    })
    .await;
    page.shows("\n0 units of requests in flight").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}
