//! The commands besides a healthy run, and their exit codes.

use std::fs;
use std::net::{SocketAddr, TcpListener};

use tempfile::TempDir;

use crate::harness::*;

const GOOD: &str = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/\"\nrespond = { status = 200 }\n";

/// A file in a directory of its own.
fn file(text: &str) -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

#[tokio::test]
async fn check_accepts_a_good_file() {
    // Goal: exit code 0. Method: the smallest file.
    let (_directory, path) = file(GOOD);
    assert_eq!(Process::run(&["check", &path]).exit_code().await, 0);
}

#[tokio::test]
async fn check_reports_six_different_mistakes_at_once() {
    // Goal: all errors in one run, each with its place and the key. Method: six mistakes of six kinds on known lines.
    let text = r#"[[listener]]
address = "127.0.0.1:99999"
[origin.app]
servers = ["127.0.0.1:3000"]
retrys = 2
[limit.otp]
key = "client.pi"
rates = ["5 for 10s"]
[[route]]
path = "auth"
origin = "app"
[[route]]
path = "/x"
limits = ["top"]
origin = "app"
"#;
    let (_directory, path) = file(text);
    let mut process = Process::run(&["check", &path]);
    assert_eq!(process.exit_code().await, 64);
    let stderr = process.stderr();
    for (line, word) in [
        (2, "address"),
        (5, "retrys"),
        (7, "client.pi"),
        (8, "5 for 10s"),
        (10, "path"),
        (14, "top"),
    ] {
        let place = format!("gateway.toml:{line}:");
        let report = stderr.lines().find(|report| report.contains(&place));
        assert!(
            report.is_some_and(|report| report.contains(word)),
            "{place} {word} is not in:\n{stderr}"
        );
    }
}

#[tokio::test]
async fn run_refuses_a_bad_file_with_its_own_code() {
    // Goal: exit code 64 distinguishes a bad configuration from a failure. Method: a bad file, a missing file, no file.
    let (_directory, path) = file(&GOOD.replace("respond", "respnod"));
    let mut process = Process::run(&["run", "--config", &path]);
    assert_eq!(process.exit_code().await, 64);
    assert!(
        process.stderr().contains("gateway.toml:5:"),
        "{}",
        process.stderr()
    );
    assert_eq!(
        Process::run(&["run", "--config", "/nonexistent.toml"])
            .exit_code()
            .await,
        64
    );
    assert_eq!(Process::run(&["run"]).exit_code().await, 64);
    assert_eq!(Process::run(&["fly"]).exit_code().await, 64);
}

#[tokio::test]
async fn an_address_in_use_is_named_in_the_error() {
    // Goal: exit code 1, soon, and the address in the message. Method: the test holds the port.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let (_directory, path) = file(&GOOD.replace("127.0.0.1:1", &address));
    let mut process = Process::run(&["run", "--config", &path]);
    assert_eq!(process.exit_code().await, 1);
    let stderr = process.stderr();
    assert!(
        stderr.contains(&address) && stderr.to_lowercase().contains("in use"),
        "{stderr}"
    );
}

#[tokio::test]
async fn ping_distinguishes_a_running_gateway_from_a_stopped_one() {
    // Goal: the health check of containers. Method: ping while it runs and after its end.
    let mut gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = { status = 200 }").await;
    let path = gateway.config_path().display().to_string();
    assert_eq!(
        Process::run(&["ping", "--config", &path]).exit_code().await,
        0
    );
    gateway.signal(nix::sys::signal::Signal::SIGINT);
    gateway.exit_code().await;
    assert_eq!(
        Process::run(&["ping", "--config", &path]).exit_code().await,
        1
    );
}

#[tokio::test]
async fn the_demo_shows_requests_until_ctrl_c() {
    // Goal: the demo shows a limit, and Ctrl-C ends it. Method: the printed address; posts until one is rejected,
    // which is the sixth, or the seventh where a window began meanwhile.
    let mut demo = Process::run(&["demo"]);
    let address: SocketAddr = eventually("it says where it stands", async || {
        let told = demo.stderr();
        let (_, address) = told.split_once("stands at http://")?;
        address.split_whitespace().next()?.parse().ok()
    })
    .await;
    let mut client = eventually("it listens", async || {
        Client::try_connect(address).await.ok()
    })
    .await;
    eventually("its origin listens too", async || {
        (client.get("/begun").await.status == 200).then_some(())
    })
    .await;
    let mut passed = 0;
    let rejection = loop {
        let answer = client.post("/auth/sendOTP").await;
        if answer.status != 200 {
            break answer;
        }
        passed += 1;
    };
    assert_eq!(rejection.status, 429, "{rejection:?}");
    assert!(matches!(passed, 5 | 6), "{passed}");
    assert_eq!(client.get("/").await.status, 200);
    eventually("it shows them all", async || {
        let shown = demo.stdout();
        let lines = |of: &str| shown.lines().filter(|line| line.contains(of)).count();
        let posts = lines(" 200  POST /auth/sendOTP ") == passed;
        (posts && lines("rate-limited by otp") == 1 && lines(" 200  GET / ") == 1).then_some(())
    })
    .await;
    demo.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(demo.exit_code().await, 0);
}

#[tokio::test]
async fn help_and_version_are_no_errors() {
    // Goal: exit code 0, on standard output. Method: both flags.
    for flag in ["--help", "--version"] {
        let mut process = Process::run(&[flag]);
        assert_eq!(process.exit_code().await, 0, "{flag}");
        assert!(process.stdout().contains("sluicegate"), "{flag}");
    }
}
