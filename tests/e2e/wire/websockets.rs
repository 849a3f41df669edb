//! WebSockets over HTTP/2, RFC 8441: by clients of others, and by one that breaks rules.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::frames::{self, END_HEADERS, Fate, Frames, HEADERS, frame};
use crate::harness::*;

/// The head of an extended CONNECT for this protocol and this path.
fn ask(protocol: &[u8], path: &[u8]) -> Vec<u8> {
    let version: (&[u8], &[u8]) = (b"sec-websocket-version", b"13");
    let fields = frames::head(b"CONNECT", path, &[(b":protocol", protocol), version]);
    frame(HEADERS, END_HEADERS, 1, &fields)
}

/// What Node's client learns of this path.
async fn node(gateway: &Gateway, path: &str) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/wire/websocket.mjs");
    let mut node = Command::new("node");
    node.arg(program)
        .arg(format!("http://{}", gateway.address()))
        .arg(path)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || node.output());
    let output = output.await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_client_of_http2_opens_a_websocket_as_one_of_http1_does() {
    // Goal: the gateway offers extended CONNECT; rules see a GET, the origin an upgrade with a key of the gateway's own; the answer has no
    // field of an upgrade, messages pass both ways, and the end passes too. Method: Node's client, an origin that sends every message back,
    // and a limit of one.
    let origin = Origin::answering(|_| Reply::WebSocket);
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n\
        [[route]]\npath = \"/socket\"\nmethods = [\"GET\"]\nlimits = [\"a\"]\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let found = node(&gateway, "/socket").await;
    let expected = json!({
        "offered": true, "status": 200, "fields": [], "echoed": 2 + 5 + 10 + 100_000, "isSame": true, "reset": 0
    });
    assert_eq!(found, expected);
    let received = origin.only_request();
    assert_eq!((&*received.method, &*received.target), ("GET", "/socket"));
    assert_eq!(received.header("upgrade"), Some("websocket"));
    let key = received.header("sec-websocket-key").unwrap();
    assert_ne!(key, "bm90IHRoZSBnYXRld2F5cw==");
    let line = gateway.access_line().await;
    assert_eq!(
        (&line["protocol"], &line["status"]),
        (&json!("HTTP/2"), &json!(101)),
        "{line}"
    );
    assert_eq!(node(&gateway, "/socket").await["status"], 429);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn chromium_opens_a_websocket_on_its_connection_of_http2() {
    // Goal: a browser that has a connection of HTTP/2 opens its WebSockets there. Method: a page under TLS, and a message back.
    let origin = Origin::answering(|received| match &*received.target {
        "/socket" => Reply::WebSocket,
        _ => Answer::new(200)
            .header("Content-Type", "text/html")
            .body("hello")
            .into(),
    });
    let pair = Authority::new().server(&["localhost"]);
    let gateway = Setup::new()
        .file("site.pem", &pair.certificate)
        .file("site.key", &pair.key)
        .listener_line("[listener.tls]")
        .listener_line(
            "certificates = [{ cert_file = \"../site.pem\", key_file = \"../site.key\" }]",
        )
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let browser = Browser::start().await;
    let mut page = browser.tab().await;
    let ignore = json!({ "ignore": true });
    page.call("Security.setIgnoreCertificateErrors", ignore)
        .await;
    let address = format!("localhost:{}", gateway.address().port());
    page.go(&format!("https://{address}/")).await;
    page.shows("hello").await;
    let echo = page
        .value(&format!(
            "new Promise((done, failed) => {{
                const socket = new WebSocket('wss://{address}/socket');
                socket.onopen = () => socket.send('from the browser');
                socket.onmessage = (message) => {{ done(message.data); socket.close(); }};
                socket.onerror = () => failed(new Error('no socket'));
            }})"
        ))
        .await;
    assert_eq!(echo, "from the browser");
    let line = eventually("the tunnel ends", async || {
        let mut lines = gateway.access_log().into_iter();
        lines.find(|line| line["target"] == "/socket")
    })
    .await;
    assert_eq!(line["protocol"], "HTTP/2", "{line}");
}

#[tokio::test]
async fn what_is_no_websocket_is_refused() {
    // Goal: no other protocol is tunnelled, and an origin that did not read the key opens none. Method:
    // CONNECT to UDP; a server whose proof is of another key.
    let origin = Origin::answering(|_| {
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        Reply::Raw(head.as_bytes().to_vec())
    });
    let gateway = Gateway::passing(&origin).await;
    for (protocol, status) in [(&b"connect-udp"[..], 400), (b"websocket", 502)] {
        let mut frames = Frames::connect(gateway.address()).await;
        frames.write(&ask(protocol, b"/socket")).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(status));
    }
    assert_eq!(origin.count(), 1);
    let lines = gateway.access_lines(2).await;
    let failed = lines.iter().find(|line| line["status"] == 502).unwrap();
    assert_eq!(failed["failure"], "malformed-head", "{failed}");
}

#[tokio::test]
async fn an_answer_that_is_fixed_or_stored_opens_no_websocket() {
    // Goal: RFC 8441 §4, no answer with 2xx opens a WebSocket: one of the gateway becomes 501, and a stored one is no answer to an upgrade,
    // for which the origin is asked. Method: a route with `respond`, and one whose answer is stored.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200).header("Cache-Control", "max-age=60");
        answer.body("page").into()
    });
    let rules = "[[route]]\npath = \"/fixed\"\nrespond = { status = 200, body = \"ok\" }\n\
        [[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n";
    let gateway = Gateway::before(&origin, rules).await;
    for _ in 0..2 {
        assert_eq!(gateway.get("/stored").await.status, 200);
    }
    assert_eq!(origin.count(), 1);
    for (path, requests) in [("/fixed", 1), ("/stored", 2)] {
        let mut frames = Frames::connect(gateway.address()).await;
        frames.write(&ask(b"websocket", path.as_bytes())).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(501), "{path}");
        assert_eq!(origin.count(), requests, "{path}");
    }
    let lines = gateway.access_lines(4).await;
    let refused = lines.iter().filter(|line| line["status"] == 501);
    assert_eq!(refused.count(), 2, "{lines:?}");
}
