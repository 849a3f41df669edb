//! Errors of origins that are replaced by the operator's pages: which are, and what is left of the origin's answer.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use crate::harness::*;

pub(super) const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

pub(super) const PAGES: &str = r#"
[error_pages.4xx]
html = "<h1>{status} {reason}</h1>{request_id}"
intercept = true

[error_pages.5xx]
html = "<h1>{status}</h1>"
intercept = true
"#;

pub(super) fn browse(path: &str) -> Request {
    get(path).header("Accept", BROWSER)
}

/// The pages, before a route for everything with these lines.
pub(super) fn route(lines: &str) -> String {
    format!("{PAGES}\n[[route]]\npath = \"/*\"\norigin = \"app\"\n{lines}\n")
}

/// Whether this is the page of 4xx, labelled as what it is and as nothing else.
#[track_caller]
pub(super) fn assert_page(answer: &Response, reason: &str) {
    let id = answer.header("x-request-id").unwrap();
    let page = format!("<h1>{} {reason}</h1>{id}", answer.status);
    assert_eq!(answer.text(), page, "{answer:?}");
    assert_page_head(answer, page.len());
}

#[track_caller]
fn assert_page_head(answer: &Response, length: usize) {
    let content_type = answer.all("content-type");
    assert_eq!(content_type, ["text/html; charset=utf-8"], "{answer:?}");
    assert_eq!(answer.all("content-length"), [length.to_string()]);
    assert_eq!(answer.all("vary"), ["accept"]);
    for gone in ["transfer-encoding", "content-encoding", "etag"] {
        assert_eq!(answer.header(gone), None, "{answer:?}");
    }
}

/// The bytes of an answer with the status 404, and this behind its status line.
fn not_found(rest: &str) -> Vec<u8> {
    format!("HTTP/1.1 404 Gone Fishing\r\nContent-Type: text/plain\r\nETag: \"1\"\r\n{rest}").into()
}

fn at_once(rest: &str) -> Reply {
    Reply::Pieces(vec![not_found(rest)], Duration::ZERO)
}

/// An answer for each way in which a body of HTTP/1 may end, and one that is cut.
fn framed(target: &str) -> Reply {
    match target.rsplit('/').next().unwrap() {
        "length" => at_once("Content-Length: 5\r\n\r\nnope!"),
        "none" => at_once("Content-Length: 0\r\n\r\n"),
        "chunks" => at_once("Transfer-Encoding: chunked\r\n\r\n3\r\nno,\r\n2\r\nno\r\n0\r\n\r\n"),
        "no-chunk" => at_once("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "long" => at_once(&format!(
            "Content-Length: 300000\r\n\r\n{}",
            "x".repeat(300_000)
        )),
        "early-hints" => Reply::Pieces(
            vec![
                [
                    b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
                    &not_found("Content-Length: 5\r\n\r\nnope!")[..],
                ]
                .concat(),
            ],
            Duration::ZERO,
        ),
        "close" => Reply::Raw(not_found("\r\nuntil the end")),
        "cut" => Reply::Raw(not_found("Content-Length: 500\r\n\r\ncut")),
        "old" => Reply::Raw(b"HTTP/1.0 404 Gone Fishing\r\n\r\nnope".to_vec()),
        other => panic!("{other}"),
    }
}

const FRAMINGS: [&str; 8] = [
    "length",
    "none",
    "chunks",
    "no-chunk",
    "long",
    "early-hints",
    "close",
    "old",
];

#[tokio::test]
async fn a_page_stands_in_whatever_frames_the_body() {
    // Goal: the page is whole and rightly labelled, and the client's connection stays open. Method: each way in which a body of HTTP/1
    // ends,
    // GET and HEAD, over one connection of HTTP/1.1 and one of HTTP/2.
    let origin = Origin::answering(|request| framed(&request.target));
    let gateway = Gateway::before(&origin, &route("")).await;
    let (mut old, new) = (gateway.client().await, gateway.h2c().await);
    for framing in FRAMINGS {
        let path = format!("/{framing}");
        let pages = [old.send(browse(&path)).await, new.send(browse(&path)).await];
        for page in &pages {
            assert_eq!(page.status, 404, "{framing}: {page:?}");
            assert_page(page, "Not Found");
        }
    }
    // The connection ends here, as with every answer that breaks off.
    for cut in [
        gateway.send(browse("/cut")).await,
        new.send(browse("/cut")).await,
    ] {
        assert_page(&cut, "Not Found");
    }
    let length = format!("<h1>404 Not Found</h1>{:032}", 0).len();
    for framing in ["none", "early-hints"] {
        let ask = || head(&format!("/{framing}")).header("Accept", BROWSER);
        for head in [old.send(ask()).await, new.send(ask()).await] {
            assert_eq!((head.status, head.body.len()), (404, 0));
            assert_page_head(&head, length);
        }
    }
    assert!(
        !gateway.stderr().contains("already sent"),
        "{}",
        gateway.stderr()
    );
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_the_page() {
    // Goal: HTTP/1.0 gets no chunks, and the length ends the page. Method: bytes of HTTP/1.0, with and without keep-alive.
    let origin = Origin::answering(|request| framed(&request.target));
    let gateway = Gateway::before(&origin, &route("")).await;
    for framing in FRAMINGS {
        let mut raw = gateway.raw().await;
        for connection in ["Connection: keep-alive\r\n", ""] {
            let request = format!("GET /{framing} HTTP/1.0\r\nHost: a\r\nAccept: text/html\r\n");
            raw.write(format!("{request}{connection}\r\n")).await;
            assert_page(&raw.read_response().await, "Not Found");
        }
        assert_eq!(raw.read_to_end().await, b"");
    }
}

#[tokio::test]
async fn fields_about_the_failure_stay_and_fields_about_the_body_go() {
    // Goal: RFC 9110 fields of the replaced content go; those that say what to do now stay, and the gateway's own are as on other
    // answers.
    // Method: an origin that sends them all; edits, CORS, a limit and a sticky cookie.
    let stays = [
        ("Retry-After", "7"),
        ("WWW-Authenticate", "Basic realm=\"a\""),
        ("Allow", "GET"),
        ("Set-Cookie", "a=b"),
        ("Cache-Control", "no-store"),
        ("X-Own", "1"),
    ];
    let goes = [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
        ("Content-Language", "de"),
        ("Content-Location", "/other"),
        ("Content-Disposition", "attachment"),
        ("Content-Security-Policy", "default-src 'none'"),
        ("Content-Range", "bytes */5"),
        ("Content-Digest", "sha-256=:AA==:"),
        ("Repr-Digest", "sha-256=:AA==:"),
        ("ETag", "\"1\""),
        ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("Accept-Ranges", "bytes"),
        ("Content-Security-Policy-Report-Only", "default-src 'none'"),
        ("Content-MD5", "AA=="),
        ("Digest", "sha-256=AA=="),
        ("Trailer", "x-behind"),
    ];
    let origin = Origin::answering(move |_| {
        let fields = stays.iter().chain(&goes);
        let answer = fields.fold(Answer::new(401), |answer, (name, value)| {
            answer.header(name, value)
        });
        answer.body("{}").into()
    });
    let lines = r#"
limits = ["all"]
response_headers = { set = { x-set = "1", content-type = "a/b", expires = "0" }, remove = ["x-own"] }
cors = { origins = ["https://a.test"] }
compress = { encodings = ["gzip"], min_bytes = 0 }
"#;
    let rules = format!(
        "[limit.all]\nkey = \"client.ip\"\nrates = [\"9 per 1h\"]\n{}",
        route(lines)
    );
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("sticky = {}");
    let gateway = setup.rules(&rules).start().await;
    let ask = browse("/x").header("Origin", "https://a.test");
    let answer = gateway.send(ask.header("Accept-Encoding", "gzip")).await;
    assert_eq!(answer.status, 401);
    assert!(
        answer.text().starts_with("<h1>401 Unauthorized"),
        "{answer:?}"
    );
    assert_eq!(answer.all("content-type"), ["text/html; charset=utf-8"]);
    for (name, value) in stays.iter().take(5) {
        assert_eq!(answer.all(name)[0], *value, "{name}");
    }
    for (name, _) in goes.iter().skip(1) {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("x-own"), None);
    assert_eq!(answer.header("x-set"), Some("1"));
    assert_eq!(answer.header("expires"), Some("0"));
    assert_eq!(answer.remaining("all"), 8);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://a.test")
    );
    assert_eq!(answer.all("set-cookie").len(), 2);
    assert_eq!(answer.all("vary").join(", "), "accept, origin");
}

#[tokio::test]
async fn accept_and_the_rules_decide_what_is_replaced() {
    // Goal: programs get the problem body; a page that does not intercept leaves the origin's answer alone, a route goes before the file,
    // and inherits pages; answers that are no errors, gRPC and the gateway's own are as ever. Method: an origin that answers with the
    // status in the path.
    let origin = Origin::answering(|request| {
        let status = request.target.rsplit('/').next().unwrap().parse().unwrap();
        Answer::new(status)
            .header("ETag", "\"1\"")
            .body("own")
            .into()
    });
    let rules = r#"
[error_pages.4xx]
html = "<p>{status}"
intercept = true

[error_pages.409]
intercept = false

[error_pages.429]
html = "<p>slow"
intercept = true

[error_pages.5xx]
html = "<p>5xx"

[[route]]
path = "/api/*"
origin = "app"
error_pages = { 4xx = { intercept = false }, 503 = { intercept = true } }

[[route]]
path = "/fixed"
respond = { status = 404, body = "fixed" }

[[route]]
path = "/*"
origin = "app"
"#;
    let gateway = Gateway::before(&origin, rules).await;
    for (path, body) in [
        ("/404", "<p>404"),
        ("/409", "own"),
        ("/429", "<p>slow"),
        ("/451", "<p>451"),
        ("/499", "<p>499"),
        ("/200", "own"),
        ("/302", "own"),
        ("/500", "own"),
        ("/503", "own"),
        ("/600", "own"),
        ("/api/404", "own"),
        // The file says of this very status that it is replaced, which goes before the kind.
        ("/api/429", "<p>slow"),
        ("/api/500", "own"),
        ("/api/503", "<p>5xx"),
        ("/fixed", "fixed"),
    ] {
        assert_eq!(gateway.send(browse(path)).await.text(), body, "{path}");
    }
    let program = gateway.get("/404").await;
    program.assert_problem(404);
    assert_eq!(
        (program.all("vary"), program.header("etag")),
        (vec!["accept"], None)
    );
    gateway.get("/499").await.assert_problem(499);
    let call = post("/404").header("Content-Type", "application/grpc");
    let call = gateway.send(call.header("Accept", BROWSER)).await;
    assert_eq!((call.status, call.text()), (404, "own"));
}

#[tokio::test]
async fn a_slow_origin_delays_no_page_and_its_connection_is_kept_if_possible() {
    // Goal: the page does not wait for the body; errors in a row cost hardly a connection, even where the body comes a moment later.
    // Method: a body that stalls, timed; before that some 100 errors over one connection each of HTTP/1.1 and HTTP/2.
    let origin = Origin::answering(|request| match &*request.target {
        "/stalls" => {
            let head = not_found("Content-Length: 99\r\n\r\nbegun");
            Reply::Pieces(vec![head, vec![b'x'; 94]], Duration::from_secs(60))
        }
        "/late" => {
            let head = not_found("Content-Length: 4\r\n\r\n");
            Reply::Pieces(vec![head, b"late".to_vec()], Duration::from_millis(20))
        }
        path => framed(path),
    });
    let gateway = Gateway::before(&origin, &route("")).await;
    let (mut old, new) = (gateway.client().await, gateway.h2c().await);
    for _ in 0..30 {
        for path in ["/length", "/none", "/chunks", "/late"] {
            assert_page(&old.send(browse(path)).await, "Not Found");
        }
    }
    // The client has its page before the origin is at its end, so its next request may find the connection taken.
    let cost = origin.connections();
    assert!(cost < 40, "{cost}");
    for _ in 0..30 {
        for path in ["/length", "/none", "/chunks"] {
            assert_page(&new.send(browse(path)).await, "Not Found");
        }
    }
    assert!(
        origin.connections() - cost < 60,
        "{cost}, {}",
        origin.connections()
    );
    let began = Instant::now();
    assert_page(&old.send(browse("/stalls")).await, "Not Found");
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_body_without_an_end_costs_the_connection_to_the_origin() {
    // Goal: the rest of a body that a page replaces is read up to a bound, however fast it comes. Method: an error whose body never ends;
    // the origin sees its connection end.
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let ended = std::sync::Mutex::new(Some(ended));
    let ended = std::sync::Arc::new(ended);
    let server = listening(move |mut stream, _| {
        let ended = std::sync::Arc::clone(&ended);
        async move {
            let head = not_found("Transfer-Encoding: chunked\r\n\r\n");
            let chunk = [&b"4000\r\n"[..], &[b'x'; 0x4000], b"\r\n"].concat();
            let _ = stream.write_all(&head).await;
            while stream.write_all(&chunk).await.is_ok() {}
            let ended = ended.lock().unwrap().take();
            let _ = ended.map(|ended| ended.send(()));
        }
    })
    .await;
    let gateway = Setup::new()
        .servers("app", &[server])
        .rules(&route(""))
        .start()
        .await;
    assert_page(&gateway.send(browse("/")).await, "Not Found");
    let ended = tokio::time::timeout(Duration::from_secs(30), has_ended).await;
    ended.expect("the connection ends").unwrap();
}

#[tokio::test]
async fn limits_tries_and_the_log_see_the_answer_of_the_origin() {
    // Goal: interception changes what clients read and nothing else. Method: a retry on 503 that succeeds, a limit that counts 404,
    // one of
    // requests in flight, and the line in the log.
    let (ill, well) = (
        Origin::answering(|_| Answer::new(503).body("ill").into()),
        Origin::answering(|request| match &*request.target {
            "/missing" => Answer::new(404).body("a body of its own").into(),
            _ => Answer::new(200).body("well").into(),
        }),
    );
    let rules = format!(
        "[limit.missing]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncount_if = \"response.status == 404\"\n\
         [limit.together]\nkey = \"client.ip\"\nrates = [\"99 per 1h\"]\nconcurrency = 1\n{}",
        route("limits = [\"missing\", \"together\"]")
    );
    let gateway = Setup::new()
        .servers("app", &[ill.address(), well.address()])
        .origin_line("retry = { on = [503], min_per_second = 1000 }")
        .rules(&rules)
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        assert_eq!(client.send(browse("/")).await.text(), "well");
    }
    assert!(ill.count() > 0);
    let missing = [
        client.send(browse("/missing")).await,
        client.send(browse("/missing")).await,
    ];
    missing
        .iter()
        .for_each(|page| assert_page(page, "Not Found"));
    assert_eq!(client.send(browse("/missing")).await.status, 429);
    let line = &gateway.lines_of(&missing).await[1];
    let page = format!("<h1>404 Not Found</h1>{}", line["id"].as_str().unwrap());
    assert_eq!(
        (&line["status"], &line["outcome"]),
        (&404.into(), &"forwarded".into()),
        "{line}"
    );
    assert_eq!(line["bytes_out"], page.len(), "{line}");
}

#[tokio::test]
async fn a_request_with_its_page_is_no_longer_in_flight() {
    // Goal: `concurrency` counts a client until its answer ends, not until the origin's does. Method: one at a time; a body that stalls
    // while the client has its page, and asks again.
    let origin = Origin::answering(|_| {
        let head = not_found("Content-Length: 99\r\n\r\nbegun");
        Reply::Pieces(vec![head, vec![b'x'; 94]], Duration::from_secs(600))
    });
    let rules = format!(
        "[limit.one]\nkey = \"client.ip\"\nrates = [\"99 per 1h\"]\nconcurrency = 1\n{}",
        route("limits = [\"one\"]")
    );
    let gateway = Gateway::before(&origin, &rules).await;
    let (mut kept, new) = (Vec::new(), gateway.h2c().await);
    for _ in 0..3 {
        let mut old = gateway.client().await;
        assert_page(&old.send(browse("/")).await, "Not Found");
        assert_page(&new.send(browse("/")).await, "Not Found");
        // Who leaves might end the request.
        kept.push(old);
    }
}

#[tokio::test]
async fn an_upgrade_passes_and_one_that_is_turned_down_gets_the_page() {
    // Goal: 101 and what follows are untouched. Method: a WebSocket; and an origin that says 403 to one.
    let origin = Origin::answering(|request| match &*request.target {
        "/no" => Answer::new(403).body("no").into(),
        _ => Reply::WebSocket,
    });
    let gateway = Gateway::before(&origin, &route("")).await;
    let url = format!("ws://{}/chat", gateway.address());
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    use futures_util::{SinkExt, StreamExt};
    socket.send("hello".into()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), "hello".into());
    let mut raw = gateway.raw().await;
    raw.write(format!(
        "GET /no HTTP/1.1\r\nHost: a\r\nAccept: {BROWSER}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ))
    .await;
    assert_page(&raw.read_response().await, "Forbidden");
}

#[tokio::test]
async fn the_errors_of_a_real_nginx_are_replaced() {
    // Goal: it works with what nginx says by itself. Method: its 404, 405 to a POST, 401 with a challenge, 503, an empty 404 over
    // HTTP/1.1,
    // and a compressed one.
    let nginx = Nginx::start(
        "default_type text/plain; gzip on; gzip_min_length 1; gzip_types *;
         location /secret { auth_basic realm; auth_basic_user_file none; }
         location /busy { add_header Retry-After 9 always; return 503 \"no, no, no, no, no, no\"; }
         location /empty { return 404 \"\"; }
         location /static { return 200 \"x\"; }
         location / { return 404; }",
    )
    .await;
    let gateway = Setup::new()
        .servers("app", &[nginx.address()])
        .rules(&route(""))
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..3 {
        for path in ["/nothing", "/empty"] {
            let ask = browse(path).header("Accept-Encoding", "gzip");
            assert_page(&client.send(ask).await, "Not Found");
        }
    }
    let secret = client.send(browse("/secret")).await;
    assert_page(&secret, "Unauthorized");
    assert_eq!(
        secret.header("www-authenticate"),
        Some("Basic realm=\"realm\"")
    );
    let busy = client
        .send(browse("/busy").header("Accept-Encoding", "gzip"))
        .await;
    assert_eq!(
        (busy.status, busy.text(), busy.retry_after()),
        (503, "<h1>503</h1>", 9)
    );
    assert_eq!(busy.header("content-encoding"), None);
    assert_eq!(client.send(browse("/static")).await.text(), "x");
}
