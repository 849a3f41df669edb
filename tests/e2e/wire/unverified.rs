//! Origins whose certificates are not verified, and texts about those that cannot be.

use super::authority::{Authority, Certified, TELL, TlsOrigin};
use crate::harness::*;

const VERSION_1: (&str, &str) = (
    include_str!("../../tls/version-1.pem"),
    include_str!("../../tls/version-1.key"),
);
const CRITICAL: (&str, &str) = (
    include_str!("../../tls/critical.pem"),
    include_str!("../../tls/version-1.key"),
);
const SHORT: (&str, &str) = (
    include_str!("../../tls/short.pem"),
    include_str!("../../tls/short.key"),
);

/// nginx with one of these pairs, whose OpenSSL takes keys and versions that it refuses by default.
async fn origin_with(pair: (&str, &str), listen: &str, lines: &str) -> TlsOrigin {
    let (certificate, key) = pair;
    let certified = Certified {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    let usual = "ssl_ciphers DEFAULT@SECLEVEL=0;";
    let ciphers = if lines.contains("ssl_ciphers") {
        ""
    } else {
        usual
    };
    let lines = format!("{ciphers}\n{lines}\n{TELL}");
    TlsOrigin::start(&Authority::new(), &certified, listen, &lines).await
}

async fn before(origin: &TlsOrigin, lines: &str) -> Gateway {
    Setup::new()
        .servers("app", &[origin.address])
        .origin_line(lines)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await
}

#[tokio::test]
async fn any_certificate_is_accepted_where_none_is_verified() {
    // Goal: `verify = "off"` means what it says, for requests and health checks. Method: nginx with certificates that rustls rejects
    // unread: version 1, an unknown critical extension, RSA of 1024 bits; over HTTP/1.1 and HTTP/2, by TLS 1.2 and 1.3.
    let off = "tls = { verify = \"off\" }\nhealth = { path = \"/\", interval = \"100ms\", unhealthy_after = 1 }";
    for pair in [VERSION_1, CRITICAL, SHORT] {
        for version in ["1.2", "1.3"] {
            let lines = format!("ssl_protocols TLSv{version};");
            let origin = origin_with(pair, "ssl http2", &lines).await;
            for (protocol, spoken) in [
                ("http/1.1", "HTTP/1.1"),
                ("h2", "HTTP/2.0"),
                ("auto", "HTTP/2.0"),
            ] {
                let gateway = before(&origin, &format!("protocol = \"{protocol}\"\n{off}")).await;
                let answer = gateway.get("/").await;
                assert!(answer.text().contains(spoken), "{protocol}: {answer:?}");
                let checks = origin.nginx.count("/");
                eventually("checks have passed", async || {
                    (origin.nginx.count("/") > checks + 2).then_some(())
                })
                .await;
                let status = gateway.status().await;
                assert_eq!(
                    status["origins"][0]["servers"][0]["state"], "up",
                    "{protocol}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_log_says_why_a_server_cannot_be_verified_or_spoken_with() {
    // Goal: an operator learns the cause, and what to do. Method: certificates and settings of nginx that rustls lacks.
    let lacking = "ssl_protocols TLSv1.2;\nssl_ciphers AES256-SHA;";
    for (pair, lines, cause) in [
        (VERSION_1, "", "X.509 version 1"),
        (CRITICAL, "", "a critical extension that is not known here"),
        (CRITICAL, lacking, "none of the cipher suites"),
        (
            CRITICAL,
            "ssl_protocols TLSv1.1;",
            "neither TLS 1.2 nor TLS 1.3",
        ),
    ] {
        let origin = origin_with(pair, "ssl", lines).await;
        let gateway = before(&origin, "tls = { server_name = \"device.test\" }").await;
        gateway.get("/").await.assert_problem(502);
        let line = gateway.access_line().await;
        assert_eq!(line["failure"], "tls");
        assert!(line["reason"].as_str().unwrap().contains(cause), "{line}");
    }
}
