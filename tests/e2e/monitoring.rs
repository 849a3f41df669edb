//! Alerts and board in `packaging/` fit the gateway: a real Prometheus takes them, and they name what exists.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::*;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn board() -> Value {
    serde_json::from_str(&project_file("packaging/grafana/sluicegate.json")).unwrap()
}

/// The panels of the board that show something, with the expressions of each.
fn panels(board: &Value) -> Vec<(&Value, Vec<&str>)> {
    let panels = board["panels"].as_array().unwrap().iter();
    panels
        .filter(|panel| panel["type"] != "row")
        .map(|panel| {
            let targets = panel["targets"].as_array().unwrap().iter();
            let expressions = targets.map(|target| target["expr"].as_str().unwrap());
            (panel, expressions.collect())
        })
        .collect()
}

/// The expression of a panel as Grafana sends it, with every job, instance, route and limit chosen.
fn sent(expression: &str) -> String {
    expression
        .replace("$__rate_interval", "1m")
        .replace("$job", ".+")
        .replace("$instance", ".+")
        .replace("$route", ".*")
        .replace("$limit", ".*")
}

fn promtool(arguments: &[&str]) -> Output {
    Command::new("promtool")
        .args(arguments)
        .current_dir(path("packaging/prometheus"))
        .output()
        .unwrap_or_else(|error| {
            panic!("promtool does not start ({error}); `./dev test` installs it")
        })
}

#[test]
fn alerts_fire_on_what_they_are_about() {
    // Goal: each alert fires where it should and is silent elsewhere. Method: promtool, with the series of alerts.test.yml.
    pass("alerts");
    let (rules, tests) = (
        project_file("packaging/prometheus/alerts.yml"),
        project_file("packaging/prometheus/alerts.test.yml"),
    );
    for name in alerts(&rules) {
        let fires = tests
            .matches(&format!("alertname: {name}\n        exp_alerts:\n"))
            .count();
        let is_silent = tests.contains(&format!("alertname: {name}\n        exp_alerts: []"));
        assert!(
            fires > 0 && is_silent,
            "{name} has no test, or only one side of it"
        );
    }
}

/// The names of the alerts in a file of rules.
fn alerts(rules: &str) -> Vec<&str> {
    named("- alert: ", rules)
}

/// The names that follow `key` in a file of rules.
fn named<'a>(key: &str, rules: &'a str) -> Vec<&'a str> {
    let names = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix(key));
    names.collect()
}

/// Checks a file of rules and runs its tests.
fn pass(file: &str) {
    let (rules, tests) = (format!("{file}.yml"), format!("{file}.test.yml"));
    for arguments in [["check", "rules", &rules], ["test", "rules", &tests]] {
        let output = promtool(&arguments);
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&said)
        );
    }
}

#[test]
fn recorded_rates_are_those_of_all_gateways_of_a_job() {
    // Goal: a board over weeks reads what the gateways exported. Method: promtool, with the series of recording.test.yml, which asks for
    // each name.
    pass("recording");
    let (rules, tests) = (
        project_file("packaging/prometheus/recording.yml"),
        project_file("packaging/prometheus/recording.test.yml"),
    );
    let names = named("- record: ", &rules);
    assert!(names.len() > 5);
    for name in names {
        assert!(
            tests.contains(&format!("- expr: {name}")),
            "{name} has no test"
        );
    }
}

#[test]
fn every_alert_leads_to_an_entry_of_the_runbook() {
    // Goal: who is woken up finds what to do. Method: the link of each alert against the headings of the page.
    let (rules, runbook) = (
        project_file("packaging/prometheus/alerts.yml"),
        project_file("docs/operations/runbook.md"),
    );
    let headings: BTreeSet<String> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    let page = "runbook_url: https://github.com/sluicegate/sluicegate/blob/main/docs/operations/runbook.md#";
    let links: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix(page))
        .collect();
    assert_eq!(links.len(), alerts(&rules).len(), "an alert without a link");
    for link in links {
        assert!(headings.contains(link), "the runbook has no entry {link}");
    }
}

/// The words of a text that can be names of metrics of the gateway, and the matchers of each.
fn selectors(text: &str) -> Vec<(String, String)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in text.match_indices(is_name) {
        let begins = !text[..at].ends_with(is_name);
        let rest = &text[at..];
        if !begins || !(rest.starts_with("sluicegate_") || rest.starts_with("process_")) {
            continue;
        }
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let matchers = rest[end..]
            .strip_prefix('{')
            .and_then(|inside| Some(&inside[..inside.find('}')?]));
        found.push((
            rest[..end].to_owned(),
            matchers.unwrap_or_default().to_owned(),
        ));
    }
    found
}

/// The values that matchers of a selector ask for: `outcome=~"rate-limited|banned"` are two.
fn values(matchers: &str) -> Vec<&str> {
    let quoted = matchers.split('"').skip(1).step_by(2);
    let values = quoted.flat_map(|value| value.split('|'));
    values.filter(|value| !value.starts_with('$')).collect()
}

#[test]
fn rules_and_panels_name_metrics_that_exist() {
    // Goal: no panel stays empty, and no alert silent, because of a name. Method: every name and every value of a label in both files,
    // against the pages that tests hold to the code.
    let (metrics, logs) = (
        project_file("docs/operations/metrics.md"),
        project_file("docs/operations/logs.md"),
    );
    let board = board();
    let rules = ["alerts", "recording"]
        .map(|file| project_file(&format!("packaging/prometheus/{file}.yml")));
    let lines = rules.iter().flat_map(|rules| rules.lines());
    let is_expression = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with('#') && !line.starts_with("- record: ")
    };
    let mut texts: Vec<String> = lines.filter(is_expression).map(str::to_owned).collect();
    texts.extend(
        panels(&board)
            .iter()
            .flat_map(|(_, expressions)| expressions.iter().map(|text| (*text).to_owned())),
    );
    let mut names = BTreeSet::new();
    for (name, matchers) in texts.iter().flat_map(|text| selectors(text)) {
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(&name);
        let row = metrics
            .lines()
            .find(|line| line.starts_with(&format!("| `{family}` | ")));
        let row =
            row.unwrap_or_else(|| panic!("docs/operations/metrics.md does not explain {family}"));
        assert!(
            ["counter", "gauge", "histogram"]
                .iter()
                .any(|kind| row.contains(&format!("| {kind} |"))),
            "{row}"
        );
        for value in values(&matchers) {
            let is_documented =
                row.contains(&format!("`{value}`")) || logs.contains(&format!("| `{value}` |"));
            assert!(
                is_documented,
                "no label of {family} is documented to be {value}"
            );
        }
        names.insert(family.to_owned());
    }
    assert!(names.len() > 50, "{names:?}");
}

#[test]
fn a_panel_shows_the_chosen_route_and_limit() {
    // Goal: who chooses a limit or a route sees nothing of the others. Method: each selector of the board against the labels that
    // docs/operations/metrics.md gives its metric.
    let metrics = project_file("docs/operations/metrics.md");
    let board = board();
    let names: Vec<&str> = board["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "job", "instance", "route", "limit"]);
    let mut filtered = 0;
    for expression in panels(&board).iter().flat_map(|panel| &panel.1) {
        for (name, matchers) in selectors(expression) {
            let family = name.strip_suffix("_bucket").unwrap_or(&name);
            let labels = metrics
                .lines()
                .find_map(|line| line.strip_prefix(&format!("| `{family}` | ")))
                .and_then(|row| row.split_once("| By "))
                .map_or("", |(_, labels)| {
                    labels.split(['.', ':', '(']).next().unwrap()
                });
            for label in ["route", "limit"] {
                let is_filtered = matchers.contains(&format!("{label}=~\"${label}\""));
                assert_eq!(
                    is_filtered,
                    labels.contains(&format!("`{label}`")),
                    "{expression}"
                );
                filtered += usize::from(is_filtered);
            }
        }
    }
    assert!(filtered > 30);
}

#[test]
fn every_panel_says_what_it_shows() {
    // Goal: nobody guesses a unit. Method: id, title, unit, description and expressions of each panel.
    let board = board();
    let panels = panels(&board);
    let all = board["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = all
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), all.len(), "an id is there twice");
    for (panel, expressions) in &panels {
        let title = panel["title"].as_str().unwrap();
        let said = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        assert!(said(&panel["description"]), "{title}");
        assert!(said(&panel["fieldConfig"]["defaults"]["unit"]), "{title}");
        assert!(!expressions.is_empty(), "{title}");
        for expression in expressions {
            assert!(
                expression.contains("instance=~\"$instance\""),
                "{title}: {expression}"
            );
        }
    }
    assert!(panels.len() > 30);
}

/// A real Prometheus that scrapes a gateway; it is killed by its own process id when dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Prometheus {
    async fn scraping(gateway: &Gateway) -> Self {
        let directory = TempDir::new().unwrap();
        let address = free_address();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [\"{}\", \"{}\"]\n\
             scrape_configs:\n  - job_name: edge\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
            path("packaging/prometheus/alerts.yml").display(),
            path("packaging/prometheus/recording.yml").display(),
            gateway.admin_address()
        );
        fs::write(directory.path().join("prometheus.yml"), config).unwrap();
        let errors = fs::File::create(directory.path().join("stderr.log")).unwrap();
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("prometheus does not start ({error}); `./dev test` installs it")
            });
        let mut prometheus = Self {
            child,
            address,
            _directory: directory,
        };
        eventually("Prometheus is ready", async || {
            assert!(
                prometheus.child.try_wait().unwrap().is_none(),
                "prometheus has ended"
            );
            let mut client = Client::try_connect(address).await.ok()?;
            let answer = client.try_send(get("/-/ready")).await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await;
        prometheus
    }

    async fn get(&self, target: &str) -> Value {
        Client::connect(self.address).await.get(target).await.json()
    }

    /// The number of series that an expression has now; an error is a panic.
    async fn query(&self, expression: &str) -> usize {
        let encoded: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).await;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().len()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration with most of what has metrics of its own.
const RULES: &str = r#"
[limit.few]
key          = "client.ip"
rates        = ["2 per 1h"]
shadow_rates = ["1 per 1h"]
ban          = { for = "1m" }
concurrency  = 8

[limit.trial]
key    = "client.ip"
rates  = ["1 per 1h"]
action = "shadow"

[limit.loaded]
key   = "client.ip"
rates = ["1 per 1h"]
when  = "limit.few.rejected > 1000"

[[route]]
path   = "/*"
limits = ["few", "trial", "loaded"]
origin = "app"
cache  = {}
"#;

#[tokio::test]
async fn prometheus_evaluates_every_panel_and_alert() {
    // Goal: the files work with what a gateway exports. Method: a real Prometheus scrapes one with limits, bans, shadow, cache and an
    // origin that fails; then each expression is asked for, and the state of each rule.
    let origin = Origin::echo();
    let rules = format!("{RULES}\n[[route]]\npath = \"/broken\"\norigin = \"broken\"\n");
    let gateway = Setup::new()
        .origin("app", &origin)
        .origin_line("adaptive_concurrency = {}")
        .servers("broken", &[free_address()])
        .rules(&rules)
        .start()
        .await;
    let prometheus = Prometheus::scraping(&gateway).await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        client.get("/").await;
    }
    assert_eq!(client.get("/broken").await.status, 502);
    eventually("Prometheus has seen a rejection", async || {
        let seen = prometheus
            .query("sum(rate(sluicegate_limit_refused_total[1m]))")
            .await;
        (seen > 0).then_some(())
    })
    .await;

    let board = board();
    let mut shown = BTreeSet::new();
    for (panel, expressions) in panels(&board) {
        for expression in expressions {
            if prometheus.query(&sent(expression)).await > 0 {
                shown.insert(panel["title"].as_str().unwrap());
            }
        }
    }
    for title in [
        "Requests by outcome",
        "Duration",
        "Rejections by limit",
        "Shadow beside enforced",
        "Table in use",
        "Overflow and shares",
        "Bans and concurrency",
        "Active conditions",
        "Adaptive limits",
        "Failures by kind",
        "Attempts by outcome",
        "Servers in service",
        "Memory",
        "Connections",
        "Turned away by a bound",
        "Configuration",
        "Access log and spans",
        "Descriptors",
    ] {
        assert!(shown.contains(title), "{title} shows nothing: {shown:?}");
    }

    let (alerting, recording) = (
        project_file("packaging/prometheus/alerts.yml"),
        project_file("packaging/prometheus/recording.yml"),
    );
    let recorded = named("- record: ", &recording);
    let expected = alerts(&alerting).len() + recorded.len();
    eventually("every rule was evaluated", async || {
        let answer = prometheus.get("/api/v1/rules").await;
        let groups = answer["data"]["groups"].as_array().unwrap();
        let rules: Vec<&Value> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap())
            .collect();
        assert_eq!(rules.len(), expected);
        assert!(
            rules.iter().all(|rule| rule["health"] != "err"),
            "{rules:?}"
        );
        rules
            .iter()
            .all(|rule| rule["health"] == "ok")
            .then_some(())
    })
    .await;
    for name in recorded {
        eventually(&format!("{name} has a series"), async || {
            (prometheus.query(name).await > 0).then_some(())
        })
        .await;
    }
}
