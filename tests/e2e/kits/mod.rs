//! The files of `conf/examples`: each does what its comments promise, as it ships but for the addresses.

use std::net::SocketAddr;
use std::path::Path;

use crate::harness::*;

mod around;
mod attacked;
mod basics;
mod chat_streams;
mod crawlers;
mod login;
mod one_reading;
mod overload;
mod rollout;
mod search;
mod send_otp;
mod throttled;
mod tiers;
mod tls_edge;
mod token_budget;
mod under_load;

/// `conf/examples/NAME.toml` before `origin`. The test connects as the proxy that the file trusts, from 127.0.0.1.
fn kit(name: &str, origin: &Origin) -> Setup {
    kit_with(name, origin.address(), &[])
}

/// As [`kit`], with an origin at this address, and more of what ships and what the test has in its place.
fn kit_with(name: &str, origin: SocketAddr, more: &[(&str, &str)]) -> Setup {
    let file = format!("conf/examples/{name}.toml");
    let mut whole = project_file(&file);
    let address = origin.to_string();
    // What ships, and what the test has in its place.
    let of_several = [
        ("0.0.0.0:8080", "{listener}"),
        ("[::]:8080", "{listener}"),
        ("10.0.0.2", "127.0.0.1"),
        ("173.245.48.0/20", "127.0.0.1"),
        ("127.0.0.1:3000", address.as_str()),
        ("10.20.0.11:8000\", \"10.20.0.12:8000", address.as_str()),
        ("10.20.0.11:8443\", \"10.20.0.12:8443", address.as_str()),
        ("/var/lib/sluicegate/state\"", "{directory}/state\""),
        ("/dev/shm/sluicegate", "{directory}/state"),
        ("\"api-tiers.csv", "\"{directory}/api-tiers.csv"),
        ("\"api-tiers.jwks.json", "\"{directory}/api-tiers.jwks.json"),
    ];
    for (shipped, tested) in of_several {
        assert!(whole.matches(shipped).count() <= 1, "{file}: {shipped}");
        whole = whole.replace(shipped, tested);
    }
    for (shipped, tested) in more {
        assert!(whole.contains(shipped), "{file}: {shipped}");
        whole = whole.replace(shipped, tested);
    }
    whole
        .push_str("\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"{directory}/access.log\"\n");
    Setup::new().whole(&whole)
}

/// Goal: no example is forgotten. Method: the files of the directory are those that the tests here start.
#[test]
fn every_example_has_a_test() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/examples");
    let mut found: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    found.sort();
    let tests = [
        include_str!("basics.rs"),
        include_str!("chat_streams.rs"),
        include_str!("crawlers.rs"),
        include_str!("login.rs"),
        include_str!("overload.rs"),
        include_str!("rollout.rs"),
        include_str!("search.rs"),
        include_str!("send_otp.rs"),
        include_str!("throttled.rs"),
        include_str!("tiers.rs"),
        include_str!("tls_edge.rs"),
        include_str!("token_budget.rs"),
        include_str!("under_load.rs"),
    ]
    .concat();
    for name in found {
        let started = format!("\"{name}\",");
        assert!(tests.contains(&started), "no test starts {name}.toml");
    }
}

/// POST of a JSON text, as the trusted proxy passes it on for `client`.
fn json(target: &str, client: &str, body: impl Into<bytes::Bytes>) -> Request {
    post(target)
        .forwarded_for(client)
        .header("content-type", "application/json")
        .body(body)
}

/// Whether the answer is a refusal by this limit alone, by whichever of its rates.
fn assert_refused_by(limit: &str, answer: &Response) {
    answer.assert_problem(429);
    let by_it = |item: &String| {
        let rest = item.strip_prefix(limit);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_period))
    };
    let violated = answer.violated();
    assert!(violated.iter().all(by_it), "{limit}: {violated:?}");
}

/// `600s`, as the items of a limit with several rates end.
fn is_period(text: &str) -> bool {
    let digits = text.strip_suffix('s').unwrap_or("no");
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// How many of so many requests pass before the first that `limit` refuses. One more than its count may, when a window happens to end
/// in between.
async fn passes_before(
    gateway: &Gateway,
    limit: &str,
    most: usize,
    request: impl Fn(usize) -> Request,
) -> usize {
    answers_before(gateway, limit, most, 200, request).await
}

/// As [`passes_before`], where the origin answers with `status`.
async fn answers_before(
    gateway: &Gateway,
    limit: &str,
    most: usize,
    status: u16,
    request: impl Fn(usize) -> Request,
) -> usize {
    let mut client = gateway.client().await;
    for n in 0..=most + 1 {
        let answer = client.send(request(n)).await;
        if answer.status == 429 {
            assert_refused_by(limit, &answer);
            return n;
        }
        assert_eq!(answer.status, status, "{n}: {answer:?}");
    }
    panic!("{limit} let {} pass", most + 2);
}
