//! What the service manager is told, in the protocol of `sd_notify(3)`.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{BINARY, Successor};
use crate::harness::*;

/// The socket that a service manager listens on.
struct Supervisor {
    socket: UnixDatagram,
    directory: TempDir,
}

impl Supervisor {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self { socket, directory }
    }

    /// The next notice that does not only feed the watchdog.
    fn hears(&self) -> String {
        loop {
            let mut bytes = [0; 4096];
            let length = self.socket.recv(&mut bytes).unwrap();
            let notice = String::from_utf8(bytes[..length].to_vec()).unwrap();
            if notice.trim() != "WATCHDOG=1" {
                return notice;
            }
        }
    }

    fn hears_watchdog(&self) {
        let mut bytes = [0; 4096];
        loop {
            let length = self.socket.recv(&mut bytes).unwrap();
            if bytes[..length].starts_with(b"WATCHDOG=1") {
                return;
            }
        }
    }
}

#[tokio::test]
async fn the_service_manager_is_notified_of_start_reload_upgrade_and_end() {
    // Goal: `Type=notify` units know the state, and the main process across an upgrade. Method: a socket in place of systemd's; each step
    // must be told in order, and by whom it must be: the old process names the new one, the new one says that it is ready.
    let supervisor = Supervisor::new();
    let directory = supervisor.directory.path();
    let (port, admin) = (free_port(), free_port());
    let file = directory.join("gateway.toml");
    let text = format!(
        "[server]\nstate_dir = \"state\"\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:{admin}\"\n\
         [log]\naccess = \"off\"\n[[route]]\npath = \"/\"\nrespond = {{ status = 200 }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut old = std::process::Command::new(BINARY)
        .args(["run", "--config"])
        .arg(&file)
        .env("NOTIFY_SOCKET", directory.join("notify"))
        .env("WATCHDOG_USEC", "200000")
        .stderr(std::fs::File::create(directory.join("stderr.log")).unwrap())
        .spawn()
        .unwrap();
    let guard = Successor(Pid::from_raw(old.id().try_into().unwrap()));
    let ready = supervisor.hears();
    assert!(ready.starts_with("READY=1\nSTATUS=serving"), "{ready}");
    supervisor.hears_watchdog();
    kill(guard.0, Signal::SIGHUP).unwrap();
    let reloading = supervisor.hears();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert!(supervisor.hears().starts_with("READY=1"));
    let mut command = Process::run(&["upgrade", "--config", file.to_str().unwrap()]);
    let main = supervisor.hears();
    let id: i32 = main
        .trim()
        .strip_prefix("MAINPID=")
        .unwrap_or_else(|| panic!("{main}"))
        .parse()
        .unwrap();
    assert_ne!(id, guard.0.as_raw());
    let successor = Successor(Pid::from_raw(id));
    assert!(supervisor.hears().starts_with("READY=1"));
    assert_eq!(command.exit_code().await, 0, "{}", command.stderr());
    assert_eq!(old.wait().unwrap().code(), Some(0));
    supervisor.hears_watchdog();
    successor.signal(Signal::SIGTERM);
    assert!(supervisor.hears().starts_with("STOPPING=1"));
    successor.ended().await;
}
