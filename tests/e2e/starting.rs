//! Starts that fail say what to write, and what a start leaves out stays out.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::harness::*;

/// A file with one route, and the process that runs with it.
fn run(listener: SocketAddr, more: &str) -> (TempDir, Process) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    let text = format!(
        "{more}\n[[listener]]\naddress = \"{listener}\"\n[[route]]\npath = \"/\"\nrespond = {{ status = 200, body = \"here\" }}\n"
    );
    fs::write(&path, text).unwrap();
    let process = Process::run(&["run", "--config", path.to_str().unwrap()]);
    (directory, process)
}

#[tokio::test]
async fn the_operators_listener_can_be_off() {
    // Goal: a gateway without a port for operators. Method: it serves, says so, and `sluicegate reload` says what is missing.
    let listener = free_address();
    let (directory, process) = run(
        listener,
        "[admin]\naddress = \"off\"\n[log]\naccess = \"off\"",
    );
    let mut client = eventually("it listens", async || {
        Client::try_connect(listener).await.ok()
    })
    .await;
    assert_eq!(client.get("/").await.text(), "here");
    let log = process.stderr();
    assert!(log.contains("admin off: "), "{log}");
    let path = directory.path().join("gateway.toml");
    let mut reload = Process::run(&["reload", "--config", path.to_str().unwrap()]);
    assert_eq!(reload.exit_code().await, 1);
    let said = reload.stderr();
    assert!(said.contains("[admin] address is \"off\""), "{said}");
}

#[tokio::test]
async fn an_admin_address_in_use_is_named_in_the_error() {
    // Goal: the error names the admin listener, not one of the file. Method: the address is taken by the test.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = taken.local_addr().unwrap();
    let more = format!("[admin]\naddress = \"{admin}\"\n[log]\naccess = \"off\"");
    let (_directory, mut process) = run(free_address(), &more);
    assert_eq!(process.exit_code().await, 1);
    let said = process.stderr();
    let told = format!("cannot listen on {admin}, the address of the operator's listener: ");
    assert!(
        said.contains(&told) && said.contains("or \"off\""),
        "{said}"
    );
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_is_named() {
    // Goal: the message says which directory. Method: one that does not exist.
    let admin = free_address();
    let more = format!("[admin]\naddress = \"{admin}\"\n[log]\naccess = \"none/access.log\"");
    let (_directory, mut process) = run(free_address(), &more);
    assert_eq!(process.exit_code().await, 64);
    let said = process.stderr();
    assert!(
        said.contains("log.access: the directory ") && said.contains("none\" does not exist"),
        "{said}"
    );
}

#[tokio::test]
async fn the_demos_rules_are_private_and_go_with_it() {
    // Goal: no other user can edit the demo's rules, and nothing is left behind. Method: the mode of the directory, then Ctrl-C.
    let _turn = demo_turn().await;
    let mut demo = Process::run(&["demo"]);
    let file = eventually("it says where its rules are", async || {
        let told = demo.stderr();
        let (_, rest) = told.split_once("The rules are in ")?;
        Some(std::path::PathBuf::from(rest.split_once(';')?.0))
    })
    .await;
    let directory = file.parent().unwrap().to_owned();
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let told = demo.stderr();
    let (_, address) = told.split_once("stands at http://").unwrap();
    let address: SocketAddr = address.split_whitespace().next().unwrap().parse().unwrap();
    eventually("it listens", async || {
        Client::try_connect(address).await.ok()
    })
    .await;
    demo.signal(Signal::SIGINT);
    assert_eq!(demo.exit_code().await, 0);
    assert!(!directory.exists());
}
