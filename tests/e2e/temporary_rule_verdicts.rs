//! What operators read about the next request of a key while lists and temporary rules about clients decide ahead of the limits.

use serde_json::{Value, json};

use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";

/// Limits by the address, by address and path, and by nothing; one list for all routes and one for a single route. Loopback tells who the
/// client is.
fn rules() -> String {
    let lists = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\nblock = [\"bots\"]\n\
                 [list.bots]\ncidrs = [\"198.51.100.0/24\"]\n[list.part]\ncidrs = [\"192.0.2.128/25\"]\n";
    lists.to_owned()
        + &limit("emergency", &["client.ip"], "rates = [\"2 per 1h\"]")
        + &limit("pages", &["client.ip", "path"], "rates = [\"1 per 1h\"]")
        + &limit("total", &["global"], "rates = [\"1 per 1h\"]")
        + &route("/", &["emergency"], ANSWERED)
        + &route(
            "/part",
            &["emergency"],
            &format!("name = \"part\"\nblock = [\"part\"]\n{ANSWERED}"),
        )
        + &route("/total", &["total"], ANSWERED)
        + &route("/pages/*", &["pages"], ANSWERED)
}

fn guarded() -> Setup {
    Setup::new().tokens(TOKEN).rules(&rules())
}

async fn read(gateway: &Gateway, target: &str) -> Value {
    let answer = gateway.admin(get(target).bearer(TOKEN)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Sets a rule about clients, and returns its id.
async fn set(gateway: &Gateway, action: &str, target: &str) -> String {
    let order = json!({ "action": action, "target": target, "for": "1h" });
    let answer = gateway
        .admin(post("/rules").body(order.to_string()).bearer(TOKEN))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["rule"]["id"].as_str().unwrap().to_owned()
}

/// Sends requests of one client, with the statuses of their answers.
async fn ask(gateway: &Gateway, path: &str, client: &str, statuses: &[u16]) {
    let mut connection = gateway.client().await;
    for status in statuses {
        let answer = connection.send(get(path).forwarded_for(client)).await;
        assert_eq!(answer.status, *status, "{path} {client}: {answer:?}");
    }
}

/// What the page of a key says of its next request.
fn next(key: &Value) -> [&Value; 3] {
    [&key["next"], &key["admits"], &key["exempt"]]
}

#[tokio::test]
async fn the_verdict_over_a_value_asks_lists_rules_and_shared_limits() {
    // Goal: no answer says "admitted" of a request that is rejected, nor the reverse. Method: addresses that a rule, a list and the list of
    // one route block, and that a rule exempts, each looked up by value, by hash, in `top` and by the command, beside the answer that the
    // client gets; a limit of all that is used up, and a limit by further parts that rejects.
    let gateway = guarded().start().await;
    let blocked = [json!("blocked"), json!(false), json!("blocked")];
    let exempt = [json!("exempt"), json!(true), json!("unlimited")];
    let hash_of = async |client: &str| {
        let target = format!("/limits/emergency/keys?value={client}");
        let key = read(&gateway, &target).await["key"].clone();
        key.as_str().unwrap().to_owned()
    };
    let top_of = async |client: &str| {
        let hash = hash_of(client).await;
        let page = read(&gateway, "/limits/emergency/top").await;
        let mut keys = page["top"].as_array().unwrap().iter();
        let row = keys.find(|row| row["key"].as_str() == Some(&hash));
        row.unwrap_or_else(|| panic!("{page}")).clone()
    };
    ask(&gateway, "/", "203.0.113.50", &[200]).await;
    ask(&gateway, "/", "192.0.2.9", &[200, 200, 429]).await;
    assert_eq!(top_of("192.0.2.9").await["refused"], true);

    let block = set(&gateway, "block", "203.0.113.0/24").await;
    set(&gateway, "block", "2001:db8::7").await;
    for client in ["203.0.113.50", "198.51.100.9", "2001:db8::7"] {
        ask(&gateway, "/", client, &[403]).await;
        let page = read(&gateway, &format!("/keys?value={client}")).await;
        let emergency = &page["limits"][0];
        assert_eq!(next(emergency), blocked.each_ref(), "{page}");
        assert_eq!(next(&page["global"][0]), blocked.each_ref(), "{page}");
        assert_eq!(page["client_rules"][0]["client"], "blocked", "{page}");
        assert_eq!(emergency["client_rules"], page["client_rules"]);
        assert_eq!(page["others"][0]["further_parts"], true, "{page}");
    }
    let rule = &read(&gateway, "/keys?value=203.0.113.50").await["client_rules"][0];
    assert_eq!(
        [&rule["rule"], &rule["target"], &rule["list"]],
        [&json!(block), &json!("203.0.113.0/24"), &Value::Null]
    );
    let list = &read(&gateway, "/keys?value=198.51.100.9").await["client_rules"][0];
    assert_eq!(
        [&list["rule"], &list["list"]],
        [&Value::Null, &json!("bots")]
    );
    let other = read(&gateway, "/keys?value=2001:db8::8").await;
    assert_eq!(other["limits"][0]["admits"], true, "{other}");
    // The key is known by its hash alone, and its client is found by the rule.
    let row = top_of("203.0.113.50").await;
    assert_eq!(
        [&row["next"], &row["refused"]],
        [&json!("blocked"), &json!(true)]
    );

    ask(&gateway, "/part", "192.0.2.200", &[403]).await;
    ask(&gateway, "/", "192.0.2.200", &[200]).await;
    let page = read(&gateway, "/keys?value=192.0.2.200").await;
    assert_eq!(page["client_rules"][0]["routes"], json!(["part"]), "{page}");
    assert_eq!(page["limits"][0]["next"], "admitted", "{page}");
    assert_eq!(page["global"][0]["client_rules"], json!([]), "{page}");

    set(&gateway, "exempt", "192.0.2.9").await;
    ask(&gateway, "/", "192.0.2.9", &[200]).await;
    let row = top_of("192.0.2.9").await;
    assert_eq!(
        [&row["next"], &row["refused"]],
        [&json!("exempt"), &json!(false)]
    );
    let hash = hash_of("192.0.2.9").await;
    let by_hash = read(&gateway, &format!("/limits/emergency/keys/{hash}")).await;
    assert_eq!(next(&by_hash), exempt.each_ref());
    assert_eq!(
        by_hash["client_rules"],
        json!([]),
        "a hash tells no address"
    );
    let config = gateway.config_path();
    let config = config.to_str().unwrap();
    let mut command = Process::run(&["key", config, "emergency", "192.0.2.9"]);
    assert_eq!(command.exit_code().await, 0, "{}", command.stderr());
    let printed: Value = serde_json::from_str(&command.stdout()).unwrap();
    assert_eq!(next(&printed), exempt.each_ref());

    the_page_says_it(&gateway, &block).await;
}

/// Reads the verdicts of the page: of a blocked address, of one without a count, and of one after all limits that it meets are used up.
async fn the_page_says_it(gateway: &Gateway, block: &str) {
    let browser = Browser::start().await;
    let view = "keys?value=203.0.113.50";
    let mut page = browser.signed_in(gateway, TOKEN, view).await;
    page.shows("The next request would be rejected with 403.")
        .await;
    page.shows(&format!(
        "The temporary rule {block} for 203.0.113.0/24 blocks the client until"
    ))
    .await;
    page.until("document.querySelector('.verdict').classList.contains('bad')")
        .await;
    page.go(&gateway.ui("keys?value=192.0.2.9")).await;
    page.shows("No limit applies to the next request.").await;

    ask(gateway, "/pages/a", "192.0.2.77", &[200, 429]).await;
    page.go(&gateway.ui("keys?value=192.0.2.77")).await;
    page.shows(
        "The one limit that counts by this value alone would not reject the next request. \
         The one limit that all requests share would not reject the next request.",
    )
    .await;
    page.shows("1 limit with further parts in the key cannot be judged by this value alone and may reject the request: pages")
        .await;
    page.until("document.querySelector('.verdict').classList.contains('warn')")
        .await;
    ask(gateway, "/total", "192.0.2.78", &[200, 429]).await;
    page.go(&gateway.ui("keys?value=192.0.2.79")).await;
    page.shows("1 of 2 limits would reject the next request.")
        .await;
    assert_eq!(page.complaints_but(&[401]).await, Vec::<String>::new());
}
