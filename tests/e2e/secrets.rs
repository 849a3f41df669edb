//! No reader of the gateway learns a secret of its configuration.

use crate::harness::*;

/// What each secret of these files begins with.
const MARK: &str = "hunter2";

/// A configuration with a secret, which ends like this, at each place that can have one.
fn rules(ending: &str) -> String {
    let secret = format!("{MARK}-{ending}");
    format!(
        r#"
# login alice / {secret}
# of the old gateway

# set = {{ x-proof = "{secret}" }}
[request_headers]
set = {{ authorization = "Bearer {secret}" }} # {secret}
add = {{ x-origin-verify = "{secret}" }}
[response_headers]
set = {{ x-edge = "{secret}" }}
[limit.otp]
key = "client.ip"
rates = ["5 per 1h"]
refusal = {{ headers = {{ x-proof = "{secret}" }} }}
[origin.app]
servers = ["127.0.0.1:1"]
health = {{ path = "/healthz?key={secret}", interval = "20ms" }}
[[route]]
path = "/verified"
headers = {{ x-verify = "{secret}" }}
query = {{ key = "{secret}", any = "*" }}
limits = ["otp"]
origin = "app"
request_headers = {{ add = {{ x-route-proof = "{secret}" }} }}
[[route]]
path = "/moved"
redirect = {{ to = "https://a.example/?next=https://v:{secret}@b.example/&token={secret}" }}
[[route]]
path = "/fixed"
respond = {{ status = 200, headers = {{ x-proof = "{secret}" }} }}
[[route]]
path = "/*"
origin = "app"
"#
    )
}

/// Tables and values that are refused, each with a secret, and a part of what is said of them.
const REFUSED: [(&str, &str); 10] = [
    (
        "[store]\nurl = 'redi://u:hunter2-no@h:1/0'\n",
        ": store.url: ",
    ),
    (
        "[store]\nurl = 'redis://h:1/0'\npassword = 'hunter2-no'\n",
        ": store.password: ",
    ),
    ("[store]\npassword = hunter2-no\n", "is not a value"),
    (
        "[store]\npassword = 'hunter2-no\n",
        "the string does not end",
    ),
    (
        "[cors]\norigins = ['https://u:hunter2-no@h/']\n",
        ": cors.origins[0]: ",
    ),
    (
        "[[route]]\npath = '/y'\nheaders = 'hunter2-no'\norigin = 'app'\n",
        "].headers: ",
    ),
    (
        "[[route]]\npath = '/y'\nquery = { a = ['hunter2-no'] }\norigin = 'app'\n",
        "].query.a: ",
    ),
    (
        "[[route]]\npath = '/y'\nredirect = { to = 'ftp://h/?a=hunter2-no' }\n",
        "].redirect.to: ",
    ),
    (
        "[[route]]\npath = '/y'\norigin = 'app'\nrequest_headers = { set = { a = \"hunter2-no {none}\" } }\n",
        "].request_headers.set.a: ",
    ),
    (
        "[origin.b]\nservers = ['u:hunter2-no@h:1']\n",
        ": origin.b.servers[0]: ",
    ),
];

/// Everything that a reader of the running gateway can see, with the name of the place.
async fn seen(gateway: &Gateway) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let verified = "/explain?url=/verified%3Fkey%3Dno%26any%3D1&header=x-verify%3A%20no";
    for path in [
        "/config",
        "/status",
        "/routes",
        "/origins",
        "/limits",
        "/metrics",
        "/usage",
        verified,
        "/explain?url=/moved",
        "/explain?url=/fixed",
    ] {
        let text = gateway.admin(get(path)).await.text().to_owned();
        seen.push((path.to_owned(), text));
    }
    let url = format!("http://{}", gateway.admin_address());
    for json in [&[][..], &["--json"]] {
        let arguments = [&["top", &url, "--once", "--interval", "0.2"], json].concat();
        let mut top = Process::run(&arguments);
        assert_eq!(top.exit_code().await, 0, "{}", top.stderr());
        seen.push(("top".to_owned(), top.stdout()));
    }
    let mut stream = RawConnection::connect(gateway.admin_address()).await;
    let host = gateway.admin_address();
    let ask = format!("GET /events HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write(&ask).await;
    stream.read_response_to_head().await;
    let event = String::from_utf8(stream.read_chunk().await).unwrap();
    seen.push(("/events".to_owned(), event));
    seen.push(("process log".to_owned(), gateway.stderr()));
    seen
}

async fn assert_nothing_is_seen(gateway: &Gateway) {
    for (place, text) in seen(gateway).await {
        assert!(!text.is_empty(), "{place}");
        let at = text.find(MARK).map(|at| {
            let start = text.floor_char_boundary(at.saturating_sub(200));
            &text[start..text.ceil_char_boundary((at + 60).min(text.len()))]
        });
        assert_eq!(at, None, "{place}");
    }
}

#[tokio::test]
async fn no_reader_sees_a_secret_of_the_configuration() {
    // Goal: what operators read, share and ship to a log store has no secret. Method: a secret at each place; all that the admin
    // listener, the log and `top` say of the start, of a reload that changes every secret, and of reloads that are refused because of one.
    let mut gateway = Gateway::start(&rules("a")).await;
    let reload = post("/reload");
    assert_nothing_is_seen(&gateway).await;
    let page = gateway.admin(get("/config")).await.json();
    let route = &page["configuration"]["route"][1];
    assert_eq!(route["redirect"]["to"], "https://(secret)");
    let text = page["files"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("add = { x-origin-verify = \"(secret)\" }\n"),
        "{text}"
    );

    gateway.write_rules(&rules("b"), Writing::Rename);
    let answer = gateway.admin(reload.clone()).await;
    let changes = answer.json()["changes"].to_string();
    assert!(!answer.text().contains(MARK), "{changes}");
    for place in [
        "request_headers.set.authorization",
        "request_headers.add.x-origin-verify",
        "limit.otp.refusal.headers.x-proof",
        "origin.app.health.path",
        "route /verified x-verify any, key.headers.x-verify",
        "route /verified x-verify any, key.query.key",
        "route /moved.redirect.to",
        "route /fixed.respond.headers.x-proof",
    ] {
        let change = format!("{place}: changed, value hidden");
        assert!(changes.contains(&change), "{change} in {changes}");
    }
    assert_nothing_is_seen(&gateway).await;

    for (wrong, told) in REFUSED {
        gateway.write_rules(&format!("{}{wrong}", rules("b")), Writing::Rename);
        let answer = gateway.admin(reload.clone()).await;
        assert_eq!(answer.status, 422, "{}", answer.text());
        let error = answer.json()["error"].to_string();
        assert!(error.contains(told), "{told} in {error}");
        assert_nothing_is_seen(&gateway).await;
    }
}
