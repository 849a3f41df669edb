//! The README's examples: what it prints is what the gateway answers, and each command is one that it takes.

use std::collections::BTreeMap;

use crate::harness::*;

/// The text with `#` in place of each number.
fn without_numbers(text: &str) -> String {
    let mut shape = text.replace(|c: char| c.is_ascii_digit(), "#");
    while shape.contains("##") {
        shape = shape.replace("##", "#");
    }
    shape
}

/// The words of a shell command, of which some stand in single quotes.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[tokio::test]
async fn the_rejected_request_of_the_readme_is_the_answer() {
    // Goal: the README shows what a client gets. Method: its smallest file, the statuses of its loop of eight, and of the sixth answer each
    // field that it shows and the body; the wait depends on the moment, so numbers of it are compared by their place.
    let readme = project_file("README.md");
    let (head, body) = blocks(&readme, "http")[0].split_once("\n\n").unwrap();
    let console = blocks(&readme, "console")[0];
    let statuses: Vec<u16> = console
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .map(|status| status.parse().unwrap())
        .collect();
    let origin = Origin::named("app");
    let file = blocks(&readme, "toml")[0]
        .replace("0.0.0.0:8080", "{listener}")
        .replace("127.0.0.1:3000", &origin.address().to_string());
    let gateway = Setup::new()
        .with_driven_clock()
        .whole(&format!("{file}\n[admin]\naddress = \"{{admin}}\"\n"))
        .start()
        .await;
    let mut client = gateway.client().await;
    let mut answers = Vec::new();
    for _ in &statuses {
        answers.push(client.post("/auth/sendOTP").await);
    }
    let got: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(got, statuses);
    let rejected = answers.iter().find(|answer| answer.status == 429).unwrap();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap();
        let got = rejected.header(name).unwrap_or_default();
        match name {
            "Content-Type" | "RateLimit-Policy" => assert_eq!(got, value),
            _ => assert_eq!(without_numbers(got), without_numbers(value), "{name}"),
        }
    }
    let body: BTreeMap<String, serde_json::Value> = serde_json::from_str(body).unwrap();
    for (member, value) in &body {
        assert_eq!(rejected.json()[member], *value, "{member}");
    }
}

#[tokio::test]
async fn every_command_of_the_readme_is_one() {
    // Goal: no command of the README has a name or an option that there is not. Method: each with `--help` behind its own words, which a
    // parser reaches only if it takes them.
    let readme = project_file("README.md");
    let lines = blocks(&readme, "sh").into_iter().flat_map(str::lines);
    let commands: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("sluicegate "))
        .map(|line| {
            line.split("  #")
                .next()
                .unwrap()
                .split(" # ")
                .next()
                .unwrap()
        })
        .collect();
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands {
        let mut words = words(command);
        words.push("--help".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut process = Process::run(&words);
        let code = process.exit_code().await;
        assert_eq!(code, 0, "{command}: {}", process.stderr());
    }
    let mut process = Process::run(&["explain", "gateway.toml", "--requests", "x", "--help"]);
    assert_ne!(process.exit_code().await, 0, "an option that there is not");
}
