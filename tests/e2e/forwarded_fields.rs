//! Fields that origins read as the word of a proxy, and second spellings of names that matter: what a client may send of them.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::harness::frames::{DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, frame, head};
use crate::harness::{
    Gateway, Origin, Received, Request, Setup, eventually, free_address, get, python,
};

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// Fields of every kind, as frameworks, load balancers, CDNs and identity proxies name them.
const PROXY_FIELDS: &str = "Forwarded X-Forwarded X-Forwarded-By X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Host X-Forwarded-Path \
     X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Scheme X-Forwarded-Server X-Forwarded-Ssl X-Forwarded-Uri X-Forwarded-User \
     X-Forwarded-Client-Cert X-Original-URL X-Original-Host X-Rewrite-URL X-HTTP-Method-Override X-Real-IP X-Client-IP X-Cluster-Client-IP \
     Client-IP True-Client-IP CF-Connecting-IP CF-Visitor Fastly-Client-IP X-My-CDN-Client-IP Front-End-Https X-Url-Scheme X-Script-Name \
     SSL-Client-Cert X-SSL-Client-Verify X-Client-Cert Client-Cert X-Remote-User Remote-User X-Auth-Request-Email X-Amzn-Oidc-Identity \
     X-Ms-Client-Principal X-Envoy-Original-Path X-Appengine-User-Email X-Azure-SocketIP X-Arr-SSL WL-Proxy-SSL Proxy Https X-Forward-For \
     X-Middleware-Subrequest X-Sendfile-Type X-Accel-Mapping Surrogate-Capability X_Forwarded_Prefix X-Forwarded_Host Remote_User \
     SSL_CLIENT_CERT \
     X.Real.IP X_Tenant $WSRA";

fn with_all(request: Request, names: &str) -> Request {
    let add = |request: Request, name: &str| request.header(name, "203.0.113.7");
    names.split_whitespace().fold(request, add)
}

/// Those of `names` that the origin got.
fn passed(echo: &Received, names: &str) -> Vec<String> {
    let names = names.split_whitespace().map(str::to_lowercase);
    names.filter(|name| echo.header(name).is_some()).collect()
}

#[tokio::test]
async fn no_client_has_the_word_of_a_proxy() {
    // Goal: what origins read as a proxy's word comes from no client: not directly, over neither version of HTTP, and not through a
    // trusted proxy that passes it on. Method: every field, from an untrusted and from a trusted peer; the echo.
    let origin = Origin::echo();
    let rules = format!("[client]\ntrusted_proxies = [\"127.0.0.9\"]\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let request = || with_all(get("/").forwarded_for("192.0.2.1"), PROXY_FIELDS);
    let echo = gateway.send(request()).await.echo();
    assert_eq!(passed(&echo, PROXY_FIELDS), [""; 0]);
    assert_eq!(echo.header("x-forwarded-for"), Some("127.0.0.1"));
    let echo = gateway.h2c().await.send(request()).await.echo();
    assert_eq!(passed(&echo, PROXY_FIELDS), [""; 0]);
    let mut proxy = gateway.client_from("127.0.0.9").await;
    let echo = proxy.send(request()).await.echo();
    assert_eq!(passed(&echo, PROXY_FIELDS), [""; 0]);
    let chain = echo.all("x-forwarded-for").join(", ");
    assert_eq!(chain, "192.0.2.1, 127.0.0.9");
}

#[tokio::test]
async fn a_trusted_proxy_writes_what_the_operator_lists() {
    // Goal: `trusted_headers`: names and families from trusted peers, in the listed spelling alone, and from no other peer. Method: both
    // kinds of peers; without a list the scheme passes alone.
    let origin = Origin::echo();
    let sent = "X-Forwarded-Host X_Forwarded_Host CF-Ray CF-Visitor X-User-Id X-Real-IP X-Forwarded-Prefix";
    let rules = format!(
        "[client]\ntrusted_proxies = [\"127.0.0.9\"]\ntrusted_headers = [\"x-forwarded-host\", \"cf-*\", \"x-user-id\"]\n{PASS}"
    );
    let gateway = Gateway::before(&origin, &rules).await;
    let request = |names| with_all(get("/"), names).header("X-Forwarded-Proto", "https");
    let mut proxy = gateway.client_from("127.0.0.9").await;
    let echo = proxy.send(request(sent)).await.echo();
    let kept = ["x-forwarded-host", "cf-ray", "cf-visitor", "x-user-id"];
    assert_eq!(passed(&echo, sent), kept);
    assert_eq!(echo.header("x-forwarded-proto"), Some("http"));
    let echo = gateway.send(request(sent)).await.echo();
    assert_eq!(passed(&echo, sent), [""; 0]);

    let rules = format!("[client]\ntrusted_proxies = [\"127.0.0.9\"]\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut proxy = gateway.client_from("127.0.0.9").await;
    for (said, kept) in [
        ("https", "https"),
        ("http, HTTPS", "https"),
        ("ftp", "http"),
    ] {
        let request = get("/").header("X-Forwarded-Proto", said);
        let echo = proxy.send(request).await.echo();
        assert_eq!(echo.header("x-forwarded-proto"), Some(kept), "{said}");
    }
}

#[tokio::test]
async fn the_chain_is_sent_whatever_field_has_the_address() {
    // Goal: a client's X-Forwarded-For never passes through a proxy that sends the address in another field. Method: a field with one
    // address and
    // `Forwarded`; the origin's chain is the client and the peer.
    let origin = Origin::echo();
    for (source, value) in [
        ("cf-connecting-ip", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
    ] {
        let rules = format!(
            "[client]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip_header = \"{source}\"\n{PASS}"
        );
        let gateway = Gateway::before(&origin, &rules).await;
        let request = get("/").forwarded_for("6.6.6.6").header(source, value);
        let echo = gateway.send(request).await.echo();
        let chain = echo.all("x-forwarded-for").join(", ");
        assert_eq!(chain, "203.0.113.9, 127.0.0.1", "{source}");
        let told = echo.all(source).join(", ");
        assert!(told.starts_with(value), "{told}");
    }
}

#[tokio::test]
async fn an_odd_spelling_is_no_way_around_a_key() {
    // Goal: a limit counts by the field that the origin reads. Method: a fresh key in the counted spelling beside the real one in
    // spellings
    // that CGI folds; what the origin got in any spelling is what was counted. The same for a match, a `set`, a `remove` and a mark.
    let origin = Origin::echo();
    let rules = r#"
[request_headers]
set = { x-tenant = "shop" }
remove = ["x-debug-user"]
[limit.key]
key = "header.x-api-key"
on_missing = "refuse"
rates = ["2 per 1d"]
[limit.soft]
key = "global"
rates = ["1 per 1d"]
action = "mark"
mark = { header = "x-over-limit" }
[[route]]
path = "/*"
headers = { x-plan = "free" }
limits = ["key", "soft"]
origin = "app"
"#;
    for underscores in ["strip", "pass"] {
        let rules = format!("[server]\nunderscores = \"{underscores}\"\n{rules}");
        let gateway = Gateway::before(&origin, &rules).await;
        let odd = "X_Api_Key X-Api_Key X.Api.Key X!Api~Key x_plan X_Tenant X_Debug_User X-Over_Limit X_Request_Id Content_Type";
        let request = |key: &str| {
            with_all(get("/"), odd)
                .header("X-Plan", "free")
                .header("X-Api-Key", key)
                .header("X_Harmless", "1")
        };
        for n in 0..10 {
            let echo = gateway.send(request(&format!("k{n}"))).await.echo();
            assert_eq!(passed(&echo, odd), [""; 0]);
            assert_eq!(echo.header("x-tenant"), Some("shop"));
            let passes = echo.header("x_harmless").is_some();
            assert_eq!(passes, underscores == "pass");
        }
        // Alone it is no key, and no match.
        let alone = get("/")
            .header("X-Plan", "free")
            .header("X_Api_Key", "real");
        assert_eq!(gateway.send(alone).await.status, 400);
        let alone = get("/")
            .header("X_Plan", "free")
            .header("X-Api-Key", "real");
        assert_eq!(gateway.send(alone).await.status, 404);
        for status in [200, 200, 429, 429] {
            assert_eq!(gateway.send(request("real")).await.status, status);
        }
    }
}

#[tokio::test]
async fn a_name_that_the_operator_writes_with_underscores_passes_so() {
    // Goal: an application that wants underscores has them, in one spelling. Method: a key with underscores, both dashes.
    let origin = Origin::echo();
    let rules = "[limit.key]\nkey = \"header.api_key\"\non_missing = \"skip\"\nrates = [\"2 per 1d\"]\n[[route]]\npath = \"/*\"\n\
                 limits = [\"key\"]\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    for n in 0..4 {
        let request = get("/")
            .header("api_key", "real")
            .header("Api-Key", &format!("{n}"));
        let answer = gateway.send(request).await;
        assert_eq!(answer.status, if n < 2 { 200 } else { 429 });
        if n < 2 {
            let echo = answer.echo();
            let seen = (echo.header("api_key"), echo.header("api-key"));
            assert_eq!(seen, (Some("real"), None));
        }
    }
}

#[tokio::test]
async fn any_number_of_rejected_names_over_http2_is_removed() {
    // Goal: a head of HTTP/2, whose fields are counted after the review, gets rid of every rejected one. Method: as many as fit into a
    // head, each name twice, around one that passes.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let sent = (0..500).fold(get("/"), |request, n| {
        let request = match n {
            250 => request.header("x-plan", "free"),
            _ => request,
        };
        request.header(&format!("x_{}", n / 2), "v")
    });
    let answer = gateway.h2c().await.send(sent).await;
    assert_eq!(answer.status, 200);
    let echo = answer.echo();
    assert_eq!(echo.header("x-plan"), Some("free"));
    let names = (0..250).map(|n| format!("x_{n}"));
    assert!(names.into_iter().all(|name| echo.header(&name).is_none()));
}

#[tokio::test]
async fn two_lengths_over_http2_reach_no_origin() {
    // Goal: a body of HTTP/2 has one length for an origin that speaks HTTP/1.1 (RFC 9113 §8.1.1). Method: lengths that are equal, padded,
    // signed or a list, byte by byte; the origin gets none of them, or one plain number.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    for lengths in [
        &["2", "2"][..],
        &["2", "02"],
        &["2", "3"],
        &["2, 2"],
        &["+2"],
        &[""],
        &["02"],
        &["0000000000000000000000000000000000000002"],
    ] {
        let before = origin.count();
        let mut frames = Frames::connect(gateway.address()).await;
        let more: Vec<(&[u8], &[u8])> = lengths
            .iter()
            .map(|length| (&b"content-length"[..], length.as_bytes()))
            .collect();
        let block = head(b"POST", b"/", &more);
        frames.write(&frame(HEADERS, END_HEADERS, 1, &block)).await;
        // The gateway may have ended the connection by now.
        let _ = frames.try_write(&frame(DATA, END_STREAM, 1, b"ab")).await;
        let fate = frames.fate(1).await;
        let asked = origin.requests().split_off(before);
        let told: Vec<_> = asked
            .iter()
            .map(|request| request.all("content-length"))
            .collect();
        match fate {
            Fate::Answered(200) => assert_eq!(told, [["2"]], "{lengths:?}"),
            _ => assert!(told.is_empty(), "{lengths:?}: {told:?}"),
        }
        if lengths.len() > 1 {
            assert_ne!(fate, Fate::Answered(200), "{lengths:?}");
        }
    }
}

/// A real Flask behind `ProxyFix` that links its script by the host and the prefix that it is told.
struct Flask {
    child: Child,
    address: SocketAddr,
}

impl Flask {
    async fn start() -> Self {
        const APP: &str = "import sys\n\
            from flask import Flask, Response, url_for\n\
            from werkzeug.middleware.proxy_fix import ProxyFix\n\
            app = Flask(__name__)\n\
            app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1, x_host=1, x_port=1, x_prefix=1)\n\
            @app.get('/')\n\
            def page():\n    \
                link = url_for('static', filename='app.js', _external=True)\n    \
                return Response(link, headers={'Cache-Control': 'public, max-age=60'})\n\
            app.run('127.0.0.1', int(sys.argv[1]))\n";
        let address = free_address();
        let child = Command::new(python("flask"))
            .args(["-c", APP, &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut flask = Self { child, address };
        eventually("Flask accepts", async || {
            let ended = flask.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "Flask does not start; `./dev test` installs it"
            );
            tokio::net::TcpStream::connect(address).await.ok()
        })
        .await;
        flask
    }
}

impl Drop for Flask {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn no_client_poisons_a_stored_page_of_flask() {
    // Goal: what a framework makes of forwarded fields is not stored for everybody. Method: a real Flask with ProxyFix behind the
    // cache; a
    // stranger, and a client of a trusted proxy that only appends the address, ask first with a host, prefix and port of their own.
    let flask = Flask::start().await;
    for trusted in ["127.0.0.9", "127.0.0.1"] {
        let rules = format!(
            "[client]\ntrusted_proxies = [\"{trusted}\"]\n[[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n"
        );
        let gateway = Setup::new()
            .servers("app", &[flask.address])
            .rules(&rules)
            .start()
            .await;
        let asked = || {
            get("/")
                .header("Host", "shop.test")
                .forwarded_for("192.0.2.1")
        };
        let attack = asked()
            .header("X-Forwarded-Host", "evil.test")
            .header("X-Forwarded-Prefix", "//evil.test")
            .header("X-Forwarded-Port", "666")
            .header("X_Forwarded_Prefix", "/evil");
        for request in [attack, asked()] {
            let page = gateway.send(request).await;
            assert_eq!(page.text(), "http://shop.test/static/app.js");
        }
    }
}
