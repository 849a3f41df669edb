//! The process log: its levels by module, its lines as JSON, and what is said to an operator who asks for something else.

use nix::sys::signal::Signal;
use regex::Regex;
use serde_json::Value;

use crate::harness::*;

const RESPOND: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";
/// A limit that no route names, which is warned of.
const WARNED: &str = "[limit.unused]\nkey = \"client.ip\"\nrates = [\"5 per 1s\"]\n";
const BROKEN: &str = "[[route]]\npath = \"auth\"\nrespnod = { status = 200 }\n";

/// A gateway whose process log is asked for by this text.
fn logged(levels: &str) -> Setup {
    Setup::new()
        .variable("SLUICEGATE_LOG", levels)
        .rules(RESPOND)
}

/// The modules that wrote lines of text so far.
fn modules(gateway: &Gateway) -> Vec<String> {
    let line = Regex::new(r"(?m)^\[\S+Z [A-Z]+ +(\S+)\] ").unwrap();
    let text = gateway.stderr();
    line.captures_iter(&text)
        .map(|found| found[1].to_owned())
        .collect()
}

/// Waits until a reload was refused, and told.
async fn refuses(gateway: &mut Gateway, rules: &str) {
    gateway.write_rules(rules, Writing::Rename);
    eventually("the reload is refused", async || {
        let refused = gateway
            .stderr()
            .contains("the configuration was not reloaded");
        refused.then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_line_is_one_object_and_pingoras_are_among_them() {
    // Goal: a collector that takes JSON gets nothing else, reports of several lines included, and lines of libraries that use `log` come
    // with their own module. Method: a file with a warning, Pingora asked for, a reload that is refused, and the end.
    let setup = logged("info,pingora_core=info")
        .variable("SLUICEGATE_LOG_FORMAT", "json")
        .rules(&format!("{WARNED}{RESPOND}"));
    let mut gateway = setup.start().await;
    refuses(&mut gateway, BROKEN).await;
    gateway.signal(Signal::SIGTERM);
    gateway.exit_code().await;
    let text = gateway.stderr();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let time = Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$").unwrap();
    for line in &lines {
        assert!(time.is_match(line["time"].as_str().unwrap()), "{line}");
        assert!(
            ["ERROR", "WARN", "INFO"].contains(&line["level"].as_str().unwrap()),
            "{line}"
        );
        assert!(line["message"].is_string(), "{line}");
    }
    let has = |level: &str, target: &str, message: &str| {
        lines.iter().any(|line| {
            line["level"] == level
                && line["target"].as_str().unwrap().starts_with(target)
                && line["message"].as_str().unwrap().contains(message)
        })
    };
    assert!(has("WARN", "sluicegate", "limit.unused"), "{text}");
    assert!(
        has("INFO", "pingora_core::server", "Server starting"),
        "{text}"
    );
    assert!(
        has(
            "ERROR",
            "sluicegate::process::reload",
            "not reloaded, the old one stays in force:\n"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn an_invalid_file_is_reported_in_the_configured_format() {
    // Goal: what ends a start is an object too. Method: a file with mistakes.
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, BROKEN).unwrap();
    let setup = Setup::new().variable("SLUICEGATE_LOG_FORMAT", "json");
    let mut process = Process::run_under(&setup, &["run", "--config", path.to_str().unwrap()]);
    assert_eq!(process.exit_code().await, 64);
    let line: Value = serde_json::from_str(&process.stderr()).unwrap();
    assert_eq!(line["level"], "ERROR");
    assert!(
        line["message"].as_str().unwrap().contains("respnod"),
        "{line}"
    );
}

#[tokio::test]
async fn a_module_has_a_level_of_its_own() {
    // Goal: one module is heard while the rest is silent. Method: a reload that is refused, which `process::reload` logs.
    let mut gateway = logged("off,sluicegate_process=error").start().await;
    refuses(&mut gateway, BROKEN).await;
    let modules = modules(&gateway);
    assert!(!modules.is_empty());
    assert!(
        modules
            .iter()
            .all(|module| module == "sluicegate::process::reload"),
        "{modules:?}"
    );
}

#[tokio::test]
async fn a_part_that_is_a_crate_goes_by_the_name_of_a_module() {
    // Goal: who reads a name in a line can set its level by that name, whatever a crate is. Method: the level of origins alone, and an
    // origin that nothing listens for.
    let gateway = Setup::new()
        .variable("SLUICEGATE_LOG", "off,sluicegate::origin=warn")
        .servers("gone", &[free_address()])
        .rules("[[route]]\npath = \"/*\"\norigin = \"gone\"\n")
        .start()
        .await;
    assert_eq!(gateway.get("/").await.status, 502);
    let modules = eventually("the failure is logged", async || {
        let modules = modules(&gateway);
        (!modules.is_empty()).then_some(modules)
    })
    .await;
    let is_of_origins = |module: &String| module.starts_with("sluicegate::origin::");
    assert!(modules.iter().all(is_of_origins), "{modules:?}");
}

#[tokio::test]
async fn more_of_the_gateway_is_not_more_of_its_libraries() {
    // Goal: lines of libraries do not hide those of the gateway. Method: all levels, a request by
    // HTTP/2, and a broken frame.
    let gateway = logged("trace").start().await.spoken_to_by(Version::Http2);
    assert_eq!(gateway.get("/").await.status, 200);
    let modules = modules(&gateway);
    assert!(
        modules
            .iter()
            .any(|module| module.starts_with("sluicegate")),
        "{modules:?}"
    );
    for library in ["h2", "rustls", "pingora_core::apps"] {
        assert!(
            !modules.iter().any(|module| module.starts_with(library)),
            "{modules:?}"
        );
    }
    assert!(
        !gateway.stderr().contains('\u{1b}'),
        "there are no colors in a file"
    );
}

#[tokio::test]
async fn a_variable_that_cannot_be_read_ends_the_start_with_what_to_write() {
    // Goal: a slip is no silence. Method: a word that is no level, a level of a module, a format.
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, RESPOND).unwrap();
    for (name, value, got, advice) in [
        (
            "SLUICEGATE_LOG",
            "inof",
            "\"inof\" is no level",
            "info,sluicegate::store=debug",
        ),
        (
            "SLUICEGATE_LOG",
            "info,store=loud",
            "\"store=loud\"",
            "off, error, warn, info, debug or trace",
        ),
        (
            "SLUICEGATE_LOG_FORMAT",
            "yaml",
            "\"yaml\" is no format",
            "write \"text\" or \"json\"",
        ),
    ] {
        let setup = Setup::new().variable(name, value);
        let mut process = Process::run_under(&setup, &["run", "--config", path.to_str().unwrap()]);
        assert_eq!(process.exit_code().await, 64, "{value}");
        let text = process.stderr();
        for part in [name, got, advice] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
