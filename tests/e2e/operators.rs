//! Who may do what on the admin listener, and what is kept of it: names and roles of tokens, the audit log, and changes that are looked at
//! before they are made.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::*;

const READ: &str = "fedcba9876543210";
const ACT: &str = "0123456789abcdef";
/// The second token is in the file as its SHA-256 alone.
const TOKENS: &str = "# operators\nmonitor read fedcba9876543210\n\
                      alice act sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f\n";

/// A limit of two an hour that bans, and a route that answers by itself.
const OTP: &str = "[limit.otp]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncapacity = 1024\nban = { for = \"1h\" }\n\
                   [[route]]\nname = \"login\"\npath = \"/login\"\nlimits = [\"otp\"]\nrespond = { status = 200 }\n";

fn guarded(rules: &str) -> Setup {
    Setup::new()
        .file("token", TOKENS)
        .file("act", ACT)
        .admin_line("token_file = \"{directory}/token\"")
        .rules(rules)
}

fn bearer(token: &str, request: Request) -> Request {
    request.header("authorization", &format!("Bearer {token}"))
}

/// The lines of an audit log that has so many.
async fn audit_lines(path: &std::path::Path, count: usize) -> Vec<Value> {
    eventually("the audit log has its lines", async || {
        let lines = path.exists().then(|| read_log(path))?;
        (lines.len() >= count).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn a_token_has_a_name_and_a_role_and_each_change_an_audit_line() {
    // Goal: a monitor reads and changes nothing, an operator changes, and both are named in a log that is rotated. Method: requests with
    // both tokens and with none, the file of the log renamed between them, then a file of tokens without one of them.
    let setup = guarded(OTP).log_line("audit = \"audit.log\"");
    let gateway = setup.start().await;
    let path = "/limits/otp/keys?value=192.0.2.1";
    let ban = || request("PUT", path).body(r#"{"ban": {"for": "30m", "reason": "card fraud"}}"#);
    for (token, request, status) in [
        (READ, get("/status"), 200),
        (READ, get("/limits/otp/keys?value=192.0.2.1"), 200),
        (READ, ban(), 403),
        (READ, post("/reload"), 403),
        (READ, get("/reload?dry_run=true"), 200),
        (ACT, ban(), 200),
        (
            "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f",
            get("/status"),
            401,
        ),
    ] {
        let answer = gateway.admin(bearer(token, request)).await;
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 403 {
            assert!(answer.text().contains("the role read"), "{answer:?}");
        }
    }
    assert_eq!(gateway.admin(get("/status")).await.status, 401);

    // Beside the configuration, as every relative path.
    let file = gateway.config_path().with_file_name("audit.log");
    let lines = audit_lines(&file, 3).await;
    let results = lines
        .iter()
        .map(|line| [&line["name"], &line["action"], &line["result"]]);
    let results: Vec<_> = results.collect();
    assert_eq!(
        json!(results),
        json!([
            ["monitor", "request", "refused"],
            ["monitor", "request", "refused"],
            ["alice", "ban", "ok"]
        ])
    );
    assert_eq!(
        (&lines[2]["role"], &lines[2]["reason"]),
        (&json!("act"), &json!("card fraud"))
    );
    assert_eq!(lines[2]["target"], "limit otp");
    assert!(
        lines[2]["client"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:"),
        "{lines:?}"
    );
    assert!(
        !gateway.stderr().contains("audit: "),
        "the stream has the lines alone"
    );

    let rotated = file.with_extension("1");
    std::fs::rename(&file, &rotated).unwrap();
    gateway.signal(Signal::SIGUSR1);
    eventually("the audit log is opened again", async || {
        file.exists().then_some(())
    })
    .await;
    assert_eq!(gateway.admin(bearer(ACT, delete(path))).await.status, 200);
    let line = audit_lines(&file, 1).await.remove(0);
    assert_eq!(
        (&line["action"], &line["result"]),
        (&json!("clear"), &json!("ok"))
    );
    assert_eq!(read_log(&rotated).len(), 3);

    let tokens = gateway.directory().join("token");
    std::fs::write(tokens.with_extension("new"), format!("bob act {ACT}-2\n")).unwrap();
    std::fs::rename(tokens.with_extension("new"), &tokens).unwrap();
    eventually("the token of alice is gone", async || {
        (gateway.admin(bearer(ACT, get("/status"))).await.status == 401).then_some(())
    })
    .await;
    let log = gateway.stderr();
    assert!(log.contains("admin: the token alice is removed"), "{log}");
}

#[tokio::test]
async fn a_change_is_seen_before_it_is_made() {
    // Goal: an operator sees in words what a file would change, and whether it is wrong, before it is in force. Method: a file compared
    // with the gateway; a dry run of a change that the gateway has not read by itself yet; a dry run of a file with a mistake.
    let mut gateway = Setup::new().rules(OTP).start().await;
    let url = format!("http://{}", gateway.admin_address());
    let new = gateway.directory().join("new.toml");
    let text = std::fs::read_to_string(gateway.config_path()).unwrap();
    for (rates, code, said) in [
        ("2 per 1h", 0, "the same as the configuration in force"),
        ("3 per 1h", 2, "limit otp: 2 per 1h → 3 per 1h"),
        ("3 per", 64, "1 error"),
    ] {
        std::fs::write(&new, text.replace("2 per 1h", rates)).unwrap();
        let mut check = Process::run(&["check", new.to_str().unwrap(), "--against", &url]);
        assert_eq!(check.exit_code().await, code, "{}", check.stderr());
        assert!(check.stderr().contains(said), "{said}: {}", check.stderr());
    }
    let nobody = [
        "check",
        new.to_str().unwrap(),
        "--against",
        "http://127.0.0.1:1",
    ];
    std::fs::write(&new, &text).unwrap();
    assert_eq!(Process::run(&nobody).exit_code().await, 1);

    // The gateway reads a changed file by itself, so the dry run has to come first.
    let mut count = 2;
    let change = eventually("a dry run before the change", async || {
        count += 1;
        gateway.write_rules(
            &OTP.replace("2 per 1h", &format!("{count} per 1h")),
            Writing::Rename,
        );
        let answer = gateway.admin(get("/reload?dry_run=true")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        answer["changes"][0].as_str().map(str::to_owned)
    })
    .await;
    let expected = format!("limit otp: {} per 1h → {count} per 1h", count - 1);
    assert!(
        change.ends_with(&format!("→ {count} per 1h")),
        "{change}, about {expected}"
    );
    assert_eq!(gateway.admin(post("/reload")).await.status, 200);
    let file = gateway.config_path();
    let dry_run = ["reload", file.to_str().unwrap(), "--dry-run"];
    let mut same = Process::run(&dry_run);
    assert_eq!(same.exit_code().await, 0, "{}", same.stderr());
    assert!(
        same.stderr().contains("would change nothing"),
        "{}",
        same.stderr()
    );

    let before = gateway
        .metrics()
        .await
        .sum("sluicegate_reloads_total", &[("result", "ok")]);
    std::fs::write(gateway.directory().join("list"), "192.0.2.1\n").unwrap();
    gateway.write_rules(&OTP.replace("2 per 1h", "2 per"), Writing::Rename);
    let answer = gateway.admin(get("/reload?dry_run=true")).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["result"], "failed");
    assert_eq!(Process::run(&dry_run).exit_code().await, 64);
    let after = gateway
        .metrics()
        .await
        .sum("sluicegate_reloads_total", &[("result", "ok")]);
    assert_eq!(before, after, "a dry run is no reload");
    assert_eq!(gateway.admin(get("/reload?dry=1")).await.status, 400);
}

#[tokio::test]
async fn the_page_offers_no_action_to_a_token_that_reads() {
    // Goal: who may only read sees why nothing can be pressed. Method: the page with each token, its notice and its buttons.
    let gateway = guarded(OTP).start().await;
    gateway.get("/login").await;
    let browser = Browser::start().await;
    let address = format!(
        "http://{}/ui/#/keys?value=127.0.0.1",
        gateway.admin_address()
    );
    for (token, disabled) in [(READ, true), (ACT, false)] {
        let mut page = browser.open(&address).await;
        page.shows("asks for a token").await;
        page.fill("input[type=password]", token).await;
        page.press("main", "Open").await;
        page.until("document.querySelectorAll('[role=group] button').length === 3")
            .await;
        if disabled {
            page.shows("Read-only: the token monitor has the role read")
                .await;
        }
        page.until(&format!(
            "document.querySelector('[role=group] button').disabled === {disabled}"
        ))
        .await;
        let complaints = page.complaints().await;
        assert!(
            complaints.iter().all(|said| said.contains("401")),
            "{complaints:?}"
        );
    }
}
