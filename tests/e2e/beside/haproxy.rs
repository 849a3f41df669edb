//! The Lua action of a real HAProxy, by the files that ship.

use super::*;

#[tokio::test]
async fn haproxy_asks_before_it_forwards() {
    // Goal: the recipe limits clients of HAProxy, who get the gateway's own rejection. Method: as with nginx, through the real HAProxy.
    let site = Origin::echo();
    let (gateway, _) = gateway().await;
    let address = free_address();
    let config = example(
        "haproxy.cfg",
        &[
            ("/etc/haproxy/", "{home}/"),
            ("bind :80", &format!("bind {address}")),
            ("127.0.0.1:3000", &site.address().to_string()),
        ],
    );
    let asks = gateway.address().to_string();
    let action = example("sluicegate.lua", &[("127.0.0.1:9000", &asks)]);
    let files = [("haproxy.cfg", config), ("sluicegate.lua", action)];
    let arguments = ["-db", "-f", "haproxy.cfg"];
    let haproxy = AskingProxy::start("haproxy", &arguments, &files, address).await;
    let refused = assert_limits(&haproxy, &site).await;
    refused.assert_problem(429);
    assert_eq!(refused.violated(), ["otp"]);
    assert_logged(&gateway, "127.0.0.31").await;
    assert_eq!(answer_without(gateway, &haproxy, &site).await, 503);
}
