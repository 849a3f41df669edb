//! A gateway is replaced by another without a failed request, and without a counter lost; one that cannot be replaced goes on.

mod carry;
mod datagrams;
mod ends;
mod load;
mod notices;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::*;

const BINARY: &str = env!("CARGO_BIN_EXE_sluicegate");

/// Five an hour on `/limited`, and a route without limits; `other` is edited by reloads.
fn rules(server: &str, other: &str) -> String {
    format!(
        r#"
        [server]
        {server}
        [limit.otp]
        key = "client.ip"
        rates = ["5 per 1h"]
        algorithm = "fixed-window"
        align = "first-request"
        [[route]]
        path = "/limited"
        limits = ["otp"]
        respond = {{ status = 200 }}
        [[route]]
        path = "/*"
        respond = {{ status = 200, body = "ok" }}
        {other}
        "#
    )
}

const KEPT: &str = "state_dir = \"state\"";

/// A process that the gateway, or the test, started to take over; killed when the test ends.
struct Successor(Pid);

impl Successor {
    fn signal(&self, signal: Signal) {
        kill(self.0, signal).unwrap();
    }

    async fn ended(&self) {
        eventually("the successor ends", async || {
            // A process that nobody has waited for still has an entry; its state is Z then.
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.0));
            stat.is_ok_and(|stat| !stat.contains(") Z"))
                .then_some(())
                .map_or(Some(()), |()| None)
        })
        .await;
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

fn upgrade_socket(gateway: &Gateway) -> PathBuf {
    gateway
        .config_path()
        .with_file_name("state")
        .join("upgrade.sock")
}

/// `sluicegate upgrade`: its exit code, and what it said.
async fn run_upgrade(gateway: &Gateway) -> (i32, String) {
    run_upgrade_with(&gateway.config_path()).await
}

async fn run_upgrade_with(file: &Path) -> (i32, String) {
    let mut command = Process::run(&["upgrade", "--config", file.to_str().unwrap()]);
    (command.exit_code().await, command.stderr())
}

/// Upgrades the gateway, which must succeed.
async fn upgrade(gateway: &Gateway) -> Successor {
    upgrade_with(&gateway.config_path()).await
}

/// As [`upgrade`], to another configuration.
async fn upgrade_with(file: &Path) -> Successor {
    let (code, said) = run_upgrade_with(file).await;
    assert_eq!(code, 0, "{said}");
    let word = said
        .split_whitespace()
        .skip_while(|word| *word != "process")
        .nth(1);
    Successor(Pid::from_raw(word.unwrap().parse().unwrap()))
}

/// Starts `run --upgrade` by hand, without waiting for what comes of it.
fn start_by_hand(gateway: &Gateway) -> Child {
    Command::new(BINARY)
        .args(["run", "--upgrade", "--config"])
        .arg(gateway.config_path())
        .current_dir(gateway.directory())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(gateway.directory().join("successor.log")).unwrap())
        .spawn()
        .unwrap()
}

/// Says lines at the upgrade socket and hears one.
fn say(gateway: &Gateway, lines: &[&str]) -> String {
    let mut stream = UnixStream::connect(upgrade_socket(gateway)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    for line in lines {
        writeln!(stream, "{line}").unwrap();
    }
    let mut heard = String::new();
    BufReader::new(stream).read_line(&mut heard).unwrap();
    heard.trim_end().to_owned()
}

#[tokio::test]
async fn an_upgrade_keeps_the_address_the_counters_and_the_admin_listener() {
    // Goal: the plainest upgrade. Method: three of five are used; the successor counts on from there, the old process ends with 0, both
    // listeners go on at their addresses, and the successor can be upgraded in its turn.
    let mut gateway = Gateway::start(&rules(KEPT, "")).await;
    for left in [4, 3, 2] {
        assert_eq!(gateway.get("/limited").await.remaining("otp"), left);
    }
    let first = upgrade(&gateway).await;
    assert_eq!(gateway.exit_code().await, 0, "the old process drains");
    assert_eq!(gateway.get("/limited").await.remaining("otp"), 1);
    assert_eq!(gateway.generation().await, 1, "the admin listener answers");
    let second = upgrade(&gateway).await;
    first.ended().await;
    assert_eq!(gateway.get("/limited").await.remaining("otp"), 0);
    assert_eq!(gateway.get("/limited").await.status, 429);
    second.signal(Signal::SIGTERM);
    second.ended().await;
    let log = gateway.stderr();
    assert_eq!(log.matches("took over").count(), 2, "{log}");
}

#[tokio::test]
async fn a_successor_started_by_hand_takes_over_whenever_sigquit_comes() {
    // Goal: what operators know from Pingora: SIGQUIT to the old, `run --upgrade` for the new. Method: the signal first, and nothing
    // may end by it alone.
    let mut gateway = Gateway::start(&rules(KEPT, "")).await;
    gateway.signal(Signal::SIGQUIT);
    eventually("the signal is heard", async || {
        gateway
            .stderr()
            .contains("waiting for a new process")
            .then_some(())
    })
    .await;
    assert_eq!(gateway.get("/limited").await.remaining("otp"), 4);
    let mut child = start_by_hand(&gateway);
    let successor = Successor(Pid::from_raw(child.id().try_into().unwrap()));
    assert_eq!(gateway.exit_code().await, 0);
    assert_eq!(gateway.get("/limited").await.remaining("otp"), 3);
    successor.signal(Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_new_configuration_may_add_listeners_and_leave_some_out() {
    // Goal: an upgrade is the restart that a change of listeners waits for. Method: the listener moves to another port.
    let mut gateway = Gateway::start(&rules(KEPT, "")).await;
    let old = gateway.address();
    let other = free_port();
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let moved = text.replace(&old.to_string(), &format!("127.0.0.1:{other}"));
    fs::write(gateway.config_path(), moved).unwrap();
    let _successor = upgrade(&gateway).await;
    assert_eq!(gateway.exit_code().await, 0);
    let mut client = Client::connect(([127, 0, 0, 1], other).into()).await;
    assert_eq!(client.get("/").await.status, 200);
    assert!(Client::try_connect(old).await.is_err(), "{old} is closed");
}

#[tokio::test]
async fn a_failed_upgrade_leaves_the_old_process() {
    // Goal: the old process stops accepting only once the new one accepts. Method: a broken file; a successor that ends at once, one that
    // finds a port taken, one that takes the sockets and leaves, one that is not there; after each the gateway serves, and in the end an
    // upgrade succeeds.
    let gateway = Gateway::start(&rules(KEPT, "")).await;
    let good = fs::read_to_string(gateway.config_path()).unwrap();
    let file = gateway.config_path().display().to_string();
    let serves = async || assert_eq!(gateway.get("/").await.status, 200);

    fs::write(&file, good.replace("respond", "respnod")).unwrap();
    let (code, said) = run_upgrade(&gateway).await;
    assert_eq!(code, 64, "{said}");
    serves().await;
    let told = say(&gateway, &["start 1", BINARY, &file]);
    assert!(
        told.starts_with("failed the new process ended (exit status: 64)"),
        "{told}"
    );
    serves().await;

    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    fs::write(&file, good.replace(&gateway.address().to_string(), &taken)).unwrap();
    let (code, said) = run_upgrade(&gateway).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("the gateway goes on as before"), "{said}");
    assert!(gateway.stderr().contains(&taken), "{}", gateway.stderr());
    serves().await;

    fs::write(&file, &good).unwrap();
    let told = say(&gateway, &["start 1", "/bin/false", &file]);
    assert!(told.contains("exit status: 1"), "{told}");
    let told = say(&gateway, &["start 1", "/nonexistent", &file]);
    assert!(told.contains("cannot be started"), "{told}");
    let told = say(&gateway, &["take 1"]);
    assert!(told.starts_with("listener 127.0.0.1:"), "{told}");
    let told = say(&gateway, &["take 2"]);
    assert!(told.contains("version 1"), "{told}");
    serves().await;
    eventually("the one that left is forgotten", async || {
        gateway
            .stderr()
            .contains("did not take over, this process continues")
            .then_some(())
    })
    .await;

    let successor = upgrade(&gateway).await;
    serves().await;
    drop(successor);
}

#[tokio::test]
async fn only_one_successor_takes_over_at_a_time() {
    // Goal: two upgrades at once do not end in two gateways. Method: one has begun and is not ready; the other is refused, then the
    // first leaves.
    let gateway = Gateway::start(&rules(KEPT, "")).await;
    let socket = upgrade_socket(&gateway);
    let connect = async || UnixStream::connect(&socket).ok();
    // The gateway serves a moment before it listens there.
    let mut first = eventually("the socket for upgrades", connect).await;
    writeln!(first, "take 1").unwrap();
    let mut heard = String::new();
    let mut reader = BufReader::new(first);
    while heard != "end\n" {
        heard.clear();
        reader.read_line(&mut heard).unwrap();
    }
    assert_eq!(
        say(&gateway, &["take 1"]),
        "another new process is about to take over"
    );
    let (code, said) = run_upgrade(&gateway).await;
    assert_eq!(code, 1, "{said}");
    drop(reader);
    eventually("the first is forgotten", async || {
        gateway.stderr().contains("did not take over").then_some(())
    })
    .await;
    drop(upgrade(&gateway).await);
}

#[tokio::test]
async fn the_socket_is_for_the_gateways_user_alone() {
    // Goal: only the gateway's user and root may connect to the socket. Method: the mode of the socket before and after an upgrade.
    let gateway = Gateway::start(&rules(KEPT, "")).await;
    let path = upgrade_socket(&gateway);
    let mode = || {
        let found = fs::metadata(&path).unwrap();
        assert!(found.file_type().is_socket());
        found.permissions().mode() & 0o777
    };
    eventually("the socket is there", async || path.exists().then_some(())).await;
    assert_eq!(mode(), 0o600);
    let _successor = upgrade(&gateway).await;
    assert_eq!(mode(), 0o600);
}

#[tokio::test]
async fn without_a_socket_an_upgrade_prints_the_cure() {
    // Goal: no silent restart. Method: neither a state directory nor a socket; then a socket alone, which is enough.
    let gateway = Gateway::start(&rules("", "")).await;
    let (code, said) = run_upgrade(&gateway).await;
    assert_eq!(code, 1);
    assert!(said.contains("upgrade_socket = "), "{said}");
    let gateway = Gateway::start(&rules("upgrade_socket = \"up.sock\"", "")).await;
    assert_eq!(gateway.get("/limited").await.remaining("otp"), 4);
    let _successor = upgrade(&gateway).await;
    assert_eq!(gateway.get("/limited").await.remaining("otp"), 3);
}

#[tokio::test]
async fn a_successor_without_a_predecessor_does_not_start() {
    // Goal: a mistake is reported, and no second gateway starts. Method: `run --upgrade` without a running gateway.
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("gateway.toml");
    let text = "[server]\nstate_dir = \"state\"\n[[listener]]\naddress = \"127.0.0.1:1\"\n\
                [[route]]\npath = \"/\"\nrespond = { status = 200 }\n";
    fs::write(&file, text).unwrap();
    let mut process = Process::run(&["run", "--upgrade", "--config", file.to_str().unwrap()]);
    assert_eq!(process.exit_code().await, 1);
    let said = process.stderr();
    assert!(said.contains("without --upgrade"), "{said}");
}
