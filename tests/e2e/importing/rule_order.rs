//! Rules over sets of clients, paths and methods that overlap: what is imported decides as the proxy does, for each combination.

use std::net::SocketAddr;

use super::peer::{Peer, imported_with_code, started};
use crate::harness::*;

/// Clients within the blocks of the rules, and beside them.
const CLIENTS: [&str; 5] = [
    "127.0.0.1",
    "127.1.0.1",
    "127.1.2.1",
    "127.1.2.3",
    "127.2.0.1",
];

/// Paths with one, several and none of the texts of the rules.
const PATHS: [&str; 10] = [
    "/",
    "/a/x.php",
    "/a/b/x.php",
    "/b/x.php",
    "/a/y",
    "/ab",
    "/a/b/1",
    "/b/1",
    "/ax.php",
    "/a/b/c.asp",
];

const METHODS: [&str; 3] = ["GET", "HEAD", "POST"];

/// Sets of rules that are imported as a whole.
const RULES: [&str; 9] = [
    "http-request deny if !{ src 127.1.0.0/16 } || { src 127.1.2.0/24 }",
    "http-request allow if { src 127.1.2.3 }\n http-request deny if { src 127.1.2.0/24 }\n \
     http-request allow if { src 127.1.0.0/16 }\n http-request reject if { src 127.0.0.0/8 }",
    "http-request deny if { src 127.0.0.0/8 127.1.2.0/24 } { src 127.1.0.0/16 } !{ src 127.1.2.3 }",
    "tcp-request content accept if { src 127.1.2.0/24 }\n tcp-request content reject if { src 127.1.0.0/16 }\n \
     http-request deny if { path_end .php } { src 127.1.2.3 }",
    "http-request deny if { path_beg /a/ } { path_end .php }",
    "http-request deny if { path_beg /a } { path_sub b/ } METH_POST\n http-request allow if { path_beg /a/b/ }\n \
     http-request deny if { path_dir b } !{ src 127.1.0.0/16 }",
    "http-request allow if { path_beg /a/ } { path_reg b/[0-9]+$ }\n http-request deny if { path_beg /a/ } { method GET }",
    "http-request deny if { path_end .php } { src 127.1.0.0/16 }\n http-request deny if { path_beg /a/ } { src 127.1.2.0/24 } METH_GET\n \
     use_backend two if { path_sub b } !{ path_end .php }",
    "http-request deny if { path_reg ^/a/.*\\.php$ } !METH_POST\n http-request return status 404 if { path /a/x.php }",
];

fn haproxy(rules: &str) -> String {
    format!(
        "defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n\
         frontend f\n bind 127.0.0.1:8080\n {rules}\n default_backend one\n\
         backend one\n server s 127.0.0.1:8081\nbackend two\n server s 127.0.0.1:8081\n"
    )
}

/// Returns the status of each request, and 403 where the connection ends without one.
async fn grid(address: SocketAddr) -> Vec<(String, u16)> {
    let mut found = Vec::new();
    for from in CLIENTS {
        for path in PATHS {
            for method in METHODS {
                let mut client = Client::connect_from(from, address).await;
                let response = client.try_send(request(method, path)).await;
                let status = response.map_or(403, |it| it.status);
                found.push((format!("{method} {path} of {from}"), status));
            }
        }
    }
    found
}

#[tokio::test]
async fn rules_over_sets_that_overlap_decide_as_in_haproxy() {
    // Goal: the first rule that holds decides about every request, whatever routes the gateway prefers. Method: sets of rules with blocks
    // within each other, with conditions on a path that hold together and with methods; each client, path and method at both.
    let origin = Origin::echo();
    for rules in RULES {
        let text = haproxy(rules);
        let toml = imported_with_code(&text, &origin, 0).await;
        let haproxy = Peer::haproxy(&text, &origin).await;
        let gateway = started(&toml).await;
        let expected = grid(haproxy.address()).await;
        assert!(expected.iter().any(|(_, status)| *status != 200), "{rules}");
        assert_eq!(grid(gateway.address()).await, expected, "{rules}\n{toml}");
    }
}
