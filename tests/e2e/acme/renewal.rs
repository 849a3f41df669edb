//! Certificates are renewed ahead of their end, and nobody notices.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{AcmeRules, Secured, serial};
use crate::harness::{AcmeServer, Fault, eventually};

/// Goal: renewals come ahead, one after the other, and no connection is dropped for them. Method: certificates of twelve seconds; a
/// connection that stays open over two renewals and asks between; every new handshake meanwhile is shown a certificate that holds.
#[tokio::test]
async fn short_lived_certificates_are_renewed_without_a_dropped_connection() {
    let server = AcmeServer::start();
    server.lifetime(Duration::from_secs(12));
    let rules = AcmeRules {
        names: &["example.com"],
        acme: "",
    };
    let secured = Secured::start(server, rules).await;
    secured.names_lead_to_tls();
    let first = secured.serves("example.com").await;
    let mut kept = secured.handshake("example.com").await.unwrap();
    for issued in 2..=3 {
        eventually("another certificate is issued", async || {
            let shown = secured.handshake("example.com").await;
            shown.expect("a certificate that holds is shown at every moment");
            (secured.server().issued() >= issued).then_some(())
        })
        .await;
        kept.write_all(b"GET / HTTP/1.1\r\nhost: example.com\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"served") {
            let read = kept.read_buf(&mut answer).await.unwrap();
            assert!(read > 0, "the connection was dropped");
        }
    }
    eventually("the last one is shown", async || {
        let shown = secured.handshake("example.com").await.unwrap();
        (serial(&shown) != first).then_some(())
    })
    .await;
    assert_eq!(secured.server().orders(), secured.server().issued());
    assert_eq!(secured.server().accounts().len(), 1);
}

/// Goal: `renew_before` holds. Method: certificates of an hour, to be renewed 40 minutes before their end, which is clamped to half an
/// hour; `/status` tells when.
#[tokio::test]
async fn renew_before_sets_the_time() {
    let server = AcmeServer::start();
    server.lifetime(Duration::from_secs(3_600));
    let rules = AcmeRules {
        names: &["example.com"],
        acme: "renew_before = \"40m\"",
    };
    let secured = Secured::start(server, rules).await;
    secured.names_lead_to_tls();
    secured.serves("example.com").await;
    let ahead = secured.ahead("example.com").await;
    assert!((1_799.0..=1_801.0).contains(&ahead), "{ahead} s");
}

/// Goal: a renewal that fails takes nothing from anybody. Method: certificates of twelve seconds, and a server that refuses the second
/// order; the log says until when the old one is good, and it is shown.
#[tokio::test]
async fn a_renewal_that_fails_leaves_the_old_certificate() {
    let server = AcmeServer::start();
    server.lifetime(Duration::from_secs(12));
    let rules = AcmeRules {
        names: &["example.com"],
        acme: "",
    };
    let secured = Secured::start(server, rules).await;
    secured.names_lead_to_tls();
    let old = secured.serves("example.com").await;
    secured.server().fault(Fault::Rejected);
    let why = secured.failed("example.com", 1).await;
    assert!(
        why.contains("the server will not issue for such a name"),
        "{why}"
    );
    let shown = secured.handshake("example.com").await.unwrap();
    assert_eq!(serial(&shown), old);
    assert!(
        secured
            .gateway
            .stderr()
            .contains("the current certificate is valid until ")
    );
}
