//! The file that keeps temporary rules: what of a broken one is in force, and what is said of it.

use std::fs;

use serde_json::{Value, json};

use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";
const RULES: &str =
    "[server]\nstate_dir = \"state\"\n[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";

async fn page(gateway: &Gateway, target: &str) -> Value {
    gateway.admin(get(target).bearer(TOKEN)).await.json()
}

async fn block(gateway: &Gateway, target: &str) {
    let order = json!({ "action": "block", "target": target, "for": "1h" });
    let order = post("/rules").body(order.to_string()).bearer(TOKEN);
    assert_eq!(gateway.admin(order).await.status, 200, "{target}");
}

/// The targets of the rules in force.
async fn targets(gateway: &Gateway) -> Vec<String> {
    let page = page(gateway, "/rules").await;
    let rules = page["rules"].as_array().unwrap().iter();
    rules
        .map(|rule| rule["target"].as_str().unwrap().to_owned())
        .collect()
}

/// What `/rules` says of its file; the problems have it too.
async fn fault(gateway: &Gateway) -> String {
    let status = page(gateway, "/status").await;
    let problems = status["problems"].as_array().unwrap().iter();
    let kinds: Vec<&str> = problems
        .filter_map(|problem| problem["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"rules"), "{kinds:?}");
    page(gateway, "/rules").await["file_fault"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_broken_file_loses_what_is_broken_and_says_so() {
    // Goal: of a broken file the good rules hold, the faults are said until an operator's next rule, and every such file is kept. Method: a
    // file with an entry that is none and one that ends in a hundred years, then one that is no JSON, then a rule; the page in between.
    let setup = Setup::new().tokens(TOKEN).rules(RULES);
    let mut gateway = setup.start().await;
    block(&gateway, "203.0.113.1").await;
    gateway.kill();
    let file = gateway
        .config_path()
        .with_file_name("state")
        .join("temporary-rules.json");
    let copy = |name: &str| fs::read_to_string(file.with_file_name(name)).unwrap();
    let mut partly: Value = serde_json::from_str(&copy("temporary-rules.json")).unwrap();
    let mut endless = partly["rules"][0].clone();
    endless["id"] = json!("00000000000e");
    endless["until"] = json!("2126-01-01T00:00:00.000Z");
    partly["rules"]
        .as_array_mut()
        .unwrap()
        .extend([json!({}), endless]);
    let partly = partly.to_string();
    fs::write(&file, &partly).unwrap();
    gateway.start_again().await;
    assert_eq!(targets(&gateway).await, ["203.0.113.1"]);
    assert_eq!(copy("temporary-rules.broken.json"), partly);
    let told = fault(&gateway).await;
    assert!(
        told.contains("2 faults, the first: entry 2: it is no rule"),
        "{told}"
    );

    gateway.kill();
    fs::write(&file, "no JSON").unwrap();
    gateway.start_again().await;
    assert_eq!(targets(&gateway).await, Vec::<String>::new());
    assert!(gateway.stderr().contains("temporary rules are lost"));
    assert_eq!(copy("temporary-rules.broken.json"), partly);
    assert_eq!(copy("temporary-rules.broken.2.json"), "no JSON");
    let told = fault(&gateway).await;
    assert!(
        told.contains("cannot be read") && told.contains("broken.2.json"),
        "{told}"
    );
    let browser = Browser::start().await;
    let mut shown = browser.signed_in(&gateway, TOKEN, "rules").await;
    shown
        .shows("Rules are lost, or end with the process: ")
        .await;

    block(&gateway, "203.0.113.3").await;
    assert!(copy("temporary-rules.json").contains("203.0.113.3"));
    assert_eq!(page(&gateway, "/rules").await["file_fault"], Value::Null);
    assert_eq!(page(&gateway, "/status").await["problems"], json!([]));
}
