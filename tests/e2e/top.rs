//! `sluicegate top`: a running gateway in a terminal, and one frame for programs.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::*;

/// The lines of a limit that rejects nothing.
const SHADOW: &str = "rates = [\"2 per 1h\"]\naction = \"shadow\"";

/// A gateway before an origin, after seven requests of one client and one of another.
async fn used_gateway() -> (Gateway, Origin) {
    let origin = Origin::echo();
    let rules = limit("otp", &["client.ip"], "rates = [\"5 per 1h\"]")
        + &limit("tried", &["client.ip"], SHADOW)
        + &route("/", &["otp", "tried"], "origin = \"app\"");
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules(&rules)
        .start()
        .await;
    for (client, requests) in [("127.0.0.5", 7), ("127.0.0.6", 1)] {
        let mut client = gateway.client_from(client).await;
        for _ in 0..requests {
            client.get("/").await;
        }
    }
    (gateway, origin)
}

/// Runs `top` without a terminal.
async fn top(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Process::run(&[&["top"], arguments].concat());
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}", gateway.admin_address())
}

#[tokio::test]
async fn one_frame_has_the_counts_of_limits_and_servers() {
    // Goal: a script reads what an operator sees. Method: known requests; every count of the JSON, and the same in the text.
    let (gateway, _origin) = used_gateway().await;
    // Counts are written when requests end.
    gateway.metrics().await;
    let url = url(&gateway);
    let (code, stdout, stderr) = top(&[&url, "--once", "--json", "--interval", "0.2"]).await;
    assert_eq!(code, 0, "{stderr}");
    let frame: Value = serde_json::from_str(&stdout).unwrap();
    let limit = |name: &str| -> &Value {
        let limits = frame["limits"].as_array().unwrap();
        limits.iter().find(|limit| limit["name"] == name).unwrap()
    };
    let total = |limit: &Value, counter: &str| limit[counter]["total"].as_f64().unwrap();
    let otp = limit("otp");
    assert_eq!((total(otp, "admitted"), total(otp, "rejected")), (6.0, 2.0));
    assert_eq!(otp["rejected"]["per_second"], json!(0.0));
    assert_eq!(
        (&otp["keys"], &otp["rates"]),
        (&json!(2), &json!(["5 per 1h"]))
    );
    let tried = limit("tried");
    assert_eq!(
        (&tried["action"], total(tried, "rejected")),
        (&json!("shadow"), 0.0)
    );
    assert!(total(tried, "shadow_rejected") >= 3.0, "{tried}");
    let server = &frame["servers"][0];
    assert_eq!(
        (&server["origin"], &server["state"]),
        (&json!("app"), &json!("unchecked"))
    );
    assert_eq!(server["attempts"]["total"], json!(6.0));
    assert_eq!(frame["nearest"]["limit"], frame["limits"][0]["name"]);

    let (code, text, _) = top(&[&url, "--once", "--interval", "0.2"]).await;
    assert_eq!(code, 0);
    for part in [
        "limits (2)",
        "otp",
        "shadow",
        "keys nearest to",
        "reject",
        "servers of origins (1)",
        " unchecked ",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[tokio::test]
async fn mistakes_get_a_sentence_and_an_exit_code() {
    // Goal: a person sees at once what to correct. Method: bad URLs, nobody at home, a process that does not answer, no token, a wrong
    // one, the right one in a file and by the configuration, and no terminal.
    let gateway = Setup::new()
        .tokens("0123456789abcdef")
        .file("other", "fedcba9876543210")
        .rules("[[route]]\npath = \"/\"\nrespond = { status = 200 }")
        .start()
        .await;
    let (url, path) = (url(&gateway), |name: &str| {
        gateway.directory().join(name).display().to_string()
    });
    let nobody = format!("http://{}", free_address());
    // The system accepts connections for it.
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hung_url = format!("http://{}", hung.local_addr().unwrap());
    let (right, wrong, absent) = (path("token"), path("other"), path("absent"));
    let once = async |arguments: &[&str]| {
        top(&[arguments, &["--once", "--interval", "0.1"]].concat()).await
    };
    for (arguments, code, part) in [
        (&["https://127.0.0.1:9180"][..], 64, "has no TLS"),
        (&["127.0.0.1:9180"], 64, "write http://HOST:PORT"),
        (&[&nobody], 1, "refused"),
        (&[&hung_url], 1, "the gateway does not answer within "),
        (&[&url], 1, "--token-file"),
        (&[&url, "--token-file", &wrong], 1, "the token is wrong"),
        (&[&url, "--token-file", &absent], 64, "--token-file"),
    ] {
        let (found, _, stderr) = once(arguments).await;
        assert_eq!(found, code, "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    for (arguments, part) in [
        ([&*url, "--interval", "0"].as_slice(), "write seconds"),
        (&[&url, "--json"], "--once"),
    ] {
        let (code, _, stderr) = top(arguments).await;
        assert_eq!(code, 64, "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
    let (code, _, stderr) = once(&[&url, "--token-file", &right]).await;
    assert_eq!(code, 0, "{stderr}");
    let config = gateway.config_path().display().to_string();
    let (code, _, stderr) = once(&["--config", &config]).await;
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = top(&["--config", &config]).await;
    assert_eq!(code, 1);
    assert!(stderr.contains("--once"), "{stderr}");
}

#[tokio::test]
async fn a_terminal_shows_limits_and_keys_and_is_left_as_it_was() {
    // Goal: a person looks from a limit to a key. Method: a terminal of 80 by 24; keys pressed, the screen after each, the end by q.
    let (gateway, _origin) = used_gateway().await;
    let url = url(&gateway);
    let mut terminal = TestTerminal::run(&["top", &url, "--interval", "0.2"], &[]);
    terminal
        .shows(&[
            "sluicegate 0.1.0",
            "limits (2)",
            "otp",
            "tried",
            "servers of origins (1)",
            "q quit",
        ])
        .await;
    assert!(terminal.is_covered());
    terminal.press("?");
    terminal.shows(&["help", "Ctrl-C"]).await;
    terminal.press("\x1b");
    terminal.lacks("Ctrl-C").await;
    terminal.press("/");
    terminal.press("otp\r");
    terminal
        .shows(&[
            "limits with \"otp\" (1 of 2)",
            "keys nearest to otp",
            "100 %",
        ])
        .await;
    assert!(terminal.has_color(), "a key that is rejected stands out");
    // To the keys, and into the first.
    terminal.press("\r");
    terminal.press("\r");
    terminal.shows(&["next      rejected", "5 of 5 used"]).await;
    terminal.press("q");
    assert_eq!(terminal.exit_code().await, 0);
}

#[tokio::test]
async fn a_closed_terminal_ends_the_program() {
    // Goal: a lost connection leaves no program behind that uses a core. Method: the process that has the terminal is killed.
    let (gateway, _origin) = used_gateway().await;
    let terminal = TestTerminal::run(&["top", &url(&gateway), "--interval", "0.2"], &[]);
    terminal.shows(&["limits (2)"]).await;
    terminal.close().await;
}

#[tokio::test]
async fn a_gateway_that_goes_away_is_shown_as_gone_until_it_is_back() {
    // Goal: an outage is seen in the same window. Method: the way to the admin listener refuses, and passes again; without colors, ended by
    // a signal.
    let (gateway, _origin) = used_gateway().await;
    let way = Mishap::before(gateway.admin_address()).await;
    let url = format!("http://{}", way.address());
    let arguments = ["top", &url, "--interval", "0.1"];
    let terminal = TestTerminal::run(&arguments, &[("NO_COLOR", "1")]);
    terminal.shows(&["sluicegate 0.1.0", "limits (2)"]).await;
    way.set(Way::Refuse);
    let gone = terminal.shows(&["no answer for"]).await;
    assert!(gone.contains("otp"), "what was known stays:\n{gone}");
    assert!(!terminal.has_color());
    way.set(Way::Pass);
    terminal.shows(&["sluicegate 0.1.0", "limits (2)"]).await;
    let pid = top_process(&url);
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(terminal.exit_code().await, 0);
}

/// The process that shows the gateway at this URL.
fn top_process(url: &str) -> Pid {
    let processes = std::fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut shows = ids.filter(|id: &i32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.len() > 2 && words[1] == b"top" && words[2] == url.as_bytes()
    });
    Pid::from_raw(shows.next().unwrap())
}
