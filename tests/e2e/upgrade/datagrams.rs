//! HTTP/3, whose sockets are not handed over.

use serde_json::json;

use super::*;
use crate::http3::with_http3;

/// Goal: the new process serves HTTP/3 as soon as it has taken over, and clients of the old one learn to come again. Method: a connection
/// that is open at the upgrade, and several behind it; the old process is still there then.
#[tokio::test]
async fn clients_of_http3_come_again() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&rules(KEPT, "")).start().await;
    let address = gateway.address();
    let open = clients.perform(address, &["get", "/", "ended"]);
    let upgraded = async {
        gateway.access_lines(1).await;
        upgrade(&gateway).await
    };
    let (found, successor) = tokio::join!(open, upgraded);
    assert_eq!(found, [json!(200), json!(0x100)]);
    for _ in 0..5 {
        let found = clients.perform(address, &["get", "/", "get", "/"]).await;
        assert_eq!(found, [json!(200), json!(200)]);
    }
    drop(successor);
}
