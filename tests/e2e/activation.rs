//! Sockets that a service manager opens: the gateway takes them over, and connections wait while it restarts.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::harness::*;

const BINARY: &str = env!("CARGO_BIN_EXE_sluicegate");

/// Starts the gateway as systemd does: the socket is descriptor 3, and the process is told its own id.
fn activate(socket: &TcpListener, file: &std::path::Path) -> Child {
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(file.with_extension("log"))
        .unwrap();
    Command::new("/bin/sh")
        .args(["-c", script, "sh", BINARY, "run", "--config"])
        .arg(file)
        .stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A configuration with a listener at this address.
fn configuration(directory: &TempDir, listener: SocketAddr) -> std::path::PathBuf {
    let file = directory.path().join("gateway.toml");
    let text = format!(
        "[[listener]]\naddress = \"{listener}\"\n[admin]\naddress = \"127.0.0.1:{}\"\n[log]\naccess = \"off\"\n\
         [[route]]\npath = \"/\"\nrespond = {{ status = 200 }}\n",
        free_port()
    );
    fs::write(&file, text).unwrap();
    file
}

/// Ends a gateway in good order, ready or not.
fn stop(mut child: Child) -> Option<i32> {
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    child.wait().unwrap().code()
}

#[tokio::test]
async fn a_socket_of_the_service_manager_is_used_and_outlives_a_restart() {
    // Goal: socket activation. Method: the test holds the socket, so the gateway could not bind the address; it answers there, and a
    // client that connects while no gateway runs is answered by the next one.
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let directory = TempDir::new().unwrap();
    let file = configuration(&directory, address);
    let first = activate(&socket, &file);
    assert_eq!(Client::connect(address).await.get("/").await.status, 200);
    assert_eq!(stop(first), Some(0));

    let mut early = Client::connect(address).await;
    let second = activate(&socket, &file);
    assert_eq!(early.get("/").await.status, 200);
    assert_eq!(stop(second), Some(0));
    let log = fs::read_to_string(file.with_extension("log")).unwrap();
    assert!(!log.contains("the address of no listener"), "{log}");
}

#[tokio::test]
async fn an_unused_socket_is_logged() {
    // Goal: no port that is open and never answers without a word. Method: the listener has another address.
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = TempDir::new().unwrap();
    let listener = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = configuration(&directory, listener);
    let gateway = activate(&socket, &file);
    let answer = eventually("it serves at its own address", async || {
        let mut client = Client::try_connect(listener).await.ok()?;
        Some(client.get("/").await.status)
    })
    .await;
    assert_eq!(answer, 200);
    assert_eq!(stop(gateway), Some(0));
    let log = fs::read_to_string(file.with_extension("log")).unwrap();
    let opened = format!(
        "the service manager opened {}",
        socket.local_addr().unwrap()
    );
    assert!(log.contains(&opened), "{log}");
}
