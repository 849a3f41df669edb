//! Server blocks of nginx at several addresses: a host leads to the block of the address that a client connects to.

use super::peer::{Peer, gateway};
use super::*;

/// The second address of configurations, before it is filled in.
const SECOND: &str = "127.0.0.1:8090";

#[tokio::test]
async fn a_block_has_the_hosts_of_its_own_addresses() {
    // Goal: no host leads to a block at an address that the block does not listen on. Method: hosts of one address, of both and of another
    // block at each, and a wildcard of another block; each block answers with a status of its own, at nginx and at the gateway.
    let block = |lines: &str, status: u16| {
        format!("server {{ {lines} location / {{ return {status}; }} }}\n")
    };
    let blocks = [
        block(
            "listen 127.0.0.1:8080; server_name www.test a.wide.test;",
            201,
        ),
        block("listen 127.0.0.1:8090; server_name admin.test;", 202),
        block("listen 127.0.0.1:8090; server_name www.test;", 203),
        block("listen 127.0.0.1:8080; server_name *.wide.test;", 204),
        block(
            "listen 127.0.0.1:8080; listen 127.0.0.1:8090; server_name both.test;",
            205,
        ),
    ];
    let text = format!("events {{ }}\nhttp {{\n{}}}\n", blocks.concat());
    let steps: [Step; 6] = [
        (A, || get("/").header("host", "www.test")),
        (A, || get("/").header("host", "admin.test")),
        (A, || get("/").header("host", "both.test")),
        (A, || get("/").header("host", "a.wide.test")),
        (A, || get("/").header("host", "b.wide.test")),
        (A, || get("/").header("host", "other.test")),
    ];
    let at_first = [201, 201, 205, 201, 204, 201];
    let at_second = [203, 202, 205, 202, 202, 202];
    let origin = Origin::echo();

    let of_nginx = free_address();
    let nginx = Peer::nginx(&text.replace(SECOND, &of_nginx.to_string()), &origin).await;
    assert_eq!(statuses(nginx.address(), &steps).await, at_first, "nginx");
    assert_eq!(statuses(of_nginx, &steps).await, at_second, "nginx");

    let second = free_address();
    let gateway = gateway(&text.replace(SECOND, &second.to_string()), &origin).await;
    assert_eq!(
        statuses(gateway.address(), &steps).await,
        at_first,
        "the gateway"
    );
    assert_eq!(statuses(second, &steps).await, at_second, "the gateway");
}
