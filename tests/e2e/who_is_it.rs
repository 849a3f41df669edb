//! Who is heavy, rejected or banned: the values of keys on the admin listener, in `top` and on the page, and the clients that are rejected
//! most.

use std::io::Write;

use serde_json::{Value, json};

use crate::geo::database;
use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";

/// Limits by an address, by a user in a field and by a number in a body.
const RULES: &str = r#"
    [client]
    trusted_proxies = ["127.0.0.0/8"]
    [limit.ip]
    key = "client.ip"
    rates = ["2 per 1h"]
    [limit.user]
    key = "header.x-user"
    rates = ["2 per 1h"]
    on_missing = "shared"
    [limit.phone]
    key = "body.json.phone | e164"
    rates = ["2 per 1h"]
    on_missing = "refuse"
    ban = { for = "1h" }
    [[route]]
    path = "/ip"
    limits = ["ip"]
    respond = { status = 200 }
    [[route]]
    path = "/user"
    limits = ["user"]
    respond = { status = 200 }
    [[route]]
    path = "/phone"
    limits = ["phone"]
    respond = { status = 200 }
"#;

/// Whether the admin listener has a token.
#[derive(Clone, Copy, PartialEq)]
enum Guard {
    Token,
    Open,
}

fn setup(rules: &str, keys: &str, guard: Guard) -> Setup {
    let setup = Setup::new()
        .rules(rules)
        .log_line(&format!("keys = \"{keys}\""));
    match guard {
        Guard::Token => setup.tokens(TOKEN),
        Guard::Open => setup,
    }
}

/// The page at this path; a walk of a page in a browser may be under way, and delays it.
async fn read(gateway: &Gateway, path: &str) -> Value {
    eventually("no other walk is under way", async || {
        let answer = gateway.admin(get(path).bearer(TOKEN)).await;
        if answer.status == 503 {
            return None;
        }
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        Some(answer.json())
    })
    .await
}

/// The values of the keys in a list, in its order.
fn values(list: &Value) -> Vec<Value> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["key_values"].clone()).collect()
}

/// A request under each limit by a client whose address, user and number end in this digit.
fn requests(digit: u8) -> [Request; 3] {
    let body = format!("{{\"phone\":\"+49 151 2345677{digit}\"}}");
    [
        get("/ip").forwarded_for(&format!("203.0.113.{digit}")),
        get("/user").header("x-user", &format!("user{digit}@example.com")),
        post("/phone")
            .header("content-type", "application/json")
            .body(body),
    ]
}

#[tokio::test]
async fn heavy_rejected_and_banned_keys_are_named_as_the_log_names_them() {
    // Goal: an operator reads who it is, in the form that the log may have, and only with a token. Method: a client with one request and
    // one that is rejected under limits by address, user and number, of which one bans; the keys at the limits, the bans and one key, for
    // each form and without a token.
    let plain = [
        ["203.0.113.7", "203.0.113.5"],
        ["user7@example.com", "user5@example.com"],
        ["+4915123456777", "+4915123456775"],
    ];
    let masked = [
        ["203.0.113.0/24", "203.0.113.0/24"],
        ["us***@example.com", "us***@example.com"],
        ["+4915*******77", "+4915*******75"],
    ];
    for (keys, guard, shown) in [
        ("plain", Guard::Token, Some(plain)),
        ("masked", Guard::Token, Some(masked)),
        ("hash", Guard::Token, None),
        ("plain", Guard::Open, None),
    ] {
        let gateway = setup(RULES, keys, guard).start().await;
        let mut client = gateway.client().await;
        for request in requests(5) {
            assert_eq!(client.send(request).await.status, 200);
        }
        for status in [200, 200, 429, 429] {
            for request in requests(7) {
                assert_eq!(client.send(request).await.status, status);
            }
        }
        let shown = |limit: usize| shown.map(|shown| shown[limit].map(|value| json!([value])));
        for (index, limit) in ["ip", "user", "phone"].into_iter().enumerate() {
            let page = read(&gateway, &format!("/limits/{limit}/top")).await;
            let wanted = shown(index).unwrap_or_default();
            assert_eq!(values(&page["top"]), wanted, "{keys}: {page}");
            assert_eq!(page["key_values_hidden"].is_null(), shown(index).is_some());
            let hash = page["top"][1]["key"].as_str().unwrap();
            let key = read(&gateway, &format!("/limits/{limit}/keys/{hash}")).await;
            assert_eq!(key["key_values"], wanted[1], "{key}");
        }
        let bans = read(&gateway, "/limits/phone/bans").await;
        let wanted = shown(2).unwrap_or_default();
        assert_eq!(values(&bans["keys"]), wanted[..1], "{bans}");
        let hidden = bans["key_values_hidden"].as_str().unwrap_or_default();
        assert!(match (keys, guard) {
            (_, Guard::Open) => hidden.contains("set [admin] token_file"),
            ("hash", _) => hidden.contains("[log] keys is \"hash\""),
            _ => hidden.is_empty(),
        });
        let rejected = gateway.admin(get("/clients/rejected").bearer(TOKEN)).await;
        match guard {
            Guard::Token => {
                let page = rejected.json();
                assert_eq!(page["rejected"], 6, "{page}");
                // The log names clients whatever it shows of keys.
                let first = &page["addresses"][0];
                assert_eq!(
                    (&first["name"], &first["requests"]),
                    (&json!("127.0.0.1"), &json!(4))
                );
                assert_eq!(page["networks"].as_array().unwrap().len(), 2, "{page}");
                assert_eq!(
                    (&page["countries"], &page["asns"]),
                    (&json!(null), &json!(null))
                );
            }
            Guard::Open => assert_eq!(rejected.status, 403, "{rejected:?}"),
        }
        let without = gateway.admin(get("/limits/ip/top")).await;
        let open = guard == Guard::Open;
        assert_eq!(without.status, if open { 200 } else { 401 });
        assert!(!without.text().contains("203.0.113"));
    }
}

#[tokio::test]
async fn bans_by_hand_and_keys_without_a_value_are_named() {
    // Goal: no list of bans leaves an operator guessing. Method: a key banned by its value and one by its hash, whose value is unknown
    // until a request shows it, on the admin listener and the page; requests without the value; then the form changes by a reload, and
    // the page says so of a key that is rejected.
    let rules = RULES.replace(
        "on_missing = \"shared\"",
        "on_missing = \"shared\"\nban = { for = \"1h\" }",
    );
    let mut gateway = setup(&rules, "plain", Guard::Token).start().await;
    let ban = async |path: &str| {
        let request = request("PUT", path)
            .bearer(TOKEN)
            .body(r#"{"ban":{"for":"30m"}}"#);
        let answer = gateway.admin(request).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let named = ban("/limits/user/keys?value=mallory").await;
    assert_eq!(named["key_values"], json!(["mallory"]));
    let key = read(&gateway, "/limits/user/keys?value=eve").await;
    let hash = key["key"].as_str().unwrap();
    let unnamed = ban(&format!("/limits/user/keys/{hash}")).await;
    assert_eq!(unnamed["key_values"], json!(null));
    let bans = values(&read(&gateway, "/limits/user/bans").await["keys"]);
    assert!(bans.contains(&json!(["mallory"])) && bans.contains(&json!(null)));
    let browser = Browser::start().await;
    let mut page = browser.signed_in(&gateway, TOKEN, "limit/user").await;
    let shown = "document.querySelector('section[aria-label=Bans] tbody')?.textContent";
    for text in ["mallory ", "unknown until its next request "] {
        page.until(&format!("{shown}?.includes('{text}')")).await;
    }
    let mut client = gateway.client().await;
    let by_eve = get("/user").header("x-user", "eve");
    assert_eq!(client.send(by_eve.clone()).await.status, 429);
    let bans = values(&read(&gateway, "/limits/user/bans").await["keys"]);
    assert!(bans.contains(&json!(["mallory"])) && bans.contains(&json!(["eve"])));

    assert_eq!(client.get("/user").await.status, 200);
    let top = values(&read(&gateway, "/limits/user/top").await["top"]);
    assert!(
        top.contains(&json!(["requests without header.x-user"])),
        "{top:?}"
    );

    let generation = async |gateway: &Gateway| {
        let status = read(gateway, "/status").await;
        status["configuration"]["generation"].as_u64().unwrap()
    };
    let before = generation(&gateway).await;
    gateway.write_setup(setup(&rules, "masked", Guard::Token), Writing::Rename);
    eventually("the new form is in force", async || {
        (generation(&gateway).await > before).then_some(())
    })
    .await;
    let bans = gateway.admin(get("/limits/user/bans").bearer(TOKEN)).await;
    assert!(!bans.text().contains("mallory"), "{bans:?}");
    page.go(&gateway.ui("rejections")).await;
    page.is_live().await;
    assert_eq!(client.send(by_eve).await.status, 429);
    let key = "document.querySelector('[role=log] tbody a[href*=\"&key=\"]')?.textContent";
    page.until(&format!("{key}?.endsWith(' (masked) {hash}')"))
        .await;
}

/// A limit that nobody reaches, and one of one request for each client.
fn attacked() -> String {
    let databases = format!(
        "[geo]\ndatabases = [{:?}, {:?}]\n",
        database("Country"),
        database("ASN")
    );
    let client = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n".to_owned();
    client
        + &databases
        + &limit(
            "api",
            &["client.ip"],
            "rates = [\"1000 per 1h\"]\ncapacity = 65536",
        )
        + &limit(
            "login",
            &["client.ip"],
            "rates = [\"1 per 1h\"]\ncapacity = 65536",
        )
        + &route("/api", &["api"], ANSWERED)
        + &route("/login", &["login"], ANSWERED)
}

/// One request of each of so many addresses, or two.
async fn spray(gateway: &Gateway, path: &'static str, requests: u64) {
    let spray = Flood::of(requests, move |number, buffer| {
        let [.., high, middle, low] = (number / 2).to_be_bytes();
        let client = format!("10.{high}.{middle}.{low}");
        write!(
            buffer,
            "GET {path} HTTP/1.1\r\nHost: gateway.test\r\nUser-Agent: spray/{number}\r\nX-Forwarded-For: {client}\r\n\r\n"
        )
        .unwrap();
    });
    let report = spray.run(gateway.address()).await;
    assert_eq!(report.broken(), 0);
}

/// The client behind the attack: a Swedish address of the test databases.
async fn attack(gateway: &Gateway, requests: usize) {
    let mut client = gateway.client().await;
    for _ in 0..requests {
        let request = get("/login").header("user-agent", "curl/8.5");
        client.send(request.forwarded_for("89.160.20.112")).await;
    }
}

#[tokio::test]
async fn many_keys_hide_neither_heavy_keys_nor_attackers() {
    // Goal: a spray of light clients hides nobody. Method: three heavy clients and one that is rejected 300 times, beside and behind 6,000
    // light ones and as many rejections; the keys at the limit, the rejected clients, `top` in both forms, and the page with its filter.
    let gateway = setup(&attacked(), "plain", Guard::Token).start().await;
    let heavy = ["203.0.113.1", "203.0.113.2", "203.0.113.3"];
    attack(&gateway, 150).await;
    spray(&gateway, "/api", 12_000).await;
    spray(&gateway, "/login", 12_000).await;
    attack(&gateway, 151).await;
    let mut client = gateway.client().await;
    for _ in 0..20 {
        for address in heavy {
            client.send(get("/api").forwarded_for(address)).await;
        }
    }
    let top = eventually("the heavy keys are named", async || {
        for address in heavy {
            client.send(get("/api").forwarded_for(address)).await;
        }
        let page = read(&gateway, "/limits/api/top?n=3").await;
        let mut top = values(&page["top"]);
        top.sort_by_key(ToString::to_string);
        (!top.contains(&json!(null))).then_some(top)
    })
    .await;
    assert_eq!(top, heavy.map(|address| json!([address])));

    let rejected = read(&gateway, "/clients/rejected").await;
    let first = |group: &str| rejected[group][0]["name"].clone();
    assert_eq!(
        ["addresses", "networks", "countries", "asns", "user_agents"].map(first),
        [
            "89.160.20.112",
            "89.160.20.0/24",
            "unknown",
            "unknown",
            "curl/8.5"
        ]
        .map(Value::from),
        "{rejected}"
    );
    assert_eq!(rejected["countries"][1]["name"], "SE", "{rejected}");
    let all = rejected["rejected"].as_u64().unwrap();
    let left_out = rejected["left_out"].as_u64().unwrap();
    assert_eq!(all + left_out, 6_300, "{rejected}");
    let attacker = &rejected["addresses"][0];
    let [certain, error] = ["requests", "error"].map(|name| attacker[name].as_u64().unwrap());
    assert!(
        certain <= 300 && certain + error + left_out >= 300,
        "{attacker}"
    );
    assert!(error <= all / 256 + 1 && certain > 200, "{attacker}");

    frames_name_keys_and_clients(&gateway).await;
    page_names_keys_and_clients(&gateway).await;
}

async fn frames_name_keys_and_clients(gateway: &Gateway) {
    let url = format!("http://{}", gateway.admin_address());
    let token = gateway.directory().join("token").display().to_string();
    let arguments = [
        "top",
        &url,
        "--token-file",
        &token,
        "--once",
        "--interval",
        "0.1",
    ];
    let mut process = Process::run(&arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let frame = process.stdout();
    for part in [
        "most rejected: address 89.160.20.112 (",
        "203.0.113.1 ",
        "country ",
        "  SE\n",
        "  curl/8.5\n",
    ] {
        assert!(frame.contains(part), "{part:?} is not in:\n{frame}");
    }
    let mut process = Process::run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let frame: Value = serde_json::from_str(&process.stdout()).unwrap();
    let address = &frame["rejected_clients"]["addresses"][0];
    assert_eq!(address["name"], "89.160.20.112", "{frame}");
    assert_eq!(frame["nearest"]["key_values_hidden"], json!(null));
}

async fn page_names_keys_and_clients(gateway: &Gateway) {
    let browser = Browser::start().await;
    let mut page = browser.signed_in(gateway, TOKEN, "limit/api").await;
    let keys = "document.querySelector('section[aria-label=Keys] tbody')?.textContent";
    page.until(&format!("{keys}?.includes('203.0.113.3 ')"))
        .await;
    page.go(&gateway.ui("rejections")).await;
    page.shows("Clients that are rejected most").await;
    for text in ["89.160.20.112", "89.160.20.0/24", "SE", "29518", "curl/8.5"] {
        page.shows(text).await;
    }
    stands_above_the_rows(&mut page, 900).await;
    page.go(&gateway.ui("")).await;
    let card = "document.querySelector('section[aria-label=\"Rejected clients\"]')";
    page.until(&format!(
        "{card}?.checkVisibility() && {card}.querySelectorAll('tr:first-child a[href*=\"?\"]').length === 5"
    ))
    .await;
    let most =
        format!("[...{card}.querySelectorAll('table')].map((one) => one.tBodies[0].rows.length)");
    let most = page.value(&most).await;
    let most = most.as_array().unwrap();
    assert!(
        most.iter()
            .all(|rows| (1..=3).contains(&rows.as_u64().unwrap())),
        "{most:?}"
    );
    let first = format!("{card}.querySelector('tbody tr').innerText");
    let first = page.value(&first).await.as_str().unwrap().to_owned();
    assert!(
        first.starts_with("89.160.20.112") && first.ends_with(" %"),
        "{first}"
    );
    page.value(&format!("{card}.querySelector('tbody a').click()"))
        .await;
    page.shows("Only clients of address 89.160.20.112.").await;
    page.press("main", "Show all").await;
    attack(gateway, 3).await;
    spray(gateway, "/login", 2).await;
    let rows = "[...document.querySelectorAll('[role=log] tbody tr')]";
    page.until(&format!(
        "{rows}.some((row) => row.textContent.includes('10.0.0.0'))"
    ))
    .await;
    page.press("section[aria-label='Rejected clients']", "SE")
        .await;
    page.shows("Only clients of country SE.").await;
    page.until(&format!(
        "{rows}.length >= 3 && {rows}.every((row) => row.textContent.includes('89.160.20.112'))"
    ))
    .await;
    page.press("main", "Show all").await;
    page.until(&format!(
        "{rows}.some((row) => row.textContent.includes('10.0.0.0'))"
    ))
    .await;
    page.becomes_a_phone().await;
    stands_above_the_rows(&mut page, 844).await;
    let wide = page.value("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().unwrap() <= 390, "{wide} pixels");
    assert_eq!(page.complaints_but(&[401]).await, Vec::<String>::new());
}

/// Asserts that the clients that are rejected most are seen without scrolling, above the rows, on a screen of this height.
async fn stands_above_the_rows(page: &mut Page, height: u64) {
    let card = "document.querySelector('section[aria-label=\"Rejected clients\"]')";
    page.until(&format!("{card}?.querySelectorAll('table').length === 5"))
        .await;
    let ends = format!(
        "[{card}.getBoundingClientRect().bottom, document.querySelector('[role=log]').getBoundingClientRect().top]
           .map((at) => at + scrollY)"
    );
    let ends = page.value(&ends).await;
    let [clients, rows] = [0, 1].map(|at| ends[at].as_f64().unwrap());
    assert!(clients <= rows && clients < height as f64, "{ends}");
}
