//! The forms of the page in a real browser: rules about keys, many bans at a time, a whole limit, a request by one of several listeners.

use serde_json::{Value, json};

use crate::harness::*;

const ACT: &str = "0123456789abcdef";
const READ: &str = "fedcba9876543210";

/// Limits by address, by two parts, and for everybody together; loopback tells who the client is.
const RULES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[limit.otp]
key = "client.ip"
rates = ["2 per 1h"]
ban = { for = "1h" }
[limit.pair]
key = ["header.x-user", "path"]
on_missing = "refuse"
rates = ["9 per 1h"]
ban = { for = "1h" }
[limit.all]
key = "global"
rates = ["1 per 1h"]
[[route]]
path = "/login"
limits = ["otp"]
respond = { status = 200 }
[[route]]
path = "/pair"
limits = ["pair"]
respond = { status = 200 }
[[route]]
path = "/all"
limits = ["all"]
respond = { status = 200 }
"#;

/// The statuses of requests to `/login` by a client.
async fn login(gateway: &Gateway, address: &str, statuses: &[u16]) {
    let mut client = gateway.client().await;
    for status in statuses {
        let answer = client.send(get("/login").forwarded_for(address)).await;
        assert_eq!(answer.status, *status, "{address}: {answer:?}");
    }
}

/// Adds a rule by the dialog of the page.
async fn add_rule(page: &mut Page, action: &str, fields: &[(&str, &str)]) {
    page.press("main", "Add a rule").await;
    page.fill("dialog[open] select[name=action]", action).await;
    for (selector, text) in fields {
        page.fill(&format!("dialog[open] {selector}"), text).await;
    }
    page.press("dialog[open]", "Set").await;
}

const NO_DIALOG: &str = "!document.querySelector('dialog')";

#[tokio::test]
async fn keys_get_rules_and_many_bans_end_after_a_look_at_their_number() {
    // Goal: an operator without a shell stops a key and undoes a false alarm, sees the number before, and leaves a reason. Method: rules
    // about keys of each form, with a slip; bans by requests and by a rule, lifted by network and time and by limit; a limit that is
    // cleared; the clients' answers, the audit lines, and the page of a token that may only read.
    let gateway = Setup::new()
        .tokens(&format!("alice act {ACT}\nbob read {READ}\n"))
        .log_line("keys = \"plain\"")
        .rules(RULES)
        .start()
        .await;
    let banned = [200, 200, 429, 429];
    for client in ["10.0.1.1", "10.0.1.2", "10.0.1.3", "203.0.113.9"] {
        login(&gateway, client, &banned).await;
    }
    let browser = Browser::start().await;
    let mut page = browser.signed_in(&gateway, ACT, "rules").await;
    page.is_live().await;
    keys_get_rules(&gateway, &mut page).await;
    many_bans_end(&gateway, &mut page).await;
    a_limit_is_cleared(&gateway, &mut page).await;
    page.becomes_a_phone().await;
    let wide = page.value("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().unwrap() <= 390, "{wide} pixels");
    assert_eq!(page.complaints_but(&[400, 401]).await, Vec::<String>::new());
    let log = gateway.stderr();
    for line in [
        " of pair for 1800 s, reason \"a case\"",
        "of clients in 10.0.1.0/24 since ",
        ", reason \"a false alarm\"",
        "cleared the counters of ",
        ", reason \"a mistake\"",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }

    let mut reader = browser.signed_in(&gateway, READ, "rules").await;
    reader.is_live().await;
    reader.shows("Lift many bans").await;
    reader
        .until("document.querySelectorAll('main button').length >= 4")
        .await;
    let disabled = "[...document.querySelectorAll('main button')].every((one) => one.disabled)";
    assert_eq!(reader.value(disabled).await, json!(true));
}

async fn keys_get_rules(gateway: &Gateway, page: &mut Page) {
    let mut client = gateway.client().await;
    let by = |user: &str| get("/pair").header("x-user", user);
    let pair = [
        ("select[name=limit]", "pair"),
        ("textarea[name=key]", "mallory"),
        ("input[name=reason]", "a case"),
    ];
    add_rule(page, "block-key", &pair).await;
    page.shows("write one value for each of header.x-user, path")
        .await;
    page.fill("dialog[open] textarea[name=key]", "mallory\n/pair")
        .await;
    page.press("dialog[open]", "Set").await;
    page.shows("blocks mallory, /pair of pair").await;
    assert_eq!(client.send(by("mallory")).await.status, 403);
    assert_eq!(client.send(by("alice")).await.status, 200);

    let otp = [
        ("select[name=limit]", "otp"),
        ("textarea[name=key]", "198.51.100.7"),
    ];
    add_rule(page, "ban-key", &otp).await;
    page.shows("bans 198.51.100.7 of otp").await;
    login(gateway, "198.51.100.7", &[429]).await;

    for status in [200, 429] {
        assert_eq!(client.get("/all").await.status, status);
    }
    add_rule(page, "exempt-key", &[("select[name=limit]", "all")]).await;
    page.shows("Set it nevertheless").await;
    page.value("document.querySelector('dialog[open] input[name=force]').click()")
        .await;
    page.press("dialog[open]", "Set").await;
    page.shows("exempts every request of all").await;
    assert_eq!(client.get("/all").await.status, 200);
}

async fn many_bans_end(gateway: &Gateway, page: &mut Page) {
    let lift = "section[aria-label='Lift many bans']";
    page.press(lift, "Lift bans…").await;
    page.shows("Choose a limit, or write whose bans, or since when.")
        .await;
    page.fill(&format!("{lift} input[name=cidr]"), "10.0.1.0/24")
        .await;
    page.fill(&format!("{lift} input[name=since]"), "10m").await;
    page.press(lift, "Lift bans…").await;
    page.shows("Lift 3 bans of clients in 10.0.1.0/24, begun in the last 10m?")
        .await;
    page.shows("pair is left out: its key is header.x-user, path")
        .await;
    page.press("dialog[open]", "Cancel").await;
    page.until(NO_DIALOG).await;
    login(gateway, "10.0.1.1", &[429]).await;
    page.press(lift, "Lift bans…").await;
    page.fill("dialog[open] input[name=reason]", "a false alarm")
        .await;
    page.press("dialog[open]", "Lift 3 bans").await;
    page.shows("3 bans lifted.").await;
    login(gateway, "10.0.1.1", &[200]).await;
    login(gateway, "203.0.113.9", &[429]).await;

    page.fill(&format!("{lift} input[name=cidr]"), "").await;
    page.fill(&format!("{lift} input[name=since]"), "").await;
    page.fill(&format!("{lift} select[name=limit]"), "otp")
        .await;
    page.press(lift, "Lift bans…").await;
    page.shows("1 temporary rule that bans them will be removed.")
        .await;
    page.press("dialog[open]", "Lift 2 bans").await;
    page.shows("2 bans lifted.").await;
    page.until("!document.querySelector('main').textContent.includes('bans 198.51.100.7')")
        .await;
    for client in ["198.51.100.7", "203.0.113.9"] {
        login(gateway, client, &[200]).await;
    }
}

async fn a_limit_is_cleared(gateway: &Gateway, page: &mut Page) {
    login(gateway, "192.0.2.1", &[200, 200]).await;
    let clear = "section[aria-label='Clear a whole limit']";
    page.fill(&format!("{clear} select"), "otp").await;
    page.press(clear, "Clear…").await;
    page.shows("Clear limit otp: the counters of 6 keys, and 0 bans?")
        .await;
    page.fill("dialog[open] input[name=reason]", "a mistake")
        .await;
    page.press("dialog[open]", "Clear otp").await;
    page.shows("Limit otp is cleared: 6 keys, 0 bans.").await;
    login(gateway, "192.0.2.1", &[200, 200, 429]).await;
}

#[tokio::test]
async fn a_request_is_explained_by_the_listener_of_its_choice() {
    // Goal: routes by listener can be explained on the page too. Method: a path with a route for one of two listeners; the form, the
    // endpoint and the command line for each of them; a name that no listener has; and a gateway with one listener.
    let other = free_address();
    let rules = format!(
        "[[listener]]\naddress = \"{other}\"\nname = \"inside\"\n\
         [[route]]\nname = \"guarded\"\npath = \"/x\"\nlisteners = [\"inside\"]\nrespond = {{ status = 204 }}\n\
         [[route]]\nname = \"open\"\npath = \"/x\"\nrespond = {{ status = 200 }}\n"
    );
    let gateway = Setup::new()
        .listener_line("name = \"public\"")
        .rules(&rules)
        .start()
        .await;
    let config = gateway.config_path();
    for (listener, route) in [("inside", "guarded"), ("public", "open")] {
        let asked = gateway.admin(get(&format!("/explain?url=/x&listener={listener}")));
        let answer = asked.await.json();
        assert_eq!(answer["route"], route, "{answer}");
        let file = config.to_str().unwrap();
        let line = ["explain", file, "--json", "--request", "GET /x"];
        let mut command = Process::run(&[&line[..], &["--listener", listener]].concat());
        assert_eq!(command.exit_code().await, 0, "{}", command.stderr());
        let said: Value = serde_json::from_str(&command.stdout()).unwrap();
        assert_eq!(answer, said["request"]);
    }
    let wrong = gateway.admin(get("/explain?url=/x&listener=none")).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("there is no listener"), "{wrong:?}");

    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("explain")).await;
    let route = "document.querySelector('section[aria-label=Result] dd')?.textContent";
    for (listener, shown) in [("inside", "guarded"), ("public", "open")] {
        page.until("document.querySelectorAll('select[name=listener] option').length === 3")
            .await;
        page.fill("input[name=url]", "/x").await;
        page.fill("select[name=listener]", listener).await;
        page.press("main", "Explain").await;
        page.until(&format!("{route} === '{shown}'")).await;
        page.until(&format!(
            "document.querySelector('select[name=listener]').value === '{listener}'"
        ))
        .await;
    }
    assert_eq!(page.complaints().await, Vec::<String>::new());

    let single = Setup::new()
        .listener_line("name = \"public\"")
        .rules("[[route]]\npath = \"/x\"\nrespond = { status = 200 }\n")
        .start()
        .await;
    let mut page = browser.open(&single.ui("explain")).await;
    page.shows("Explain a request").await;
    let is_shown = "document.querySelector('select[name=listener]').checkVisibility()";
    assert_eq!(page.value(is_shown).await, json!(false));
}
