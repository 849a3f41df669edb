//! Certificates change while the gateway runs.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Puts a pair in place of the first, as tools that renew certificates do.
fn replace(gateway: &Gateway, pair: &Pair) {
    for (name, text) in [("0.key", &pair.key), ("0.pem", &pair.certificate)] {
        let beside = gateway.directory().join("new");
        fs::write(&beside, text).unwrap();
        fs::rename(&beside, gateway.directory().join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_at_once_and_no_request_fails() {
    // Goal: a renewal drops no connection. Method: clients send all the time, on kept connections and on new ones, while the pair is
    // replaced five times, key before certificate; the last must be shown, and what was kept must still be open.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let gateway = Arc::new(with(&[&pair], "").rules(HELLO).start().await);
    let clients = TlsClients::of(&authority);
    let mut kept = clients.connect(gateway.address(), "a.test").await;
    assert_eq!(kept.get("/").await.text(), "hello");
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|at| {
            let (stop, gateway, clients) =
                (Arc::clone(&stop), Arc::clone(&gateway), clients.clone());
            tokio::spawn(async move {
                let mut asked = 0_u32;
                let mut client = clients.connect(gateway.address(), "a.test").await;
                while !stop.load(Ordering::Relaxed) {
                    if at % 2 == 0 {
                        client = clients.connect(gateway.address(), "a.test").await;
                    }
                    assert_eq!(client.get("/").await.text(), "hello");
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    let strangers = TlsClients::of(&authority);
    for _ in 0..5 {
        let next = authority.server(&["a.test"]);
        replace(&gateway, &next);
        eventually("the new certificate is shown", async || {
            let client = strangers.connect(gateway.address(), "a.test").await;
            (client.certificate == next.der()).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for asking in load {
        assert!(asking.await.unwrap() > 0);
    }
    assert_eq!(kept.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_malformed_certificate_leaves_the_old_one_and_is_reported() {
    // Goal: a renewal that went wrong takes nothing down and does not hide. Method: a key of another certificate, then text; the old pair
    // is shown, and log, metric and status say why; then a sound pair.
    let authority = Authority::new();
    let [pair, next] = [authority.server(&["a.test"]), authority.server(&["a.test"])];
    let gateway = with(&[&pair], "").rules(HELLO).start().await;
    let clients = TlsClients::of(&authority);
    for (file, text, told) in [
        (
            "0.key",
            next.key.as_str(),
            "this key belongs to another certificate",
        ),
        ("0.pem", "no certificate", "this file holds no certificate"),
    ] {
        fs::write(gateway.directory().join(file), text).unwrap();
        eventually("the status tells it", async || {
            let status = gateway.status().await;
            let error = status["configuration"]["last_reload"]["error"].clone();
            error.as_str()?.contains(told).then_some(())
        })
        .await;
        assert!(gateway.stderr().contains(told));
        let metrics = gateway.metrics().await;
        assert_eq!(
            metrics.sum("sluicegate_config_last_reload_success", &[]),
            0.0
        );
        let mut client = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(client.certificate, pair.der());
        assert_eq!(client.get("/").await.text(), "hello");
    }
    replace(&gateway, &next);
    eventually("the new certificate is shown", async || {
        let client = clients.connect(gateway.address(), "a.test").await;
        (client.certificate == next.der()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_operator_sees_until_when_certificates_hold() {
    // Goal: status and metric list every certificate. Method: one that holds and one that has expired, of which the start warns too.
    let authority = Authority::new();
    let pair = authority.server(&["a.test", "*.a.test"]);
    let old = authority.expired(&["old.test"]);
    let gateway = with(&[&pair, &old], "").rules(HELLO).start().await;
    assert!(gateway.stderr().contains("this certificate has expired"));
    let listener = gateway.address().to_string();
    let status = gateway.status().await;
    let shown = status["certificates"].as_array().unwrap();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0]["listener"], listener);
    assert_eq!(shown[0]["names"][1], "*.a.test");
    assert_eq!(
        (&shown[0]["expired"], &shown[1]["expired"]),
        (&false.into(), &true.into())
    );
    let metrics = gateway.metrics().await;
    let left = |name| {
        let labels = [("listener", &*listener), ("name", name)];
        metrics.sum("sluicegate_tls_certificate_expiry_seconds", &labels)
    };
    assert!(left("a.test") > 86_400.0 && left("old.test") < 0.0);
}
