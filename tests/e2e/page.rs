//! The operator's page at `/ui/`, in a real browser: what each view shows and changes, and what it is protected from.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";

/// A limit of two an hour that bans, and a route that answers by itself.
const OTP: &str = "[limit.otp]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncapacity = 1024\nban = { for = \"1h\" }\n\
                   [[route]]\nname = \"login\"\npath = \"/login\"\nlimits = [\"otp\"]\nrespond = { status = 200 }\n";

/// What `/limits/NAME/usage` answers, put in the place of the gateway's own answer before the page loads.
const USAGE: &str = r#"{"limit":"otp","at":"2026-11-25T09:00:00.000Z","algorithm":"sliding-window","rates":[{"rate":"20 per 1m",
    "limit":20,"window_seconds":60,"keys":600,"sampled":false,"peaks":[{"used":1,"keys":500},{"used":5,"keys":60},
    {"used":12,"keys":30},{"used":20,"keys":10}]}],"shadow_rates":[{"rate":"50 per 1m","limit":50,"window_seconds":60,"keys":600,
    "sampled":true,"complete_above":28,"keys_error":40,"peaks":[{"used":1,"keys":595},{"used":30,"keys":5}]}],"banned_keys":1}"#;

fn guarded(rules: &str) -> Setup {
    Setup::new().tokens(TOKEN).rules(rules)
}

#[tokio::test]
async fn the_overview_shows_a_rejection_as_it_happens() {
    // Goal: an operator sees a limit at work within a second, from a page that is small, comes from the gateway alone, and breaks none of
    // its own policies. Method: a page that is open while requests are rejected; the sizes of all that it loaded.
    let gateway = Gateway::start(OTP).await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("")).await;
    page.shows("Requests a second").await;
    page.shows("None since this page was opened.").await;
    let mut client = gateway.client().await;
    for status in [200, 200, 429, 429, 429] {
        assert_eq!(client.get("/login").await.status, status);
    }
    let row =
        "[...document.querySelectorAll('section[aria-label=\"Latest rejections\"] tbody tr')]";
    page.until(&format!("{row}.length === 3")).await;
    page.until(&format!("{row}[0].textContent.includes('127.0.0.1')"))
        .await;
    page.until(&format!("{row}[0].textContent.includes('429')"))
        .await;
    let by_limit = "document.querySelector('section[aria-label^=\"Rejections by limit\"] tbody')";
    page.until(&format!("{by_limit}?.textContent.startsWith('otp3')"))
        .await;
    page.go(&gateway.ui("rejections")).await;
    page.until("document.querySelectorAll('[role=log] tbody tr').length === 3")
        .await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    let own = format!("http://{}/", gateway.admin_address());
    let strangers = page
        .loaded()
        .keys()
        .find(|address| !address.starts_with(&own));
    assert_eq!(strangers, None);
    let bytes: u64 = page.loaded().values().sum();
    assert!((20_000..155_000).contains(&bytes), "{:?}", page.loaded());
}

/// Waits until the sample of a limit has a key: a page that reads the usage before asks again only after ten seconds.
async fn has_usage(gateway: &Gateway, limit: &str) {
    eventually("the key is in the sample", async || {
        let usage = gateway.admin(get(&format!("/limits/{limit}/usage"))).await;
        (usage.json()["rates"][0]["keys"] == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_limit_shows_its_keys_and_what_another_number_would_do() {
    // Goal: an operator chooses a number by looking. Method: the view of a limit after rejections; the slider over known usage, below and
    // above the number in force, and under the rates in shadow; and the gateway's own usage.
    let gateway = Gateway::start(OTP).await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        client.get("/login").await;
    }
    let browser = Browser::start().await;
    let mut page = browser.tab().await;
    let insert = format!(
        "{{ const own = window.fetch; window.fetch = (url, ...rest) => String(url).endsWith('/limits/otp/usage') \
         ? Promise.resolve(new Response({})) : own(url, ...rest); }}",
        json!(USAGE)
    );
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({ "source": insert }),
    )
    .await;
    page.go(&gateway.ui("limit/otp")).await;
    page.until("document.querySelectorAll('section[aria-label=Keys] tbody tr').length === 1")
        .await;
    page.shows("0 of 2 per 1h").await;
    page.shows("Rejected by a ban").await;
    page.shows("At today's 20 per 1m, at most 10 keys of 600 (1.7 %) could be hit.")
        .await;
    page.fill("input[type=range]", "4").await;
    page.shows("At 4 per 1m, 100 keys of 600 (17 %) would have been hit.")
        .await;
    page.until("document.querySelectorAll('.bar.hit').length > 0")
        .await;
    page.fill("input[type=number]", "30").await;
    page.shows("At 30 per 1m, no more keys than today would be hit: at most 10 keys.")
        .await;
    page.shows("may have wanted more").await;
    page.fill("main select", "1m, in shadow").await;
    page.shows("At shadow's 50 per 1m, at most 0 keys of 600 (0 %) could be hit.")
        .await;
    page.fill("input[type=range]", "25").await;
    page.shows("At 25 per 1m, about 5 keys of 600 (0.8 %) would have been hit.")
        .await;
    page.shows("Keys that used more than 28 are counted one by one, the others estimated: all keys within 40. 1 key is banned now.")
        .await;
    page.fill("input[type=range]", "28").await;
    page.shows("At 28 per 1m, 5 keys of 600 (0.8 %) would have been hit.")
        .await;
    assert_eq!(page.complaints().await, Vec::<String>::new());

    has_usage(&gateway, "otp").await;
    let mut own = browser.open(&gateway.ui("limit/otp")).await;
    own.shows("At today's 2 per 1h, at most 1 key of 1 (100 %) could be hit.")
        .await;
    assert_eq!(own.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_number_of_a_bucket_is_what_it_holds() {
    // Goal: the slider says what it means for a limit without windows, and keeps a number while the stream begins anew. Method: two
    // requests under a burst of three; the number in force, and a lower one; a reload that changes nothing, and a request behind it.
    let lines = "rates = [\"20 per 1h\"]\nalgorithm = \"gcra\"\nburst = 3";
    let rules = limit("bucket", &["client.ip"], lines) + &route("/login", &["bucket"], ANSWERED);
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    for _ in 0..2 {
        assert_eq!(client.get("/login").await.status, 200);
    }
    has_usage(&gateway, "bucket").await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limit/bucket")).await;
    page.shows("At today's bucket of 3 at 20 per 1h, at most 0 keys of 1 (0 %) could be hit.")
        .await;
    page.fill("input[type=range]", "1").await;
    page.shows("At a bucket of 1 at 20 per 1h, 1 key of 1 (100 %) would have been hit.")
        .await;
    page.shows("a key may have used up to 1 more than is shown")
        .await;
    assert_eq!(gateway.admin(post("/reload")).await.status, 200);
    assert_eq!(client.get("/login").await.status, 200);
    let admitted = "document.querySelector('section[aria-label=Decisions] tbody td')?.textContent";
    page.until(&format!("{admitted} === '3'")).await;
    let number = page.value("document.querySelector('input[type=range]').value");
    assert_eq!(number.await, "1");
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_key_is_cleared_banned_and_released_with_the_token() {
    // Goal: an operator helps a customer from the page, and every action is logged. Method: a wrong token and the right one; an address
    // that is banned: clear it, ban it by hand, lift the ban; the client's answers in between.
    let gateway = guarded(OTP).start().await;
    let mut client = gateway.client().await;
    for status in [200, 200, 429, 429] {
        assert_eq!(client.get("/login").await.status, status);
    }
    let browser = Browser::start().await;
    let view = "keys?value=127.0.0.1";
    let mut page = browser.signed_in(&gateway, "wrong", view).await;
    page.shows("does not take this token").await;
    drop(page);

    let mut page = browser.signed_in(&gateway, TOKEN, view).await;
    page.is_live().await;
    assert_eq!(page.complaints_but(&[401]).await, Vec::<String>::new());
    page.shows("1 of 1 limit would reject the next request.")
        .await;
    page.shows("rejects: banned for").await;
    page.press("main", "Clear").await;
    page.press("dialog[open]", "Clear").await;
    page.shows("The one limit that counts by this value alone would not reject the next request.")
        .await;
    assert_eq!(client.get("/login").await.status, 200);
    page.press("main", "Ban").await;
    page.fill("dialog[open] input[name=for]", "29m60s").await;
    page.fill("dialog[open] input[name=reason]", "a case of support")
        .await;
    page.press("dialog[open]", "Ban").await;
    page.shows("rejects: banned for 30 min more").await;
    assert_eq!(client.get("/login").await.status, 429);
    page.go(&gateway.ui("limit/otp")).await;
    page.press("section[aria-label=Bans]", "Lift").await;
    page.press("dialog[open]", "Lift").await;
    page.shows("No key is banned.").await;
    assert_eq!(client.get("/login").await.status, 200);
    let log = gateway.stderr();
    for act in [
        "cleared key",
        "banned for 1800 s key",
        "reason \"a case of support\"",
        "lifted the ban of key",
    ] {
        assert!(log.contains("audit: limit otp: admin (127.0.0.1:"), "{log}");
        assert!(log.contains(act), "{act}: {log}");
    }
    let kept = page.value("[document.cookie, localStorage.length]").await;
    assert_eq!(kept, json!(["", 0]), "the token is in the tab alone");
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn without_a_token_file_the_page_only_reads_and_says_why() {
    // Goal: an open gateway can be looked at and not changed. Method: the notice, the buttons, and the gateway's own answer.
    let gateway = Gateway::start(OTP).await;
    gateway.get("/login").await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("keys?value=127.0.0.1")).await;
    page.shows("Read-only: [admin] token_file is not set").await;
    page.until("document.querySelectorAll('[role=group] button').length === 3")
        .await;
    page.until(
        "[...document.querySelectorAll('[role=group] button')].every((button) => button.disabled)",
    )
    .await;
    let clear = delete("/limits/otp/keys?value=127.0.0.1");
    assert_eq!(gateway.admin(clear).await.status, 403);
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_form_explains_a_request_as_the_command_line_does() {
    // Goal: one question has one answer, whoever asks. Method: the form, the endpoint and `sluicegate explain`.
    let gateway = Gateway::start(OTP).await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("explain")).await;
    page.fill("input[name=method]", "POST").await;
    page.fill("input[name=url]", "http://a.test/login?x=1 2&y=%2B")
        .await;
    page.fill("input[name=client]", "203.0.113.7").await;
    page.fill("textarea[name=headers]", "X-Plan: a+b\nX-Other: c")
        .await;
    page.press("main", "Explain").await;
    page.shows("is not a request").await;
    page.fill("input[name=url]", "http://a.test/login?y=%2B")
        .await;
    page.press("main", "Explain").await;
    page.shows("Answered by the gateway with 200").await;
    page.shows("203.0.113.7, the peer of the connection").await;
    assert_eq!(page.complaints_but(&[400]).await, Vec::<String>::new());

    let query = "/explain?method=POST&url=http%3A%2F%2Fa.test%2Flogin&client=203.0.113.7";
    let answer = gateway.admin(get(query)).await.json();
    let config = gateway.config_path();
    let request = "POST http://a.test/login";
    let file = config.to_str().unwrap();
    let arguments = [
        "explain",
        file,
        "--request",
        request,
        "--client",
        "203.0.113.7",
        "--json",
    ];
    let mut command = Process::run(&arguments);
    assert_eq!(command.exit_code().await, 0, "{}", command.stderr());
    let told: Value = serde_json::from_str(&command.stdout()).unwrap();
    assert_eq!(answer, told["request"]);
    assert_eq!(answer["route"], "login");
    assert_eq!(gateway.admin(get("/explain?url=x")).await.status, 400);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_limit_admitted_total", &[]), 0.0);
}

#[tokio::test]
async fn a_thousand_limits_are_shown_and_found() {
    // Goal: a large configuration is no burden for browser or gateway. Method: a thousand limits on routes of their own; the table of all,
    // a filter, a rejection by one of them, and the values of a key under all.
    let limit = |at: usize| {
        format!(
            "[limit.l{at}]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\ncapacity = 64\n\
             [[route]]\npath = \"/l{at}\"\nlimits = [\"l{at}\"]\nrespond = {{ status = 200 }}\n"
        )
    };
    let rules: String = (0..1000).map(limit).collect();
    let gateway = Gateway::start(&rules).await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limits")).await;
    page.until("document.querySelectorAll('main tbody tr').length === 1000")
        .await;
    let mut client = gateway.client().await;
    for status in [200, 429, 429] {
        assert_eq!(client.get("/l777").await.status, status);
    }
    page.fill("input[type=search]", "l777").await;
    page.shows("1 of 1,000 limits").await;
    page.until("document.querySelector('main tbody tr').textContent.includes('–2')")
        .await;
    // Each table is sampled in its turn.
    page.until("document.querySelector('main tbody tr td:last-child').textContent === '1.6 %'")
        .await;
    page.go(&gateway.ui("keys?value=127.0.0.1")).await;
    page.shows("1 of 1,000 limits would reject the next request.")
        .await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn every_view_fits_on_a_phone() {
    // Goal: an operator who is called at night reads the page on a phone. Method: each view at 390 pixels, with a rejection and a ban.
    let gateway = Gateway::start(OTP).await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        client.get("/login").await;
    }
    let browser = Browser::start().await;
    let mut page = browser.tab().await;
    page.becomes_a_phone().await;
    for (view, shows) in [
        ("", "Requests a second"),
        ("limits", "1 of 1 limits"),
        ("limit/otp", "Keys nearest to the limit"),
        ("keys?value=127.0.0.1", "rejects: banned"),
        ("explain?url=/login", "Answered by the gateway with 200"),
        ("configuration", "answered by the gateway with 200"),
        ("rejections", "Rejections, live"),
    ] {
        page.go(&gateway.ui(view)).await;
        page.shows(shows).await;
        let wide = page.value("document.documentElement.scrollWidth").await;
        assert!(wide.as_u64().unwrap() <= 390, "{view}: {wide} pixels");
    }
    // A rejection is one line, whatever the length of its client.
    client.get("/login").await;
    let row = "document.querySelector('[role=log] tbody tr')";
    page.until(row).await;
    let client = format!(
        "{row}.querySelector('code').textContent = '2001:db8:1234:5678:9abc:def0:1234:5678'"
    );
    page.value(&client).await;
    let high = page.value(&format!("{row}.offsetHeight")).await;
    assert!(high.as_u64().unwrap() < 45, "{high} pixels");
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_keyboard_reaches_what_the_mouse_does() {
    // Goal: an operator without a mouse looks a key up. Method: the link that skips the navigation, the entry of a view, and the form of
    // that view, by Tab and Enter alone.
    let gateway = Gateway::start(OTP).await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limits")).await;
    page.shows("1 of 1 limits").await;
    page.key("Tab").await;
    page.until("document.activeElement.className === 'skip'")
        .await;
    page.key("Enter").await;
    page.until("document.activeElement.id === 'main'").await;
    page.shows("1 of 1 limits").await;
    page.value("document.querySelector('.brand').focus()").await;
    for entry in ["Overview", "Limits", "Keys"] {
        page.key("Tab").await;
        page.until(&format!("document.activeElement.textContent === '{entry}'"))
            .await;
    }
    page.key("Enter").await;
    page.until("document.activeElement.id === 'main' && document.querySelector('textarea')")
        .await;
    page.key("Tab").await;
    page.until("document.activeElement.name === 'value'").await;
    page.fill("textarea", "127.0.0.1").await;
    page.key("Tab").await;
    page.key("Enter").await;
    page.shows("The one limit that counts by this value alone would not reject the next request.")
        .await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn only_known_names_of_the_listener_are_answered() {
    // Goal: a web site that gives its own name to the listener's address reads nothing, and an operator learns what to write. Method:
    // names with and without the token; then the name in the configuration.
    let mut gateway = guarded(OTP).start().await;
    let named = |path: &str| get(path).header("host", "gateway.internal:9180");
    assert_eq!(
        gateway.admin(named("/status").bearer(TOKEN)).await.status,
        200
    );
    assert_eq!(gateway.admin(named("/status")).await.status, 401);
    let refused = gateway.admin(named("/ui/")).await;
    assert_eq!(refused.status, 421);
    let error = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("write [admin] hosts = [\"gateway.internal\"]"),
        "{error}"
    );
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(gateway.admin(named(probe)).await.status, 200);
    }
    let before = gateway.admin(get("/config").bearer(TOKEN)).await.json()["generation"].clone();
    let setup = Setup::new()
        .admin_line("hosts = [\"Gateway.Internal\"]")
        .rules(OTP);
    gateway.write_setup(setup, Writing::Rename);
    eventually("the name is taken", async || {
        (gateway.admin(named("/config")).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(gateway.admin(named("/ui/")).await.status, 200);
    assert!(gateway.generation().await > before.as_u64().unwrap());
    for stranger in ["evil.example", "gateway.internal.evil.example"] {
        let ask = |path: &str| get(path).header("host", stranger);
        assert_eq!(
            gateway.admin(ask("/status")).await.status,
            421,
            "{stranger}"
        );
        assert_eq!(
            gateway.admin(ask("/metrics")).await.status,
            200,
            "{stranger}"
        );
    }
}

#[tokio::test]
async fn a_page_of_another_site_reloads_nothing() {
    // Goal: the operator's browser is no tool of other sites. Method: a page of another origin posts as forms and scripts can; the same
    // from the gateway's own page; then the fields alone.
    let gateway = Gateway::start(OTP).await;
    let browser = Browser::start().await;
    let mut page = browser
        .open(&format!("http://{}/login", gateway.address()))
        .await;
    let reload = format!("http://{}/reload", gateway.admin_address());
    let attempt = format!(
        "fetch('{reload}', {{ method: 'POST', mode: 'no-cors' }}).then(() => 'sent', () => 'sent')"
    );
    assert_eq!(page.value(&attempt).await, "sent");
    let last = async || gateway.status().await["configuration"]["last_reload"].clone();
    assert_eq!(last().await, Value::Null);
    let own = format!("http://{}", gateway.admin_address());
    for (origin, status) in [("http://evil.example", 403), ("null", 403), (&*own, 200)] {
        let posted = post("/reload").header("origin", origin);
        assert_eq!(gateway.admin(posted).await.status, status, "{origin}");
    }
    assert_eq!(last().await["result"], "ok");
    let mut page = browser.open(&gateway.ui("configuration")).await;
    page.press("main", "Reload").await;
    page.shows("Reloaded: nothing changed.").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn streams_are_bounded_harm_no_request_and_end_at_the_drain() {
    // Goal: pages that nobody reads cost clients nothing, and keep no process alive. Method: as many streams as may be, none of them read
    // while requests are rejected at full speed; one more; one less; then a drain.
    let mut gateway = Setup::new().without_access_log().rules(OTP).start().await;
    let ask = format!(
        "GET /events HTTP/1.1\r\nhost: {}\r\n\r\n",
        gateway.admin_address()
    );
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = RawConnection::connect(gateway.admin_address()).await;
        stream.write(&ask).await;
        let head = stream.read_response_to_head().await;
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        streams.push(stream);
    }
    assert_eq!(gateway.admin(get("/events")).await.status, 503);
    let flood = Wrk::for_duration(std::time::Duration::from_secs(3));
    let report = flood.run(gateway.address(), "/login").await;
    assert_eq!(report.socket_errors, 0, "{}", report.text);
    assert!(report.requests > 1000, "{}", report.text);
    streams.pop();
    eventually("a stream is free", async || {
        let mut stream = RawConnection::connect(gateway.admin_address()).await;
        stream.write(&ask).await;
        (stream.read_response_to_head().await.status == 200).then_some(())
    })
    .await;
    // On a loaded machine the first sample may come long after the flood.
    let mut begun = Vec::new();
    for stream in &mut streams {
        let mut text = String::new();
        while !text.contains("event: rejections") {
            text += &String::from_utf8(stream.read_chunk().await).unwrap();
        }
        begun.push(text);
    }
    gateway.signal(Signal::SIGTERM);
    for (stream, mut text) in streams.iter_mut().zip(begun) {
        text += &String::from_utf8(stream.read_to_end().await).unwrap();
        assert!(
            text.contains("event: end\ndata: {\"why\":\"the gateway drains\"}"),
            "{text}"
        );
        assert!(text.ends_with("0\r\n\r\n"), "{text}");
        // Of some ten thousand rejections, the sample.
        let rows = text.matches("\"outcome\":").count();
        assert!((1..500).contains(&rows), "{rows}");
    }
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn behind_a_proxy_with_a_prefix_the_page_lives() {
    // Goal: the lines for nginx in docs/operations/page.md work: relative addresses, the stream, and a reload by the page. Method: a real
    // nginx with them, with a prefix.
    let gateway = Gateway::start(OTP).await;
    let location = format!(
        "location /gate/ {{ proxy_pass http://{}/; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_buffering off; }}",
        gateway.admin_address()
    );
    let nginx = Nginx::start(&location).await;
    let browser = Browser::start().await;
    let url = format!("http://{}/gate/ui", nginx.address());
    let mut page = browser.open(&url).await;
    page.shows("Requests a second").await;
    let mut client = gateway.client().await;
    for _ in 0..3 {
        client.get("/login").await;
    }
    let row = "document.querySelector('section[aria-label=\"Latest rejections\"] tbody tr')";
    page.until(&format!("{row}?.textContent.includes('otp')"))
        .await;
    page.go(&format!("{url}/#/configuration")).await;
    page.press("main", "Reload").await;
    page.shows("Reloaded: nothing changed.").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn files_of_the_page_need_no_token_and_are_validated() {
    // Goal: the page loads before the token is typed, and anew only when it changed. Method: its files without the token, with the fields
    // that protect it; the same again with its tag.
    let gateway = guarded(OTP).start().await;
    let page = gateway.admin(get("/ui/")).await;
    assert_eq!(page.status, 200);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'self'; "), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    let tag = page.header("etag").unwrap();
    let again = gateway
        .admin(get("/ui/").header("if-none-match", tag))
        .await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(
        gateway.admin(get("/ui")).await.header("location"),
        Some("ui/")
    );
    for path in ["/events", "/explain?url=/x", "/keys?value=x", "/status"] {
        assert_eq!(gateway.admin(get(path)).await.status, 401, "{path}");
    }
}
