//! Clients that show certificates, and those that should.

use super::*;

/// Counts by what a client has shown.
fn counting(key: &str, on_missing: &str) -> String {
    format!(
        "[limit.one]\nkey = \"{key}\"\nrates = [\"1 per 1h\"]\non_missing = \"{on_missing}\"\n\n\
         [[route]]\npath = \"/*\"\nlimits = [\"one\"]\nrespond = {{ status = 200, body = \"hello\" }}\n"
    )
}

#[tokio::test]
async fn a_required_certificate_must_be_shown_and_signed_by_the_right_authority() {
    // Goal: `client_auth = "required"`. Method: the right certificate, none, and one of another authority; the metric tells of both.
    let (servers, trusted, other) = (Authority::new(), Authority::new(), Authority::new());
    let pair = servers.server(&["a.test"]);
    let gateway = with(&[&pair], "client_ca_file = \"../clients.pem\"")
        .file("clients.pem", &trusted.pem())
        .rules(HELLO)
        .start()
        .await;
    let shown = trusted.client("alice");
    let right = TlsClients::showing(&servers, &shown);
    let mut client = right.connect(gateway.address(), "a.test").await;
    let answer = client.send(get("/").header("Host", "a.test")).await;
    assert_eq!(answer.text(), "hello");
    let line = gateway.lines_of(&[answer]).await.remove(0);
    assert_eq!(line["tls_client"], "CN=alice,O=Example");
    assert_eq!(line["tls_client_fingerprint"].as_str().unwrap().len(), 64);
    let strangers = TlsClients::showing(&servers, &other.client("alice"));
    for clients in [TlsClients::of(&servers), strangers] {
        // In TLS 1.3 a client learns with its first answer that it was refused.
        if let Ok(mut client) = clients.try_connect(gateway.address(), "a.test").await {
            client.try_send(get("/")).await.unwrap_err();
        }
    }
    eventually("both refusals are counted", async || {
        let labels = [("reason", "client_certificate")];
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_tls_handshake_failures_total", &labels) == 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_limit_counts_by_the_subject_or_the_fingerprint_of_a_certificate() {
    // Goal: `tls.client.subject` and `tls.client.fingerprint` as keys, and `on_missing` for those without. Method: two certificates of
    // one
    // subject, one of another, and a client without, over HTTP/1.1 connections that are repeated, so that repeats are refused alike.
    let (servers, trusted) = (Authority::new(), Authority::new());
    let pair = servers.server(&["a.test"]);
    let [alice, also_alice, bob] = ["alice", "alice", "bob"].map(|name| trusted.client(name));
    for (key, same) in [("tls.client.subject", 429), ("tls.client.fingerprint", 200)] {
        let lines = "client_ca_file = \"../clients.pem\"\nclient_auth = \"optional\"";
        let gateway = with(&[&pair], lines)
            .file("clients.pem", &trusted.pem())
            .rules(&counting(key, "refuse"))
            .start()
            .await;
        for (shown, status) in [
            (&alice, 200),
            (&alice, 429),
            (&also_alice, same),
            (&bob, 200),
        ] {
            let clients = TlsClients::showing(&servers, shown);
            let mut client = clients.connect(gateway.address(), "a.test").await;
            let request = get("/").header("Host", "a.test");
            assert_eq!(client.send(request.clone()).await.status, status, "{key}");
            for _ in 0..3 {
                assert_eq!(client.send(request.clone()).await.status, 429, "{key}");
            }
        }
        let clients = TlsClients::of(&servers);
        let mut client = clients.connect(gateway.address(), "a.test").await;
        client
            .send(get("/").header("Host", "a.test"))
            .await
            .assert_problem(400);
    }
}

#[tokio::test]
async fn a_limit_counts_clients_of_one_kind_together() {
    // Goal: `tls.ja4` as a key. Method: clients of one kind share a counter, those that offer other protocols have their own. Each is
    // new,
    // since who resumes a session says more.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let rules = counting("tls.ja4", "ip");
    let gateway = with(&[&pair], "").rules(&rules).start().await;
    let usual = || TlsClients::of(&authority);
    let other = || TlsClients::of(&authority).offering(&["http/1.1"]);
    for (clients, status) in [
        (usual(), 200),
        (usual(), 429),
        (other(), 200),
        (other(), 429),
    ] {
        let mut client = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(client.get("/").await.status, status);
    }
}

#[tokio::test]
async fn a_connection_that_proved_a_client_for_one_host_serves_no_other() {
    // Goal: a request for another host does not bypass `client_auth`. Method: requests for the name of the handshake, for another, and
    // for another where no client is asked.
    let (servers, trusted) = (Authority::new(), Authority::new());
    let pair = servers.server(&["a.test", "b.test"]);
    let gateway = with(&[&pair], "client_ca_file = \"../clients.pem\"")
        .file("clients.pem", &trusted.pem())
        .rules(HELLO)
        .start()
        .await;
    let clients = TlsClients::showing(&servers, &trusted.client("alice"));
    let mut client = clients.connect(gateway.address(), "a.test").await;
    for (host, status) in [("a.test", 200), ("A.test:8443", 200), ("b.test", 421)] {
        let answer = client.send(get("/").header("Host", host)).await;
        assert_eq!(answer.status, status, "{host}");
    }
    let open = with(&[&pair], "").rules(HELLO).start().await;
    let mut client = TlsClients::of(&servers)
        .connect(open.address(), "a.test")
        .await;
    assert_eq!(
        client.send(get("/").header("Host", "b.test")).await.status,
        200
    );
}

#[tokio::test]
async fn a_session_does_not_outlive_the_trust_that_it_began_with() {
    // Goal: a client whose authority is no longer trusted cannot resume an old session. Method: resume once, change the
    // authority, and come again.
    let (servers, trusted, next) = (Authority::new(), Authority::new(), Authority::new());
    let pair = servers.server(&["a.test"]);
    let gateway = with(&[&pair], "client_ca_file = \"../clients.pem\"")
        .file("clients.pem", &trusted.pem())
        .rules(HELLO)
        .start()
        .await;
    let clients = TlsClients::showing(&servers, &trusted.client("alice"));
    let ask = async || -> Result<(rustls::HandshakeKind, u16), String> {
        let client = clients.try_connect(gateway.address(), "a.test").await;
        let mut client = client.map_err(|error| error.to_string())?;
        let answer = client.try_send(get("/").header("Host", "a.test")).await?;
        Ok((client.kind, answer.status))
    };
    assert_eq!(ask().await, Ok((rustls::HandshakeKind::Full, 200)));
    assert_eq!(ask().await, Ok((rustls::HandshakeKind::Resumed, 200)));
    let before = gateway.generation().await;
    std::fs::write(gateway.directory().join("clients.pem"), next.pem()).unwrap();
    gateway.serves_after(before).await;
    ask().await.unwrap_err();
}

#[tokio::test]
async fn a_session_of_one_listener_is_no_proof_at_another() {
    // Goal: nginx CVE-2025-23419, Apache CVE-2025-23048: a session is resumed only where its client was verified. Method: two listeners for
    // one name, each with an authority of its own; a session of the first is offered to the second.
    let (servers, one, other) = (Authority::new(), Authority::new(), Authority::new());
    let pair = servers.server(&["a.test"]);
    let second = free_address();
    let listener = format!(
        "[[listener]]\naddress = \"{second}\"\n[listener.tls]\n\
         certificates = [{{ cert_file = \"../0.pem\", key_file = \"../0.key\" }}]\nclient_ca_file = \"../other.pem\"\n"
    );
    let gateway = with(&[&pair], "client_ca_file = \"../one.pem\"")
        .file("one.pem", &one.pem())
        .file("other.pem", &other.pem())
        .rules(&format!("{listener}{HELLO}"))
        .start()
        .await;
    let clients = TlsClients::showing(&servers, &one.client("alice"));
    let ask = async |to| -> Result<(rustls::HandshakeKind, u16), String> {
        let client = clients.try_connect(to, "a.test").await;
        let mut client = client.map_err(|error| error.to_string())?;
        let answer = client.try_send(get("/").header("Host", "a.test")).await?;
        Ok((client.kind, answer.status))
    };
    let first = gateway.address();
    assert_eq!(ask(first).await, Ok((rustls::HandshakeKind::Full, 200)));
    assert_eq!(ask(first).await, Ok((rustls::HandshakeKind::Resumed, 200)));
    ask(second).await.unwrap_err();
    let verified = TlsClients::showing(&servers, &other.client("bob"));
    let mut client = verified.connect(second, "a.test").await;
    let answer = client.send(get("/").header("Host", "a.test")).await;
    assert_eq!(answer.status, 200);
}
