//! `tls-edge.toml`: from an empty directory to pages under TLS, through a balancer that announces clients.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::kit_with;
use crate::harness::*;

const NAME: &str = "www.example.com";

/// The application: nginx under TLS, with a page and a file that may be kept.
const SHOP: &str = r#"location /healthz { return 200; }
location /assets/ { add_header Cache-Control "max-age=60"; return 200 "asset $msec"; }
location / { return 200 "$http_x_forwarded_for $http_x_forwarded_proto $ssl_server_name"; }"#;

/// A connection that the balancer announces as one of `client`.
async fn announced(to: SocketAddr, client: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let header = format!("PROXY TCP4 {client} 10.0.0.1 1 443\r\n");
    stream.write_all(header.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn pages_are_served_under_tls_to_clients_that_the_balancer_announces() {
    // Goal: everything that the file says at once. Method: an ACME server that connects past the balancer, which `required` would not
    // let it; a client in clear text, then clients under TLS with a certificate that the gateway has ordered.
    let authority = Authority::new();
    let pair = authority.server(&["shop.internal"]);
    let files = tempfile::TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (certificate, key) = (
        write("shop.pem", &pair.certificate),
        write("shop.key", &pair.key),
    );
    let shop = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let nginx = Nginx::start(&format!(
        "listen {shop} ssl;\nssl_certificate {certificate};\nssl_certificate_key {key};\n{SHOP}"
    ))
    .await;
    let acme = AcmeServer::start();
    let tls = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let order = format!(
        "accept_terms = true\ndirectory = \"{}\"\nca_file = \"{{directory}}/acme.pem\"",
        acme.directory()
    );
    let gateway = kit_with(
        "tls-edge",
        shop,
        &[
            ("[::]:80", "{listener}"),
            ("[::]:443", &tls.to_string()),
            ("\"required\"    # before the handshake", "\"optional\""),
            ("10.0.0.0/24", "127.0.0.1"),
            ("accept_terms = true", &order),
            (
                "tls      = { server_name",
                "tls = { ca_file = \"{directory}/shop.pem\", server_name",
            ),
        ],
    )
    .file("acme.pem", &acme.ca())
    .file("shop.pem", &authority.pem())
    .start()
    .await;
    acme.names_lead_to(tls);

    let mut clear = gateway.raw().await;
    clear
        .write("PROXY TCP4 192.0.2.1 10.0.0.1 1 80\r\nGET /a?b HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
        .await;
    let answer = clear.read_response().await;
    assert_eq!(answer.status, 308);
    assert_eq!(
        answer.header("location"),
        Some("https://www.example.com/a?b")
    );
    let mut unannounced = gateway.raw().await;
    unannounced.write("GET / HTTP/1.1\r\n").await;
    assert_eq!(unannounced.read_to_end().await, b"");

    let clients = TlsClients::believing(&acme.ca());
    let connect = async |client: &str| {
        clients
            .shake_hands(announced(tls, client).await, NAME)
            .await
    };
    let mut client = eventually("the certificate is there", async || {
        connect("192.0.2.1").await.ok()
    })
    .await;
    let ask = |target: &str| get(target).header("Host", NAME);
    let page = client.send(ask("/")).await;
    assert_eq!(page.text(), "192.0.2.1 https shop.internal");
    assert_eq!(
        page.header("strict-transport-security"),
        Some("max-age=31536000")
    );
    let first = client.send(ask("/assets/a.css")).await;
    let second = client.send(ask("/assets/a.css")).await;
    assert_eq!(first.text(), second.text());
    assert!(
        second.header("cache-status").unwrap().contains("hit"),
        "{second:?}"
    );
    assert_eq!(nginx.count("/assets/a.css"), 1);

    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) {
        statuses.push(client.send(ask("/")).await.status);
        assert!(statuses.len() < 600, "nobody is refused");
    }
    let (_, admitted) = statuses.split_last().unwrap();
    assert!(admitted.iter().all(|status| *status == 200), "{statuses:?}");
    let mut other = connect("192.0.2.2").await.unwrap();
    assert_eq!(other.send(ask("/")).await.status, 200);
}
