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
    Setup::new().tokens(TOKENS).file("act", ACT).rules(rules)
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
        let answer = gateway.admin(request.bearer(token)).await;
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
    assert_eq!(gateway.admin(delete(path).bearer(ACT)).await.status, 200);
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
        (gateway.admin(get("/status").bearer(ACT)).await.status == 401).then_some(())
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
async fn many_bans_end_at_a_time() {
    // Goal: after a mistake or an attack an operator ends the bans that are meant, and no other. Method: 300 addresses banned at two
    // limits, by network, by limit and by time, counted first; the command line; a limit whose key is no address; slips.
    let rules = OTP.to_owned()
        + "[limit.user]\nkey = \"header.x-user\"\nrates = [\"2 per 1h\"]\ncapacity = 1024\non_missing = \"skip\"\nban = { for = \"1h\" }\n\
           [[route]]\npath = \"/user\"\nlimits = [\"user\"]\nrespond = { status = 200 }\n";
    let gateway = guarded(&rules).start().await;
    let ban = r#"{"ban": {"for": "1h"}}"#;
    for index in 0..300 {
        let address = format!("10.0.{}.{}", index / 256, index % 256);
        let path = format!("/limits/otp/keys?value={address}");
        let banned = gateway
            .admin(request("PUT", &path).body(ban).bearer(ACT))
            .await;
        assert_eq!(banned.status, 200, "{banned:?}");
    }
    let path = "/limits/user/keys?value=mallory";
    assert_eq!(
        gateway
            .admin(request("PUT", path).body(ban).bearer(ACT))
            .await
            .status,
        200
    );
    let lift = async |query: &str, status: u16| {
        let answer = gateway
            .admin(delete(&format!("/bans?{query}")).bearer(ACT))
            .await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        answer.json()
    };
    for (query, bans) in [
        ("cidr=10.0.0.0/25&dry_run=true", 128),
        ("cidr=10.0.0.0/25", 128),
        ("cidr=10.0.0.0/25", 0),
        ("limit=otp&cidr=10.0.0.0/20&dry_run=true", 172),
        ("since=10m&dry_run=true", 173),
        ("limit=user", 1),
    ] {
        let answer = lift(query, 200).await;
        assert_eq!(answer["bans"], bans, "{query}: {answer}");
        assert_eq!(answer["fleet"], false);
    }
    let skipped = lift("cidr=10.0.0.0/20&dry_run=true", 200).await;
    assert_eq!(skipped["skipped"][0]["limit"], "user", "{skipped}");
    let wide = lift("cidr=10.0.0.0/8", 200).await;
    assert!(
        wide["skipped"].to_string().contains("name a smaller one"),
        "{wide}"
    );
    for (query, status) in [
        ("", 400),
        ("dry_run=true", 400),
        ("limit=none", 404),
        ("all=1", 400),
    ] {
        lift(query, status).await;
    }
    let none = gateway.admin(delete("/bans?limit=otp").bearer(READ)).await;
    assert_eq!(none.status, 403);

    let [url, token] = [
        format!("http://{}", gateway.admin_address()),
        gateway.directory().join("act").display().to_string(),
    ];
    let unban = [
        "unban",
        "--url",
        &url,
        "--token-file",
        &token,
        "--cidr",
        "10.0.1.0/24",
        "--since",
        "10m",
    ];
    for (more, said) in [
        (Some("--dry-run"), "would end 44 bans"),
        (None, "ended 44 bans"),
        (None, "ended 0 bans"),
    ] {
        let mut arguments = unban.to_vec();
        arguments.extend(more);
        let mut command = Process::run(&arguments);
        assert_eq!(command.exit_code().await, 0, "{}", command.stderr());
        assert!(
            command.stderr().contains(said),
            "{said}: {}",
            command.stderr()
        );
    }
    let log = gateway.stderr();
    assert!(log.contains("audit: bans: alice (127.0.0.1:"), "{log}");
    assert!(
        log.contains("lifted 128 bans of clients in 10.0.0.0/25"),
        "{log}"
    );

    let browser = Browser::start().await;
    let mut page = browser.signed_in(&gateway, ACT, "limit/otp").await;
    page.press("section[aria-label=Bans]", "Lift all bans")
        .await;
    page.shows("Lift 128 bans of limit otp?").await;
    page.press("dialog[open]", "Lift all").await;
    page.shows("No key is banned.").await;
    assert_eq!(lift("limit=otp&dry_run=true", 200).await["bans"], 0);

    // A whole limit: what is used, and a ban.
    let mut client = gateway.client().await;
    for status in [200, 200, 429, 429] {
        assert_eq!(client.get("/login").await.status, status);
    }
    let clear = async |query: &str| {
        let path = format!("/limits/otp/clear{query}");
        gateway.admin(post(&path).bearer(ACT)).await.json()
    };
    let counted = clear("?dry_run=true").await;
    assert_eq!(
        (&counted["bans"], &counted["dry_run"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        client.get("/login").await.status,
        429,
        "a dry run clears nothing"
    );
    assert_eq!(clear("").await["bans"], 1);
    assert_eq!(client.get("/login").await.status, 200);
}

#[tokio::test]
async fn the_page_offers_no_action_to_a_token_that_reads() {
    // Goal: who may only read sees why nothing can be pressed. Method: the page with each token, its notice and its buttons.
    let gateway = guarded(OTP).start().await;
    gateway.get("/login").await;
    let browser = Browser::start().await;
    for (token, disabled) in [(READ, true), (ACT, false)] {
        let view = "keys?value=127.0.0.1";
        let mut page = browser.signed_in(&gateway, token, view).await;
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
        assert_eq!(page.complaints_but(&[401]).await, Vec::<String>::new());
    }
}
