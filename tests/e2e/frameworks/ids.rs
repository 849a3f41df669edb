//! Ids: no spelling of a number or a UUID that a framework reads as one has a counter beside its own.

use super::before_each_framework;
use crate::harness::*;

const RULES: &str = r#"
[limit.item]
key = "path.item | integer"
on_missing = "refuse"
rates = ["1 per 1d"]
[limit.document]
key = "path.document | uuid"
on_missing = "refuse"
rates = ["1 per 1d"]
[limit.in-query]
key = "query.id | integer"
on_missing = "refuse"
rates = ["1 per 1d"]
[limit.in-body]
key = "body.json.id | integer"
on_missing = "refuse"
rates = ["1 per 1d"]
[limit.document-in-body]
key = "body.json.id | uuid"
on_missing = "refuse"
rates = ["1 per 1d"]
[[route]]
path = "/items/{item}"
limits = ["item"]
origin = "app"
[[route]]
path = "/documents/{document}"
limits = ["document"]
origin = "app"
[[route]]
path = "/items"
methods = ["GET"]
limits = ["in-query"]
origin = "app"
[[route]]
path = "/items"
methods = ["POST"]
limits = ["in-body"]
origin = "app"
[[route]]
path = "/documents"
methods = ["POST"]
limits = ["document-in-body"]
origin = "app"
"#;

const DOCUMENT: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// Writings of 7 in a URL, all but the first of which some parser takes for it.
fn numbers() -> Vec<String> {
    let padded = (1..=40).map(|width| format!("{:0width$}", 7));
    let around = [
        "%20",
        "%09",
        "%0A",
        "%0B",
        "%1C",
        "%C2%A0",
        "%E2%80%83",
        "%E2%80%8B",
        "%00",
    ];
    let around = around.iter().flat_map(|blank| {
        let both = [format!("{blank}7"), format!("7{blank}")];
        both.into_iter().chain([format!("7{blank}1")])
    });
    // Digits of other scripts: Arabic, Devanagari, full-width, mathematical.
    let digits = ["%D9%A7", "%E0%A5%AD", "%EF%BC%97", "%F0%9D%9F%95"];
    let digits = digits
        .iter()
        .flat_map(|digit| [(*digit).to_owned(), format!("0{digit}")]);
    let others = [
        "+7",
        "%2B7",
        "-7",
        "--7",
        "7.0",
        "7.",
        "7.00",
        "7e0",
        "7E0",
        "70e-1",
        "0.7e1",
        "7_",
        "0_7",
        "7_0",
        "0x7",
        "0X7",
        "0b111",
        "0o7",
        "7n",
        "7L",
        "7abc",
        "7%2C0",
        "%22",
        "%377",
        "9007199254740999",
        "18446744073709551623",
        "0",
        "-0",
        "%E2%88%927",
    ];
    let others = others.map(str::to_owned);
    padded.chain(around).chain(digits).chain(others).collect()
}

/// Writings of one UUID in a URL, and what single parsers take for one.
fn documents() -> Vec<String> {
    let bare = DOCUMENT.replace('-', "");
    let mixed = |at: usize| {
        let (head, tail) = DOCUMENT.split_at(at);
        head.to_ascii_uppercase() + tail
    };
    let hyphens = (1..32).map(|at| format!("{}-{}", &bare[..at], &bare[at..]));
    let others = [
        bare.clone(),
        bare.to_ascii_uppercase(),
        format!("%7B{DOCUMENT}%7D"),
        format!("%7B{bare}%7D"),
        format!("%7B%7B{DOCUMENT}%7D%7D"),
        format!("%7B{DOCUMENT}"),
        format!("urn:uuid:{DOCUMENT}"),
        format!("URN:UUID:{DOCUMENT}"),
        format!("urn:uuid:%7B{DOCUMENT}%7D"),
        format!("uuid:{bare}"),
        format!("%20{DOCUMENT}%20"),
        DOCUMENT.replacen('6', "%EF%BC%96", 1),
        DOCUMENT.replace('-', "_"),
    ];
    (0..=36).map(mixed).chain(hyphens).chain(others).collect()
}

/// Sends each request past the gateway, where some must be read as `id`, and through it, where at most one may be.
async fn assert_counted_once(
    gateway: &Gateway,
    server: &FrameworkServer,
    requests: &[Request],
    id: &str,
    at_least: usize,
) {
    let is_read = |answer: &Response| {
        answer.status == 200 && Reading::is_limited(answer) && answer.json()["id"] == id
    };
    let mut direct = 0;
    for request in requests {
        let answer = Client::connect(server.address())
            .await
            .send(request.clone())
            .await;
        direct += usize::from(is_read(&answer));
    }
    assert!(
        direct >= at_least,
        "the framework reads {direct} of them as {id}"
    );
    let mut passed = 0;
    for request in requests {
        let answer = gateway.send(request.clone()).await;
        passed += usize::from(is_read(&answer));
    }
    assert_eq!(passed, 1, "{id} has one counter");
}

async fn gateway_before(server: &FrameworkServer) -> Gateway {
    let setup = Setup::new().servers("app", &[server.address()]);
    setup.rules(RULES).start().await
}

before_each_framework!(
    in_paths_have_one_counter,
    flask: Flask, fastapi: FastApi,
);

async fn in_paths_have_one_counter(framework: Framework) {
    // Goal: an id in a path has one counter, however it is written. Method: a hundred writings of a number and of a UUID, of which the
    // framework reads many as the same.
    let server = framework.start().await;
    let gateway = gateway_before(&server).await;
    let items: Vec<Request> = numbers()
        .iter()
        .map(|id| get(&format!("/items/{id}")))
        .collect();
    assert_counted_once(&gateway, &server, &items, "7", 40).await;
    let documents: Vec<Request> = documents()
        .iter()
        .map(|id| get(&format!("/documents/{id}")))
        .collect();
    assert_counted_once(&gateway, &server, &documents, DOCUMENT, 37).await;
}

mod elsewhere {
    use super::*;

    before_each_framework!(
        in_queries_and_bodies_have_one_counter,
        fastapi: FastApi,
    );
}

async fn in_queries_and_bodies_have_one_counter(framework: Framework) {
    // Goal: the same of ids in a query, and in JSON as numbers and as texts. Method: the writings of paths, and those of JSON.
    let server = framework.start().await;
    let gateway = gateway_before(&server).await;
    let queries: Vec<Request> = numbers()
        .iter()
        .map(|id| get(&format!("/items?id={id}")))
        .collect();
    assert_counted_once(&gateway, &server, &queries, "7", 40).await;
    let bodies = |path: &str, writings: Vec<String>| -> Vec<Request> {
        let post_of = |id: &String| {
            post(path)
                .header("content-type", "application/json")
                .body(format!("{{\"id\": {id}}}"))
        };
        writings.iter().map(post_of).collect()
    };
    let padded = (1..=40).map(|width| format!("\"{:0width$}\"", 7));
    let others = [
        "7",
        "7.0",
        "7.00",
        "7e0",
        "70e-1",
        "0.7E1",
        "7.9",
        "7.0000000000000000001",
        "6.9999999999999999999",
        "\"+7\"",
        "\" 7\"",
        "\"7\\u0000\"",
        "\"7\\u00001\"",
        "\"7.0\"",
        "\"7_0\"",
        "\"７\"",
        "true",
        "9007199254740993",
    ];
    let writings = padded.chain(others.map(str::to_owned)).collect();
    assert_counted_once(&gateway, &server, &bodies("/items", writings), "7", 40).await;
    let bare = DOCUMENT.replace('-', "");
    let writings = [
        DOCUMENT.to_owned(),
        DOCUMENT.to_ascii_uppercase(),
        bare.clone(),
        format!("{{{DOCUMENT}}}"),
        format!("{{{bare}}}"),
        format!("urn:uuid:{DOCUMENT}"),
        format!("urn:uuid:{{{bare}}}"),
    ];
    let writings = writings.iter().map(|id| format!("\"{id}\"")).collect();
    assert_counted_once(
        &gateway,
        &server,
        &bodies("/documents", writings),
        DOCUMENT,
        5,
    )
    .await;
}
