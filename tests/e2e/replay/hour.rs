//! Replay is what the gateway would have done: a recorded hour at its own times, by the gateway and by `replay`.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use sluicegate_limiter::Timestamp;

use super::public_log::{Recorded, recorded};
use super::*;

/// The hour: one with some clients that ask often.
const HOUR: &str = "[20/May/2015:01:";

/// Returns the requests of the hour in the order of time.
fn recorded_hour() -> Vec<Recorded> {
    let mut log = recorded();
    log.retain(|request| request.line.contains(HOUR));
    log
}

/// A limit for each algorithm, on the host of its name.
fn rules() -> String {
    let mut rules = String::from("[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n");
    for (algorithm, lines) in ALGORITHMS {
        let (rates, lines) = match algorithm {
            // Delays are waited for in real time.
            "leaky-bucket" => ("[\"1 per 1s\"]", "action = \"delay\"\nqueue = 1\n"),
            _ => ("[\"2 per 10s\", \"15 per 1h\"]", lines),
        };
        rules += &format!(
            "[limit.{algorithm}]\nkey = \"client.ip\"\nrates = {rates}\nalgorithm = \"{algorithm}\"\n{lines}\
             [[route]]\nhost = \"{algorithm}.test\"\npath = \"/*\"\nlimits = [\"{algorithm}\"]\nrespond = {{ status = 200 }}\n"
        );
    }
    rules
}

/// Sends the hour under every algorithm, each request at its own time; the decisions by algorithm.
async fn decided_live(
    gateway: &Gateway,
    hour: &[Recorded],
) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut clock = gateway.clock();
    let mut clients = Vec::new();
    for (algorithm, _) in ALGORITHMS {
        clients.push((algorithm, gateway.client().await));
    }
    let mut decisions: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in hour {
        clock.set(Timestamp::from_nanos(request.nanos()));
        let answers = clients.iter_mut().map(async |(algorithm, client)| {
            let target = get(&request.target).header("host", &format!("{algorithm}.test"));
            let answer = client.send(target.forwarded_for(&request.client)).await;
            (*algorithm, answer.status)
        });
        for (algorithm, status) in join_all(answers).await {
            let outcome = match status {
                200 => "admitted",
                429 => "rate-limited",
                other => panic!("{algorithm}: {other} for {}", request.line),
            };
            decisions.entry(algorithm).or_default().push(outcome);
        }
    }
    decisions
}

#[tokio::test]
async fn replay_decides_a_recorded_hour_as_the_gateway_does_at_its_times() {
    // Goal: replay = live for every algorithm, request by request, over an hour that neither of both wrote. Method: the requests of the
    // hour through a gateway whose clock is set to the time of each, and its lines through `replay`, under one configuration. The access
    // log says that the gateway went by those times.
    let hour = recorded_hour();
    let setup = Setup::new().rules(&rules()).with_driven_clock();
    let gateway = setup.start().await;
    let live = decided_live(&gateway, &hour).await;
    let mut logged: Vec<String> = gateway
        .access_lines(hour.len() * ALGORITHMS.len())
        .await
        .iter()
        .map(|line| line["time"].as_str().unwrap().to_owned())
        .collect();
    logged.sort();
    let times = hour.iter().map(|request| format!("{:.3}", request.time));
    let times: Vec<String> = times
        .flat_map(|time| vec![time; ALGORITHMS.len()])
        .collect();
    assert_eq!(logged, times);

    let files = Files::new();
    let log: String = hour.iter().map(|request| &*request.line).collect();
    let log = files.write("hour.log", log);
    let config = gateway.config_path().display().to_string();
    for (algorithm, live) in live {
        let out = files.path("decisions.json");
        let host = format!("{algorithm}.test");
        report(&[
            &log,
            "--config",
            &config,
            "--host",
            &host,
            "--decisions",
            &out,
        ])
        .await;
        let replayed = decisions(&out);
        assert_eq!(replayed.len(), hour.len());
        for ((request, live), replayed) in hour.iter().zip(&live).zip(&replayed) {
            assert_eq!(
                (
                    &replayed["time_ns"],
                    &replayed["client"],
                    &replayed["outcome"]
                ),
                (
                    &request.nanos().into(),
                    &request.client.as_str().into(),
                    &(*live).into()
                ),
                "{algorithm}: {}",
                request.line
            );
        }
        let rejected = live
            .iter()
            .filter(|outcome| **outcome != "admitted")
            .count();
        assert!(
            (10..hour.len() - 10).contains(&rejected),
            "{algorithm}: {rejected}"
        );
    }
}
