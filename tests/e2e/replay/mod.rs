//! `sluicegate replay`: what it says of a log must be what a gateway would have done.

mod against;
mod clocks;
mod documents;
mod formats;
mod hour;
mod live;
mod page;
mod public_log;
mod reference;
mod suggest;

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::*;

/// The public sample log.
const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/e2e/replay/apache_common.log.gz"
);

/// Every algorithm, with the lines that it needs.
const ALGORITHMS: [(&str, &str); 6] = [
    ("exact", ""),
    ("sliding-window", ""),
    ("fixed-window", ""),
    ("token-bucket", ""),
    ("gcra", ""),
    ("leaky-bucket", "action = \"delay\"\nqueue = 2\n"),
];

/// A configuration with one limit by client on every route, with these lines.
fn limited(lines: &str) -> String {
    format!(
        "[limit.client]\nkey = \"client.ip\"\n{lines}\n[[route]]\nname = \"all\"\npath = \"/*\"\nlimits = [\"client\"]\n\
         respond = {{ status = 200 }}\n"
    )
}

/// A directory with files to replay.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Writes a configuration with these rules, and returns its path.
    fn config(&self, name: &str, rules: &str) -> String {
        let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
        self.write(name, format!("{listener}{rules}"))
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// Runs `replay` with these arguments: exit code, standard output and error.
async fn replay(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Process::run(&[&["replay"], arguments].concat());
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

/// The JSON report of a replay.
async fn report(arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = replay(&[arguments, &["--json"]].concat()).await;
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// The lines of a file of decisions.
fn decisions(path: impl AsRef<Path>) -> Vec<Value> {
    read_log(path.as_ref())
}

/// A line in the common format.
fn common_line(seconds: u64, client: &str) -> String {
    let time = jiff::Timestamp::from_second(seconds.try_into().unwrap()).unwrap();
    let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
    format!("{client} - - [{time}] \"GET /a HTTP/1.1\" 200 17\n")
}

#[tokio::test]
async fn a_public_log_has_the_rejections_that_others_counted() {
    // Goal: the sample log, which is compressed, has no order within its minutes and one malformed target, is judged as by an exact count.
    // Method: the numbers that a program without the limiter found, for each algorithm.
    let files = Files::new();
    for (algorithm, rejected) in [
        ("exact", 153),
        ("sliding-window", 154),
        ("fixed-window", 108),
        ("gcra", 65),
    ] {
        let rules = limited(&format!(
            "rates = [\"10 per 10s\"]\nalgorithm = \"{algorithm}\""
        ));
        let config = files.config("new.toml", &rules);
        let report = report(&[SAMPLE, "--config", &config]).await;
        let limit = &report["limits"]["client"];
        assert_eq!(limit["rejected"], rejected, "{algorithm}");
        assert_eq!(
            (&limit["requests"], &limit["keys"]),
            (&9_999.into(), &1_753.into())
        );
        assert_eq!(report["log"]["lines"], 10_000);
        assert_eq!(report["log"]["formats"][0], "common");
        assert_eq!(
            (&report["malformed"], &report["log"]["late"]),
            (&1.into(), &0.into())
        );
    }
}

#[tokio::test]
async fn every_algorithm_decides_each_request_as_its_definition_does() {
    // Goal: no algorithm differs in one request. Method: a schedule of bursts and pauses as a log whose lines are out of order by up to a
    // hundred seconds, and a reference without the limiter's code.
    let files = Files::new();
    let schedule = reference::schedule(4_000, 1_000);
    // Lines of blocks of a hundred seconds stand in reverse, those of one second in order.
    let mut lines: Vec<_> = schedule
        .iter()
        .map(|(at, client)| (at / 1_000, client))
        .collect();
    lines.sort_by_key(|(second, _)| (second / 100, u64::MAX - second));
    let log: String = lines
        .iter()
        .map(|(second, client)| common_line(*second, client))
        .collect();
    let log = files.write("access.log", log);
    for (algorithm, lines) in ALGORITHMS {
        let rules = limited(&format!(
            "rates = [\"4 per 8s\"]\nalgorithm = \"{algorithm}\"\n{lines}"
        ));
        let config = files.config("new.toml", &rules);
        let out = files.path("decisions.json");
        let report = report(&[&log, "--config", &config, "--decisions", &out]).await;
        let expected = reference::admitted(algorithm, 4, 8_000, &schedule);
        let decided = decisions(&out);
        assert_eq!(decided.len(), schedule.len());
        for (index, (decision, expected)) in decided.iter().zip(&expected).enumerate() {
            let (at, client) = &schedule[index];
            assert_eq!(
                (&decision["time_ns"], &decision["client"]),
                (&(at * 1_000_000).into(), &client.as_str().into())
            );
            assert_eq!(
                decision["outcome"] == "admitted",
                *expected,
                "{algorithm}: request {index}: {decision}"
            );
        }
        let rejected = expected.iter().filter(|admitted| !**admitted).count();
        assert!(rejected > 20, "{algorithm}: {rejected}");
        assert_eq!(
            report["limits"]["client"]["rejected"], rejected,
            "{algorithm}"
        );
    }
}

#[tokio::test]
async fn a_report_names_keys_times_and_broken_lines() {
    // Goal: a reader sees whom a limit hits, when, and what could not be read. Method: one client over its limit, one at it, two broken
    // lines, a route that blocks one client.
    let files = Files::new();
    let mut log = String::from("what is this\n");
    for second in 0..6 {
        log += &common_line(1_795_245_000 + second, "192.0.2.1");
    }
    for second in 0..3 {
        log += &common_line(1_795_245_002 + second, "192.0.2.2");
    }
    log += "192.0.2.3 - - [now] \"GET / HTTP/1.1\" 200 1\n";
    log += &common_line(1_795_245_009, "198.51.100.1");
    let log = files.write("access.log", log);
    let rules = limited("rates = [\"3 per 1h\"]\nalgorithm = \"exact\"")
        + "block = [\"bad\"]\n[list.bad]\ncidrs = [\"198.51.100.0/24\"]\n";
    let config = files.config("new.toml", &rules);
    let report = report(&[&log, "--config", &config]).await;
    assert_eq!(
        (
            &report["requests"],
            &report["admitted"],
            &report["rejected"],
            &report["blocked"]
        ),
        (&10.into(), &6.into(), &3.into(), &1.into())
    );
    let limit = &report["limits"]["client"];
    assert_eq!(
        (
            &limit["keys"],
            &limit["keys_rejected"],
            &limit["rejected_answered"]
        ),
        (&2.into(), &1.into(), &3.into())
    );
    assert_eq!(limit["first_rejection"], "2026-11-21T07:10:03.000Z");
    assert_eq!(limit["worst_keys"][0]["key"], "192.0.2.1");
    assert_eq!(limit["worst_keys"][0]["rejected"], 3);
    assert_eq!(report["log"]["broken"], 2);
    let broken = report["log"]["broken_lines"][1].as_str().unwrap();
    assert!(broken.contains("access.log:11: the [time]"), "{broken}");
    let (code, text, stderr) = replay(&[&log, "--config", &config]).await;
    assert_eq!((code, &*stderr), (0, ""));
    for part in [
        "3 rejected (30.00 %)",
        "1 blocked",
        "192.0.2.1",
        "2026-11-21T07:10:03.000Z",
        "broken    2 lines",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[tokio::test]
async fn a_limit_that_no_log_can_judge_is_left_out_with_the_reason() {
    // Goal: no number is made up. Method: limits by a field and by the body beside one by address; a host in the condition of a route,
    // without and with --host.
    let files = Files::new();
    let log: String = (0..9)
        .map(|second| common_line(1_795_245_000 + second, "192.0.2.1"))
        .collect();
    let log = files.write("access.log", log);
    let rules = r#"
[limit.address]
key = "client.ip"
rates = ["4 per 1h"]
[limit.customer]
key = "header.x-api-key"
on_missing = "shared"
rates = ["1 per 1h"]
[limit.phone]
key = "body.json.phone"
on_missing = "shared"
rates = ["1 per 1h"]
[[route]]
path = "/*"
host = "a.test"
limits = ["address", "customer", "phone"]
respond = { status = 200 }
"#;
    let config = files.config("new.toml", rules);
    let without = report(&[&log, "--config", &config]).await;
    assert_eq!(without["no_route"], 9);
    let with = report(&[&log, "--config", &config, "--host", "a.test"]).await;
    assert_eq!(
        (&with["admitted"], &with["limits"]["address"]["rejected"]),
        (&4.into(), &5.into())
    );
    let not_judged: Vec<_> = with["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| limit["limit"].as_str().unwrap())
        .collect();
    assert_eq!(not_judged, ["customer", "phone"]);
    assert!(with["limits"]["customer"].is_null());
    let reason = with["not_judged"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("x-api-key") && reason.contains("replay = true"),
        "{reason}"
    );
}

#[tokio::test]
async fn the_key_of_all_requests_has_a_name() {
    // Goal: a reader of a report sees no hash where a limit counts all requests together. Method: one more than it admits.
    let files = Files::new();
    let log = files.write(
        "access.log",
        common_line(1_795_245_000, "192.0.2.1").repeat(3),
    );
    let rules = limited("rates = [\"2 per 1h\"]").replace("client.ip", "global");
    let config = files.config("new.toml", &rules);
    let report = report(&[&log, "--config", &config]).await;
    assert_eq!(report["limits"]["client"]["worst_keys"][0]["key"], "global");
}

#[tokio::test]
async fn requests_of_one_second_can_be_spread_over_it() {
    // Goal: --spread has an effect, and the report says so. Method: two requests in one second under one a half second.
    let files = Files::new();
    let log = files.write(
        "access.log",
        common_line(1_795_245_000, "192.0.2.1").repeat(2),
    );
    let config = files.config(
        "new.toml",
        &limited("rates = [\"120 per 1m\"]\nalgorithm = \"gcra\"\nburst = 1"),
    );
    let as_logged = report(&[&log, "--config", &config]).await;
    assert_eq!(
        (&as_logged["rejected"], &as_logged["log"]["times"]),
        (&1.into(), &"as-logged".into())
    );
    let spread = report(&[&log, "--config", &config, "--spread"]).await;
    assert_eq!(
        (&spread["rejected"], &spread["log"]["times"]),
        (&0.into(), &"over-second".into())
    );
}

#[tokio::test]
async fn what_cannot_be_replayed_is_an_error_that_says_what_to_write() {
    // Goal: exit codes and messages. Method: a missing log, a log in no format, an unknown format, a bad configuration.
    let files = Files::new();
    let log = files.write("access.log", common_line(1_795_245_000, "192.0.2.1"));
    let good = files.config("new.toml", &limited("rates = [\"5 per 10s\"]"));
    let bad = files.config("bad.toml", &limited("rates = [\"5 for 10s\"]"));
    let noise = files.write("noise.log", "a\nb\n");
    for (arguments, code, part) in [
        (
            &["/nonexistent.log", "--config", &good][..],
            1,
            "/nonexistent.log cannot be read",
        ),
        (&[&noise, "--config", &good], 1, "--format"),
        (
            &[&log, "--config", &good, "--format", "combind"],
            64,
            "combined, common",
        ),
        (&[&log, "--config", &bad], 64, "5 for 10s"),
        (
            &[&log, "--config", &good, "--against", &bad],
            64,
            "5 for 10s",
        ),
        (&[&log], 64, "--config"),
    ] {
        let (found, _, stderr) = replay(arguments).await;
        assert_eq!(found, code, "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}
