//! Versions, names, protocols, sessions, and what is no handshake.

use rustls::HandshakeKind::{Full, Resumed};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};

use super::*;

#[tokio::test]
async fn both_versions_are_spoken_unless_the_older_is_ruled_out() {
    // Goal: TLS 1.2 and 1.3, and `min_version`. Method: clients of one version each against both settings; the log has what was spoken.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let gateway = with(&[&pair], "").rules(HELLO).start().await;
    for (at, (version, spoken, logged)) in [
        (&TLS12, ProtocolVersion::TLSv1_2, "TLSv1.2"),
        (&TLS13, ProtocolVersion::TLSv1_3, "TLSv1.3"),
    ]
    .into_iter()
    .enumerate()
    {
        let clients = TlsClients::speaking(&authority, version);
        let mut client = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(client.version, spoken);
        let answer = client.get("/").await;
        assert_eq!(answer.text(), "hello");
        let lines = gateway.lines_of(&[answer]).await;
        assert_eq!(lines[0]["tls"], logged);
        assert_eq!(lines[0]["sni"], "a.test");
        assert!(lines[0]["tls_cipher"].as_str().unwrap().starts_with("TLS"));
        let ja4 = lines[0]["ja4"].as_str().unwrap();
        assert_eq!(&ja4[..4], if at == 0 { "t12d" } else { "t13d" });
    }
    let strict = with(&[&pair], "min_version = \"1.3\"")
        .rules(HELLO)
        .start()
        .await;
    let old = TlsClients::speaking(&authority, &TLS12);
    assert!(old.try_connect(strict.address(), "a.test").await.is_err());
    let new = TlsClients::speaking(&authority, &TLS13);
    assert_eq!(
        new.connect(strict.address(), "a.test")
            .await
            .get("/")
            .await
            .status,
        200
    );
    eventually("the failure is counted", async || {
        let labels = [("reason", "no_common_parameters")];
        let metrics = strict.metrics().await;
        (metrics.sum("sluicegate_tls_handshake_failures_total", &labels) == 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_name_that_a_client_asks_for_chooses_the_certificate() {
    // Goal: exact names, wildcards, the default, and `unknown_sni = "refuse"`. Method: three certificates, and what each name is shown.
    let authority = Authority::new();
    let default = authority.server(&["default.test", "unknown.test", "a.b.wild.test"]);
    let wild = authority.server(&["*.wild.test"]);
    let exact = authority.server(&["exact.wild.test"]);
    let listener = |line: &str| {
        let mut setup = Setup::new()
            .listener_line("[listener.tls]")
            .listener_line(line)
            .listener_line("certificates = [")
            // It holds for more than it is served for, so that clients who are shown it by default believe it.
            .listener_line("{ cert_file = \"../0.pem\", key_file = \"../0.key\", names = [\"default.test\"] },")
            .listener_line("{ cert_file = \"../1.pem\", key_file = \"../1.key\" },")
            .listener_line("{ cert_file = \"../2.pem\", key_file = \"../2.key\" }]");
        for (at, pair) in [&default, &wild, &exact].into_iter().enumerate() {
            setup = setup
                .file(&format!("{at}.pem"), &pair.certificate)
                .file(&format!("{at}.key"), &pair.key);
        }
        setup.rules(HELLO)
    };
    let gateway = listener("").start().await;
    let clients = TlsClients::of(&authority);
    for (name, shown) in [
        ("default.test", &default),
        ("any.wild.test", &wild),
        ("exact.wild.test", &exact),
        // One label is what `*` stands for.
        ("a.b.wild.test", &default),
        ("unknown.test", &default),
    ] {
        let client = clients.connect(gateway.address(), name).await;
        assert_eq!(client.certificate, shown.der(), "{name}");
    }
    let nameless = clients.clone().nameless();
    let client = nameless.connect(gateway.address(), "default.test").await;
    assert_eq!(client.certificate, default.der());

    let strict = listener("unknown_sni = \"refuse\"").start().await;
    let client = clients.connect(strict.address(), "any.wild.test").await;
    assert_eq!(client.certificate, wild.der());
    for (kind, name) in [(&clients, "unknown.test"), (&nameless, "default.test")] {
        assert!(kind.try_connect(strict.address(), name).await.is_err());
    }
    eventually("the failures are counted", async || {
        let labels = [("reason", "unknown_name")];
        let metrics = strict.metrics().await;
        (metrics.sum("sluicegate_tls_handshake_failures_total", &labels) == 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn http_2_is_spoken_where_both_sides_want_it() {
    // Goal: ALPN, and `http2 = false`. Method: what is chosen of what clients offer; h2load, which speaks nothing but HTTP/2, under load.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let origin = Origin::echo();
    let rules = "[[route]]\npath = \"/*\"\norigin = \"app\"";
    let gateway = with(&[&pair], "")
        .origin("app", &origin)
        .rules(rules)
        .start()
        .await;
    let one = with(&[&pair], "").rules(HELLO).start().await;
    let clients = TlsClients::of(&authority);
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let clients = clients.clone().offering(offered);
        let protocol = clients.negotiated(one.address(), "a.test").await;
        assert_eq!(protocol.as_deref(), chosen, "{offered:?}");
    }
    let strange = clients.clone().offering(&["imap"]);
    assert!(strange.try_connect(one.address(), "a.test").await.is_err());

    let url = format!("https://{}/", gateway.address());
    let report = h2load(&["-n", "400", "-c", "4", "-m", "10", &url]).await;
    assert!(report.contains("Application protocol: h2"), "{report}");
    assert!(report.contains("400 succeeded, 0 failed"), "{report}");
    let lines = gateway.access_lines(400).await;
    assert!(lines.iter().all(|line| line["protocol"] == "HTTP/2"));
    assert!(lines.iter().all(|line| line["tls"] == "TLSv1.3"));
}

#[tokio::test]
async fn a_listener_without_http_2_offers_http_1_alone() {
    // Goal: `http2 = false` holds under TLS. Method: a client that would rather speak HTTP/2.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let setup = Setup::new()
        .listener_line("http2 = false")
        .file("0.pem", &pair.certificate)
        .file("0.key", &pair.key)
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../0.pem\", key_file = \"../0.key\" }]");
    let gateway = setup.rules(HELLO).start().await;
    let clients = TlsClients::of(&authority).offering(&["h2", "http/1.1"]);
    let mut client = clients.connect(gateway.address(), "a.test").await;
    assert_eq!(client.protocol.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(client.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_client_that_comes_back_resumes_its_session_even_after_a_reload() {
    // Goal: resumption, in both versions, which a change of other rules does not end. Method: the client reports the kind of its
    // handshake.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let mut gateway = with(&[&pair], "").rules(HELLO).start().await;
    for (at, version) in [&TLS12, &TLS13].into_iter().enumerate() {
        let clients = TlsClients::speaking(&authority, version);
        let mut first = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(first.kind, Full);
        // Tickets of TLS 1.3 come behind the handshake.
        first.get("/").await;
        let mut second = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(second.kind, Resumed);
        second.get("/").await;
        let other = format!("{HELLO}[client]\ntrusted_proxies = [\"192.0.2.{at}\"]\n");
        gateway.reload(&other).await;
        let third = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(third.kind, Resumed);
    }
    eventually("all handshakes are counted", async || {
        let metrics = gateway.metrics().await;
        let count = |kind| metrics.sum("sluicegate_tls_handshakes_total", &[("kind", kind)]);
        ((count("full"), count("resumed")) == (2.0, 4.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_no_handshake_ends_soon_and_is_counted() {
    // Goal: garbage, a request in clear text, silence and a client that stops half-way hold nothing, and log neither errors nor
    // warnings. Method: each on a connection of its own; the gateway closes, and metric and log say why.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let rules = format!("{HELLO}\n[server]\nclient_read_timeout = \"1s\"\n");
    let gateway = with(&[&pair], "").rules(&rules).start().await;
    let mut clear = gateway.raw().await;
    clear.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    assert!(!clear.read_to_end().await.starts_with(b"HTTP/"));
    let mut garbage = gateway.raw().await;
    garbage
        .write([0x16, 3, 1, 0, 4, 0xff, 0xff, 0xff, 0xff])
        .await;
    garbage.read_to_end().await;
    let mut silent = gateway.raw().await;
    let mut half = gateway.raw().await;
    half.write([0x16, 3, 1, 2, 0, 1, 0]).await;
    assert_eq!(silent.read_to_end().await, b"");
    assert_eq!(half.read_to_end().await, b"");
    drop(gateway.raw().await);
    for (reason, count) in [("not_tls", 2.0), ("timed_out", 2.0), ("client_closed", 1.0)] {
        eventually(&format!("{count} of {reason}"), async || {
            let labels = [("reason", reason)];
            let metrics = gateway.metrics().await;
            let counted = metrics.sum("sluicegate_tls_handshake_failures_total", &labels);
            // The wait for the listener connects too, and leaves.
            (counted >= count).then_some(())
        })
        .await;
    }
    let mut client = TlsClients::of(&authority)
        .connect(gateway.address(), "a.test")
        .await;
    assert_eq!(client.get("/").await.status, 200);
    let log = gateway.stderr();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    let told = "client 127.0.0.1: its TLS handshake failed: what it sent is not TLS";
    assert_eq!(log.matches(told).count(), 2, "{log}");
}

#[tokio::test]
async fn one_client_leaves_handshakes_to_others() {
    // Goal: a client has no more handshakes in progress than are left of `max_tls_handshakes`, from its first byte, and the log names it.
    // Method: room for eight; ten connections of one client that send nothing, and six that send two bytes, of which two are closed.
    // Another client is served meanwhile; the end of the connections returns all.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let rules = format!("[server]\nmax_tls_handshakes = 8\nclient_read_timeout = \"60s\"\n{HELLO}");
    let gateway = with(&[&pair], "").rules(&rules).start().await;
    let in_progress = async |count: f64| {
        eventually("so many are in progress", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_tls_handshakes_in_flight", &[]) == count).then_some(())
        })
        .await;
    };
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(RawConnection::connect_from("127.0.0.9", gateway.address()).await);
    }
    let mut held = Vec::new();
    for count in 1..=4 {
        let mut raw = RawConnection::connect_from("127.0.0.9", gateway.address()).await;
        raw.write([22, 3]).await;
        in_progress(f64::from(count)).await;
        held.push(raw);
    }
    for _ in 0..2 {
        let mut raw = RawConnection::connect_from("127.0.0.9", gateway.address()).await;
        raw.write([22, 3]).await;
        assert_eq!(raw.read_to_end().await, b"");
    }
    let mut client = TlsClients::of(&authority)
        .connect(gateway.address(), "a.test")
        .await;
    assert_eq!(client.get("/").await.text(), "hello");
    in_progress(4.0).await;
    let metrics = gateway.metrics().await;
    let reason = [("reason", "client_limit_reached")];
    let refused = metrics.sum("sluicegate_tls_handshake_failures_total", &reason);
    assert_eq!(refused, 2.0);
    assert_eq!(metrics.sum("sluicegate_tls_handshakes_max", &[]), 8.0);
    let line = "client 127.0.0.9: its TLS handshake failed: as many as one client may have are in progress; \
                max_tls_handshakes = 8, of which 127.0.0.9 has 4";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    drop((silent, held));
    in_progress(0.0).await;
}
