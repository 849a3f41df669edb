//! Traces that go through the gateway.

use crate::harness::*;

const RULES: &str = r#"
[client]
trusted_proxies = ["127.0.0.1"]

[tracing]
propagate = true
sample_ratio = "0%"

[[route]]
path = "/*"
origin = "app"
"#;

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn traced(flags: &str) -> Request {
    get("/x")
        .header("traceparent", &format!("00-{ID}-{SPAN}-{flags}"))
        .header("tracestate", "vendor=1")
}

#[tokio::test]
async fn a_trace_goes_on_under_a_span_of_the_gateway_and_is_in_the_log() {
    // Goal: one trace from client to origin and in the log; only trusted senders decide what is recorded. Method: the echo, a trusted
    // sender and a stranger.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    let mut stranger = gateway.client_from("127.0.0.9").await;
    for (answer, flags) in [
        (gateway.send(traced("01")).await, "01"),
        (gateway.send(traced("00")).await, "00"),
        (stranger.send(traced("01")).await, "00"),
    ] {
        let echo = answer.echo();
        let [parent] = *echo.all("traceparent") else {
            panic!("{:?}", echo.headers);
        };
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", ID, flags));
        assert_ne!(parts[2], SPAN);
        assert_eq!(echo.all("tracestate"), ["vendor=1"]);
        let lines = gateway.lines_of(std::slice::from_ref(&answer)).await;
        assert_eq!(lines[0]["trace_id"], ID);
        assert_eq!(lines[0]["span_id"], parts[2]);
    }
}

#[tokio::test]
async fn a_request_without_a_right_trace_begins_one_with_its_own_id() {
    // Goal: one search finds request and trace; nonsense and its state go no further. Method: none, and a malformed one.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    let broken = get("/x")
        .header("traceparent", "00-xyz")
        .header("tracestate", "a=1");
    for request in [get("/x"), broken] {
        let answer = gateway.send(request).await;
        let echo = answer.echo();
        let id = answer.header("x-request-id").unwrap();
        let parent = echo.header("traceparent").unwrap();
        assert!(parent.starts_with(&format!("00-{id}-")), "{parent}");
        assert_eq!(echo.header("tracestate"), None);
    }
}

#[tokio::test]
async fn traces_pass_as_they_are_where_nothing_is_said() {
    // Goal: nothing changes by default. Method: the echo without [tracing].
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let echo = gateway.send(traced("01")).await.echo();
    let parent = format!("00-{ID}-{SPAN}-01");
    assert_eq!(echo.header("traceparent"), Some(&*parent));
    assert!(gateway.access_line().await.get("trace_id").is_none());
}
