//! Routes that ask by which listener a request came, and what its client has shown.

use std::net::SocketAddr;

use super::*;

/// The routes of a site whose host `a.test` is for clients with certificates: `/open` for everybody, `/inside` by one listener alone.
const ROUTES: &str = r#"
[[route]]
host = "a.test"
path = "/*"
require = { client_certificate = true }
respond = { status = 200, body = "guarded" }
[[route]]
path = "/inside"
listeners = ["inside"]
respond = { status = 200, body = "inside" }
[[route]]
path = "/inside"
respond = { status = 200, body = "outside" }
[[route]]
path = "/*"
respond = { status = 200, body = "open" }
"#;

/// A gateway with a listener "inside" that asks for certificates, and one in clear text whose address is returned.
async fn two_listeners(auth: &str) -> (Gateway, Authority, Authority, SocketAddr) {
    let servers = Authority::new();
    let trusted = Authority::new();
    let pair = servers.server(&["a.test", "b.test"]);
    let open = free_address();
    let gateway = Setup::new()
        .file("0.pem", &pair.certificate)
        .file("0.key", &pair.key)
        .file("clients.pem", &trusted.pem())
        .listener_line("name = \"inside\"")
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../0.pem\", key_file = \"../0.key\" }]")
        .listener_line("client_ca_file = \"../clients.pem\"")
        .listener_line(&format!("client_auth = \"{auth}\""))
        .rules(&format!("[[listener]]\naddress = \"{open}\"\n{ROUTES}"))
        .start()
        .await;
    (gateway, servers, trusted, open)
}

/// Goal: a certificate that one listener requires guards the host at every listener. Method: the host by a listener in clear text, by both
/// versions, and by the one that asks, with and without a certificate.
#[tokio::test]
async fn a_host_that_needs_a_certificate_has_no_open_door() {
    let (gateway, servers, trusted, open) = two_listeners("optional").await;
    let request = || get("/x").header("Host", "a.test");
    let mut answers = Vec::new();
    for version in [Version::Http1, Version::Http2] {
        let mut client = Client::connect_by(version, None, open).await;
        let answer = client.send(request()).await;
        answer.assert_problem(403);
        answers.push(answer);
        let other = client.send(get("/x").header("Host", "b.test")).await;
        assert_eq!(other.text(), "open");
    }
    for protocol in ["http/1.1", "h2"] {
        let shown = trusted.client("alice");
        for (clients, status) in [
            (TlsClients::of(&servers), 403),
            (TlsClients::showing(&servers, &shown), 200),
        ] {
            let clients = clients.offering(&[protocol]);
            let mut client = clients.connect(gateway.address(), "a.test").await;
            let answer = client.send(request()).await;
            assert_eq!(answer.status, status, "{protocol}: {answer:?}");
            if status == 403 {
                answers.push(answer);
            }
            // What was shown for one host is none of another's.
            let other = client.send(get("/x").header("Host", "b.test")).await;
            assert_eq!(other.status, 421, "{protocol}");
        }
    }
    for line in gateway.lines_of(&answers).await {
        assert_eq!(line["outcome"], "rejected");
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.contains("client certificate"), "{reason}");
        assert_eq!(line["route"], "a.test/*");
    }
}

/// Goal: `listeners` of a route. Method: one path by the listener that a route names and by another, and after its name was given to the
/// other one.
#[tokio::test]
async fn a_route_takes_the_requests_of_its_listeners() {
    let (mut gateway, servers, trusted, open) = two_listeners("required").await;
    let clients = TlsClients::showing(&servers, &trusted.client("alice"));
    let request = || get("/inside").header("Host", "b.test");
    let mut client = clients.connect(gateway.address(), "b.test").await;
    let mut other = Client::connect(open).await;
    assert_eq!(client.send(request()).await.text(), "inside");
    assert_eq!(other.send(request()).await.text(), "outside");
    let swapped = format!("[[listener]]\nname = \"public\"\naddress = \"{open}\"\n{ROUTES}");
    gateway
        .reload(&swapped.replace("[\"inside\"]", "[\"public\"]"))
        .await;
    assert_eq!(client.send(request()).await.text(), "outside");
    assert_eq!(other.send(request()).await.text(), "inside");
}

/// Goal: `explain` says which route a request takes by a listener, and that it needs a certificate. Method: the file of the gateway.
#[tokio::test]
async fn a_request_by_a_listener_is_explained() {
    let (gateway, ..) = two_listeners("required").await;
    let file = gateway.config_path();
    let explain = async |request: &str, listener: &str| {
        let file = file.to_str().unwrap();
        let arguments = [
            "explain",
            file,
            "--request",
            request,
            "--listener",
            listener,
        ];
        let mut process = Process::run(&arguments);
        (
            process.exit_code().await,
            process.stdout() + &process.stderr(),
        )
    };
    let (code, text) = explain("GET http://b.test/inside", "inside").await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("/inside listener=inside"), "{text}");
    let (_, text) = explain("GET http://a.test/x", "inside").await;
    assert!(
        text.contains("403 without a verified client certificate"),
        "{text}"
    );
    let (code, text) = explain("GET /", "nowhere").await;
    assert_eq!(code, 64, "{text}");
    assert!(text.contains("there is no listener \"nowhere\""), "{text}");
}
