//! Connections without a request, and those that only seem to have none.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use super::*;

/// Goal: requests that are answered at once keep a connection open. Method: `keepalive_timeout` is a second, and a client asks thrice a
/// second for three seconds, over one connection.
#[tokio::test]
async fn answers_at_once_are_requests() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let rules = "[server]\nkeepalive_timeout = \"1s\"\n".to_owned() + &route("/*", &[], ANSWERED);
    let gateway = setup.rules(&rules).start().await;
    let steps = ["paced", "/", "10", "300", "is_open"];
    let found = clients.perform(gateway.address(), &steps).await;
    let ten = vec![200; 10];
    assert_eq!(found, [json!(ten), json!(true)]);
}

/// Goal: an answer that the client has not acknowledged is a part of its request, and a connection that idles ends with GOAWAY. Method:
/// `keepalive_timeout` is a second, and a client reads nothing for longer than two; it then gets the answer, and later GOAWAY.
#[tokio::test]
async fn an_answer_under_way_is_a_request() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let rules = "[server]\nkeepalive_timeout = \"1s\"\n".to_owned() + &route("/*", &[], ANSWERED);
    let gateway = setup.rules(&rules).start().await;
    let steps = ["get", "/", "deaf", "/", "2500", "goaway"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!(200), json!(200), json!(true)]);
}

/// Goal: a drain waits until clients have their answers. Method: SIGTERM while a client reads nothing, whose request was answered; it gets
/// the answer, and then the process ends.
#[tokio::test]
async fn a_drain_waits_for_answers_under_way() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let rules = route("/*", &[], ANSWERED);
    let mut gateway = setup.rules(&rules).start().await;
    let address = gateway.address();
    let steps = ["get", "/", "deaf", "/", "3000"];
    let asked = clients.perform(address, &steps);
    let drained = async {
        gateway.access_lines(2).await;
        gateway.signal(Signal::SIGTERM);
    };
    let (found, ()) = tokio::join!(asked, drained);
    assert_eq!(found, [json!(200), json!(200)]);
    assert_eq!(gateway.exit_code().await, 0);
}

/// Goal: a request that is served keeps its connection, however long its origin takes. Method: an answer that comes after twice the idle
/// time of QUIC, to a client that sends nothing meanwhile.
#[tokio::test]
async fn a_request_that_is_served_keeps_its_connection() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin = Origin::answering(|_| {
        let later = Reply::from(Answer::new(200));
        Reply::After(Duration::from_secs(3), Box::new(later))
    });
    let times = "[server]\nkeepalive_timeout = \"1s\"\nclient_write_timeout = \"1s\"\n";
    let gateway = setup
        .origin("app", &origin)
        .rules(&format!(
            "{times}[[route]]\npath = \"/*\"\norigin = \"app\"\n"
        ))
        .start()
        .await;
    let found = clients.perform(gateway.address(), &["get", "/"]).await;
    assert_eq!(found, [json!(200)]);
}
