//! Connections without a request, and those that only seem to have none.

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
