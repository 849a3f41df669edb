//! TLS to origins: whom the gateway believes, who it says it is, and that connections never serve those who believe somebody else.

use std::fs;

use super::authority::{Authority, Certified, Good, TELL, TlsOrigin};
use crate::harness::{Gateway, Response, Setup, eventually, get};

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"";
const NAME: &str = "app.internal";

/// What the origin told, by its parts.
fn told(answer: &Response) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text().split('|').map(str::to_owned).collect()
}

fn before(origin: &TlsOrigin, tls: &str) -> Setup {
    Setup::new()
        .servers("app", &[origin.address])
        .origin_line(tls)
        .rules(ROUTE)
}

fn with_identity(setup: Setup, name: &str, certified: &Certified) -> Setup {
    setup
        .file(&format!("{name}.pem"), &certified.certificate)
        .file(&format!("{name}.key"), &certified.key)
}

#[tokio::test]
async fn an_origin_with_a_certificate_of_the_named_authority_is_trusted() {
    // Goal: TLS with a CA of one's own; the origin is asked for by the configured name, whatever Host the client sent. Method: nginx
    // tells what it saw.
    let authority = Authority::new();
    let origin = TlsOrigin::telling(&authority, NAME, "ssl").await;
    let tls = r#"tls = { ca_file = "../ca.pem", server_name = "app.internal" }"#;
    let gateway = before(&origin, tls)
        .file("ca.pem", &authority.pem())
        .start()
        .await;
    let seen = told(&gateway.get("/").await);
    assert_eq!(seen[2..4], ["HTTP/1.1", NAME]);
    assert_eq!(seen[4], "gateway.test");
    // Pingora may just be looking at an idle connection when the next request comes, which then gets a new one; and requests may come to
    // the gateway's threads by turns, each of which prefers a connection of its own.
    let mut used = vec![seen[5].clone()];
    eventually("a connection is used again", async || {
        let connection = told(&gateway.get("/").await)[5].clone();
        let again = used.contains(&connection);
        used.push(connection);
        again.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_without_a_name_is_verified_by_its_address() {
    // Goal: no name means no less verification. Method: one certificate for the address of the server, one for another name; no
    // server_name.
    let authority = Authority::new();
    for (name, status) in [("127.0.0.1", 200), (NAME, 502)] {
        let origin = TlsOrigin::telling(&authority, name, "ssl").await;
        let gateway = before(&origin, r#"tls = { ca_file = "../ca.pem" }"#)
            .file("ca.pem", &authority.pem())
            .start()
            .await;
        assert_eq!(gateway.get("/").await.status, status, "{name}");
    }
}

#[tokio::test]
async fn each_server_of_an_origin_is_verified_by_its_own_name() {
    // Goal: one table for several servers is no permission for one to stand in for another. Method: a server by name and one by address,
    // with certificates of their own, are both asked; with each other's, neither is.
    let authority = Authority::new();
    let tls = r#"tls = { ca_file = "../ca.pem" }"#;
    for (certified, status) in [
        (["localhost", "127.0.0.1"], 200),
        (["127.0.0.1", "localhost"], 502),
    ] {
        let named = TlsOrigin::telling(&authority, certified[0], "ssl").await;
        let addressed = TlsOrigin::telling(&authority, certified[1], "ssl").await;
        let (port, address) = (named.address.port(), addressed.address);
        let servers = format!("servers = [\"localhost:{port}\", \"{address}\"]\n{tls}");
        let gateway = Setup::new()
            .file("ca.pem", &authority.pem())
            .rules(&format!("[origin.app]\n{servers}\n{ROUTE}"))
            .start()
            .await;
        for _ in 0..6 {
            assert_eq!(gateway.get("/").await.status, status, "{certified:?}");
        }
        for server in [&named, &addressed] {
            assert_eq!(server.nginx.count("/") > 0, status == 200, "{certified:?}");
        }
    }
}

#[tokio::test]
async fn an_origin_that_cannot_prove_itself_gets_no_request() {
    // Goal: an unknown signer, another name and an old certificate are 502, and the log says why, once. Method: three requests to each;
    // nginx counts none.
    let (ours, theirs) = (Authority::new(), Authority::new());
    for (signer, name, good, why) in [
        (&theirs, NAME, Good::Now, "UnknownIssuer"),
        (&ours, "other.internal", Good::Now, "not valid for name"),
        (&ours, NAME, Good::InThePast, "expired"),
    ] {
        let certified = signer.certify(name, good);
        let origin = TlsOrigin::start(signer, &certified, "ssl", TELL).await;
        let tls = r#"tls = { ca_file = "../ca.pem", server_name = "app.internal" }"#;
        let gateway = before(&origin, tls)
            .file("ca.pem", &ours.pem())
            .start()
            .await;
        for _ in 0..3 {
            assert_eq!(gateway.get("/").await.status, 502);
        }
        assert_eq!(origin.nginx.count("/"), 0);
        let log = gateway.stderr();
        let complaints: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("origin app: server"))
            .collect();
        assert_eq!(complaints.len(), 1, "{log}");
        assert!(complaints[0].contains(why), "{why}: {log}");
        let line = &gateway.access_lines(3).await[0];
        assert_eq!(line["outcome"], "origin-failed", "{line}");
    }
}

#[tokio::test]
async fn less_verification_is_exactly_as_configured_and_logged() {
    // Goal: `chain` accepts any name of the authority and of no other, `off` accepts all; the start warns of both. Method: a certificate
    // with another name, of the authority that is trusted and of one that is not.
    let (ours, theirs) = (Authority::new(), Authority::new());
    for (signer, verify, status) in [
        (&ours, "chain", 200),
        (&theirs, "chain", 502),
        (&theirs, "off", 200),
    ] {
        let origin = TlsOrigin::telling(signer, "other.internal", "ssl").await;
        let tls = format!(
            r#"tls = {{ ca_file = "../ca.pem", server_name = "app.internal", verify = "{verify}" }}"#
        );
        let gateway = before(&origin, &tls)
            .file("ca.pem", &ours.pem())
            .start()
            .await;
        assert_eq!(gateway.get("/").await.status, status, "{verify}");
        assert!(gateway.stderr().contains("not verified"), "{verify}");
    }
}

#[tokio::test]
async fn the_gateway_shows_its_certificate_to_an_origin_that_asks() {
    // Goal: mutual TLS. Method: nginx with `ssl_verify_client on`, with and without a certificate of ours.
    let authority = Authority::new();
    let certified = authority.certify(NAME, Good::Now);
    let lines = format!("ssl_client_certificate {{ca}};\nssl_verify_client on;\n{TELL}");
    let origin = TlsOrigin::start(&authority, &certified, "ssl", &lines).await;
    let tls = r#"tls = { ca_file = "../ca.pem", cert_file = "../us.pem", key_file = "../us.key", server_name = "app.internal" }"#;
    let setup = before(&origin, tls).file("ca.pem", &authority.pem());
    let gateway = with_identity(setup, "us", &authority.certify("gateway", Good::Now))
        .start()
        .await;
    assert_eq!(
        told(&gateway.get("/").await)[..2],
        ["SUCCESS", "CN=gateway"]
    );

    let nobody = r#"tls = { ca_file = "../ca.pem", server_name = "app.internal" }"#;
    let gateway = before(&origin, nobody)
        .file("ca.pem", &authority.pem())
        .start()
        .await;
    assert_eq!(gateway.get("/").await.status, 400, "nginx asks for one");
}

#[tokio::test]
async fn connections_are_not_shared_between_trust_settings() {
    // Goal: an idle connection serves only an origin with the same trust and identity, though the address and the name are the same.
    // Method: four origins at one address, asked in turn, so that each finds the idle connections of the others.
    let (ours, theirs) = (Authority::new(), Authority::new());
    let certified = ours.certify(NAME, Good::Now);
    let lines = format!("ssl_client_certificate {{ca}};\nssl_verify_client optional;\n{TELL}");
    let origin = TlsOrigin::start(&ours, &certified, "ssl", &lines).await;
    let mut setup = Setup::new()
        .file("ours.pem", &ours.pem())
        .file("theirs.pem", &theirs.pem());
    let mut rules = String::new();
    for (name, tls) in [
        ("none", r#"ca_file = "../ours.pem""#),
        (
            "one",
            r#"ca_file = "../ours.pem", cert_file = "../one.pem", key_file = "../one.key""#,
        ),
        (
            "two",
            r#"ca_file = "../ours.pem", cert_file = "../two.pem", key_file = "../two.key""#,
        ),
        ("wrong", r#"ca_file = "../theirs.pem""#),
    ] {
        setup = setup.servers(name, &[origin.address]).origin_line(&format!(
            r#"tls = {{ {tls}, server_name = "app.internal" }}"#
        ));
        rules.push_str(&format!(
            "[[route]]\npath = \"/{name}\"\norigin = \"{name}\"\n"
        ));
    }
    for name in ["one", "two"] {
        setup = with_identity(setup, name, &ours.certify(name, Good::Now));
    }
    let gateway = setup.rules(&rules).start().await;
    let mut client = gateway.client().await;
    for _ in 0..3 {
        assert_eq!(told(&client.get("/none").await)[..2], ["NONE", ""]);
        assert_eq!(told(&client.get("/one").await)[..2], ["SUCCESS", "CN=one"]);
        assert_eq!(told(&client.get("/two").await)[..2], ["SUCCESS", "CN=two"]);
        assert_eq!(gateway.get("/wrong").await.status, 502);
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_from_the_next_request_on() {
    // Goal: files are watched; a kept connection that was made with the old certificate is not used again. Method: replace certificate
    // and key by renaming over them, with an idle connection in the pool.
    let authority = Authority::new();
    let certified = authority.certify(NAME, Good::Now);
    let lines = format!("ssl_client_certificate {{ca}};\nssl_verify_client on;\n{TELL}");
    let origin = TlsOrigin::start(&authority, &certified, "ssl", &lines).await;
    let tls = r#"tls = { ca_file = "../ca.pem", cert_file = "../us.pem", key_file = "../us.pem", server_name = "app.internal" }"#;
    let both = |name: &str| {
        let certified = authority.certify(name, Good::Now);
        format!("{}{}", certified.certificate, certified.key)
    };
    let gateway = before(&origin, tls)
        .file("ca.pem", &authority.pem())
        .file("us.pem", &both("before"))
        .start()
        .await;
    assert_eq!(told(&gateway.get("/").await)[1], "CN=before");
    let generation = gateway.generation().await;
    let directory = gateway.directory();
    fs::write(directory.join("new.pem"), both("after")).unwrap();
    fs::rename(directory.join("new.pem"), directory.join("us.pem")).unwrap();
    gateway.serves_after(generation).await;
    assert_eq!(told(&gateway.get("/").await)[1], "CN=after");
}

#[tokio::test]
async fn health_checks_use_the_same_tls() {
    // Goal: a server with an untrusted certificate is unhealthy until it is trusted. Method: checks with the wrong authority, which is
    // then
    // replaced on disk; with a path, and without.
    let (ours, theirs) = (Authority::new(), Authority::new());
    let origin = TlsOrigin::telling(&ours, NAME, "ssl http2").await;
    for path in ["path = \"/healthz\", ", ""] {
        let lines = format!(
            "tls = {{ ca_file = \"../ca.pem\", server_name = \"app.internal\" }}\nprotocol = \"auto\"\n\
             health = {{ {path}interval = \"50ms\", unhealthy_after = 1 }}"
        );
        let gateway = before(&origin, &lines)
            .file("ca.pem", &theirs.pem())
            .start()
            .await;
        eventually("the server is taken out", async || {
            (gateway.get("/").await.status == 503).then_some(())
        })
        .await;
        assert!(gateway.stderr().contains("UnknownIssuer"));
        fs::write(gateway.directory().join("ca.pem"), ours.pem()).unwrap();
        eventually("the server is back", async || {
            (gateway.get("/").await.status == 200).then_some(())
        })
        .await;
        if !path.is_empty() {
            // New rules begin with a server that counts as healthy, so what is waited for is that it was asked.
            eventually("nginx is asked", async || {
                (origin.nginx.count("/healthz") > 2).then_some(())
            })
            .await;
        }
        healthy_for_a_while(&gateway).await;
    }
}

/// Ten requests in a row are answered: the checks agree with them.
async fn healthy_for_a_while(gateway: &Gateway) {
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.send(get("/")).await.status, 200);
    }
}
