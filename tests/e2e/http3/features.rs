//! What requests over HTTP/2 can do, over HTTP/3: tunnels, interim answers, trailers, a browser.

use serde_json::json;

use super::*;
use crate::wire::trailers;

/// Goal: the gateway offers RFC 9220, and a WebSocket over HTTP/3 is an upgrade for rules and origin. Method: an origin that sends every
/// message back, a limit of one, and the line in the log.
#[tokio::test]
async fn a_websocket_opens_on_a_stream() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin = Origin::answering(|_| Reply::WebSocket);
    let gateway = setup
        .origin("app", &origin)
        .rules(&format!(
            "{}[[route]]\npath = \"/socket\"\nmethods = [\"GET\"]\nlimits = [\"a\"]\norigin = \"app\"\n",
            limit("a", &["client.ip"], "rates = [\"1 per 1h\"]")
        ))
        .start()
        .await;
    let steps = [
        "websocket",
        "/socket",
        "hello",
        "websocket",
        "/socket",
        "again",
    ];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!([true, 200, "hello"]), json!([true, 429, ""])]);
    let received = origin.only_request();
    assert_eq!((&*received.method, &*received.target), ("GET", "/socket"));
    assert_eq!(received.header("upgrade"), Some("websocket"));
    let lines = gateway.access_lines(2).await;
    let opened = lines.iter().find(|line| line["status"] == 101).unwrap();
    assert_eq!(opened["protocol"], "HTTP/3", "{opened}");
}

/// Goal: interim answers precede the final one, and trailers follow its body. Method: an origin with early hints, and one of HTTP/2 with a
/// trailer.
#[tokio::test]
async fn interim_answers_and_trailers_pass() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let hinting = Origin::answering(|_| {
        let answer = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        Reply::Raw(answer.as_bytes().to_vec())
    });
    let trailing = trailers::origin(vec![(b"x-sum", b"1")]).await;
    let gateway = setup
        .origin("hinting", &hinting)
        .servers("trailing", &[trailing])
        .origin_line("protocol = \"h2c\"")
        .rules(
            "[[route]]\npath = \"/hints\"\norigin = \"hinting\"\n\
             [[route]]\npath = \"/trailers\"\norigin = \"trailing\"\n",
        )
        .start()
        .await;
    let steps = ["heads", "/hints", "heads", "/trailers"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!([[103, 200], []]), json!([[200], ["x-sum"]])]);
}

/// Goal: a browser's requests are counted as any client's. Method: Chromium, told to speak HTTP/3, loads a page of a route with a limit of
/// five until it is rejected.
#[tokio::test]
async fn chromium_loads_pages() {
    let authority = Authority::new();
    let pair = authority.server(&["localhost"]);
    let gateway = Setup::new()
        .file("site.pem", &pair.certificate)
        .file("site.key", &pair.key)
        .listener_line("http3 = true")
        .listener_line("[listener.tls]")
        .listener_line(
            "certificates = [{ cert_file = \"../site.pem\", key_file = \"../site.key\" }]",
        )
        .rules(&five_an_hour())
        .start()
        .await;
    let address = format!("localhost:{}", gateway.address().port());
    let browser = Browser::speaking_http3(&address, &pair).await;
    let mut page = browser.tab().await;
    page.go(&format!("https://{address}/")).await;
    let asked = format!(
        "(async () => {{
            const statuses = [];
            for (let i = 0; i < 6; i++) {{
                statuses.push((await fetch('https://{address}/auth/sendOTP', {{ cache: 'no-store' }})).status);
            }}
            return statuses.join();
        }})()"
    );
    assert_eq!(page.value(&asked).await, "200,200,200,200,200,429");
    let lines = eventually("all requests are in the log", async || {
        let mut lines = gateway.access_log();
        lines.retain(|line| line["target"] == "/auth/sendOTP");
        Some(lines).filter(|lines| lines.len() == 6)
    })
    .await;
    assert!(lines.iter().all(|line| line["protocol"] == "HTTP/3"));
}
