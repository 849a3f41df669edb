//! From an empty directory to a certificate, and no further order while it is good.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{AcmeRules, Secured};
use crate::harness::{AcmeServer, eventually, head};

/// Goal: HTTP-01 from nothing. Method: an empty directory, two names that lead to the listener in clear text; a handshake of each, with a
/// client that believes the authority alone, and a request over it.
#[tokio::test]
async fn two_names_are_proved_by_http_and_served_with_one_certificate() {
    let rules = AcmeRules {
        names: &["www.example.com", "example.com"],
        acme: "challenge = \"http-01\"\ncontact = [\"mailto:ops@example.com\"]",
    };
    let secured = Secured::start(AcmeServer::start(), rules).await;
    assert!(
        secured.handshake("example.com").await.is_err(),
        "nothing is shown before"
    );
    secured.names_lead_to_clear_text();
    let serial = secured.serves("example.com").await;
    assert_eq!(secured.serves("www.example.com").await, serial);
    assert_eq!(
        (secured.server().orders(), secured.server().issued()),
        (1, 1)
    );
    assert_eq!(secured.server().accounts(), [["mailto:ops@example.com"]]);

    let mut stream = secured.handshake("example.com").await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.ends_with("served"), "{answer}");

    let metrics = secured.gateway.metrics().await;
    let orders = |result| metrics.sum("sluicegate_acme_orders_total", &[("result", result)]);
    assert_eq!(
        ["issued", "refused", "rate_limited", "failed"].map(orders),
        [1.0, 0.0, 0.0, 0.0]
    );
    // A third of 90 days, and up to a twentieth more.
    let ahead = secured.ahead("example.com").await / 86_400.0;
    assert!((30.0..=34.6).contains(&ahead), "{ahead} days");
}

/// Goal: TLS-ALPN-01 from nothing. Method: as above, with names that lead to the listener with TLS, where nothing else could answer.
#[tokio::test]
async fn two_names_are_proved_by_tls() {
    let rules = AcmeRules {
        names: &["example.com", "www.example.com"],
        acme: "",
    };
    let secured = Secured::start(AcmeServer::start(), rules).await;
    secured.names_lead_to_tls();
    let serial = secured.serves("www.example.com").await;
    assert_eq!(secured.serves("example.com").await, serial);
    assert_eq!(secured.server().orders(), 1);
}

/// Goal: what was ordered once is not ordered again, and what is kept is kept from others. Method: kill the gateway, start it in the same
/// directory; the same certificate is there before anything was asked of the server. Then look at the files.
#[tokio::test]
async fn a_restart_orders_nothing() {
    let rules = AcmeRules {
        names: &["example.com"],
        acme: "",
    };
    let mut secured = Secured::start(AcmeServer::start(), rules).await;
    secured.names_lead_to_tls();
    let before = secured.serves("example.com").await;
    let asked = secured.server().requests();
    secured.restart().await;
    let shown = secured.handshake("example.com").await.unwrap();
    assert_eq!(super::serial(&shown), before);
    assert_eq!(secured.status("example.com").await["failures"], 0);
    assert_eq!(secured.server().requests(), asked);

    let kept = secured.gateway.directory().join("state/acme");
    let server = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept), mode(&server)), (0o700, 0o700));
    let mut files: Vec<_> = fs::read_dir(&server)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let names: Vec<_> = files
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["account.json", "example.com.pem"]);
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
}

/// Goal: names come and go with the configuration. Method: another name by reload is ordered with the first, which stays in use
/// meanwhile; a
/// reload without it orders nothing, and the file of it stays.
#[tokio::test]
async fn names_follow_the_configuration() {
    let one = || AcmeRules {
        names: &["example.com"],
        acme: "",
    };
    let mut secured = Secured::start(AcmeServer::start(), one()).await;
    secured.names_lead_to_tls();
    let first = secured.serves("example.com").await;
    let two = AcmeRules {
        names: &["example.com", "api.example.com"],
        acme: "",
    };
    secured.reload(two).await;
    assert!(
        secured.handshake("example.com").await.is_ok(),
        "the old one goes on"
    );
    let both = secured.serves("api.example.com").await;
    assert_ne!(both, first);
    assert_eq!(secured.server().orders(), 2);
    secured.reload(one()).await;
    eventually("nobody is shown it any more", async || {
        secured
            .handshake("api.example.com")
            .await
            .is_err()
            .then_some(())
    })
    .await;
    assert!(secured.handshake("example.com").await.is_ok());
    assert_eq!(secured.server().orders(), 2);
}

/// Goal: external account binding works. Method: a server that asks for an external account,
/// with its key in a file.
#[tokio::test]
async fn an_external_account_is_bound() {
    let key = b"0123456789abcdef0123456789abcdef";
    let rules = AcmeRules {
        names: &["example.com"],
        acme: "eab = { kid = \"customer-7\", hmac_file = \"../eab\" }",
    };
    let server = AcmeServer::for_customers("customer-7", key);
    let secured = Secured::start_with_file(
        server,
        rules,
        ("eab", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"),
    )
    .await;
    secured.names_lead_to_tls();
    secured.serves("example.com").await;
    assert_eq!(secured.server().accounts().len(), 1);
}

/// Goal: only pending challenges are answered before routes. Method: paths below `/.well-known/acme-challenge/` that nobody asked the
/// gateway
/// to prove go to their route, whatever the method.
#[tokio::test]
async fn a_proof_that_is_not_pending_is_a_request_like_any_other() {
    let rules = AcmeRules {
        names: &["example.com"],
        acme: "challenge = \"http-01\"",
    };
    let secured = Secured::start(AcmeServer::start(), rules).await;
    secured.names_lead_to_clear_text();
    secured.serves("example.com").await;
    for path in ["token-0", "token-1", "", "../token-0"] {
        let target = format!("/.well-known/acme-challenge/{path}");
        let answer = secured.gateway.get(&target).await;
        assert_eq!(answer.text(), "served", "{target}");
    }
    let target = "/.well-known/acme-challenge/token-0";
    assert_eq!(secured.gateway.send(head(target)).await.status, 200);
}
