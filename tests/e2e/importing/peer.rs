//! A real nginx, HAProxy, Caddy or Traefik with a configuration of the test's own, and the gateway with what is imported of the same
//! text.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::*;

/// Where configurations listen, and where they forward to, before addresses are filled in.
const LISTENER: &str = "127.0.0.1:8080";
const ORIGIN: &str = "127.0.0.1:8081";

/// Ports can be lost to another test between release and start.
const START_ATTEMPTS: usize = 5;

/// A running proxy; it is killed by its own process id when dropped.
pub struct Peer {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Peer {
    /// Starts nginx with this text, as one process without a master.
    pub async fn nginx(text: &str, origin: &Origin) -> Self {
        Self::start(text, origin, |directory, file, _| {
            let home = directory.path().display();
            let text = fs::read_to_string(file).unwrap();
            let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
            let paths = paths.map(|name| format!("{name}_temp_path {home}/{name};"));
            let http = format!("http {{ access_log off; {}", paths.join(" "));
            fs::write(file, text.replacen("http {", &http, 1)).unwrap();
            let mut command = Command::new("nginx");
            let errors = format!("{home}/stderr.log");
            let process = format!("daemon off; master_process off; pid {home}/nginx.pid;");
            command.args([
                "-p",
                &home.to_string(),
                "-c",
                file,
                "-e",
                &errors,
                "-g",
                &process,
            ]);
            command
        })
        .await
    }

    /// Starts HAProxy with this text.
    pub async fn haproxy(text: &str, origin: &Origin) -> Self {
        Self::start(text, origin, |_, file, _| {
            let mut command = Command::new("haproxy");
            command.args(["-db", "-f", file]);
            command
        })
        .await
    }

    /// Starts Caddy with this text, whose sites are at port 8080.
    pub async fn caddy(text: &str, origin: &Origin) -> Self {
        let text = format!("{{\nadmin off\nauto_https off\n}}\n{text}");
        Self::start(&text, origin, |directory, file, address| {
            let text = fs::read_to_string(file).unwrap();
            let text = text.replace(":8080", &format!(":{}", address.port()));
            fs::write(file, text).unwrap();
            let mut command = Command::new("caddy");
            command.args(["run", "--config", file, "--adapter", "caddyfile"]);
            for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
                command.env(name, directory.path());
            }
            command
        })
        .await
    }

    /// Starts a program, whose command is made of its directory, of the file with the text and of its address.
    pub async fn start(
        text: &str,
        origin: &Origin,
        command: impl Fn(&TempDir, &str, SocketAddr) -> Command,
    ) -> Self {
        for _ in 0..START_ATTEMPTS {
            let directory = TempDir::new().unwrap();
            let address = free_address();
            let file = directory.path().join("peer.conf");
            let text = text
                .replace(LISTENER, &address.to_string())
                .replace(ORIGIN, &origin.address().to_string());
            fs::write(&file, text).unwrap();
            let errors = directory.path().join("stderr.log");
            let child = command(&directory, file.to_str().unwrap(), address)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(&errors).unwrap())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!("{error}; `./dev test` installs nginx, HAProxy and Caddy")
                });
            let mut peer = Self {
                child,
                address,
                _directory: directory,
            };
            let accepts = eventually("the proxy accepts, or ends", async || {
                if peer.child.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                let connected = TcpStream::connect_timeout(&address, Duration::from_secs(1));
                connected.is_ok().then_some(true)
            })
            .await;
            if accepts {
                return peer;
            }
            let errors = fs::read_to_string(&errors).unwrap_or_default();
            assert!(errors.contains("ddress already in use"), "{errors}");
        }
        panic!("no port is free");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Imports a text with the command, and returns the configuration, of which something may be left to fill in.
pub async fn imported(text: &str, origin: &Origin) -> String {
    let (code, toml) = import(text, origin).await;
    assert!(code == 0 || code == 2, "{code}");
    toml
}

/// Imports a text with the command, which ends with this exit code, and returns the configuration.
pub async fn imported_with_code(text: &str, origin: &Origin, code: i32) -> String {
    let (found, toml) = import(text, origin).await;
    assert_eq!(found, code);
    toml
}

/// Imports a text with the command, and returns its exit code and the configuration.
async fn import(text: &str, origin: &Origin) -> (i32, String) {
    let directory = TempDir::new().unwrap();
    let input = directory.path().join("input");
    let output = directory.path().join("gateway.toml");
    fs::write(&input, text.replace(ORIGIN, &origin.address().to_string())).unwrap();
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    let mut process = Process::run(&["import", input, "--output", output]);
    let code = process.exit_code().await;
    let toml = fs::read_to_string(output);
    (
        code,
        toml.unwrap_or_else(|error| panic!("{error}: {}", process.stderr())),
    )
}

/// Starts the gateway with what is imported of a text.
pub async fn gateway(text: &str, origin: &Origin) -> Gateway {
    started(&imported(text, origin).await).await
}

/// Starts the gateway with an imported configuration.
pub async fn started(toml: &str) -> Gateway {
    let toml = toml.replace(LISTENER, "{listener}");
    Setup::new()
        .whole(&format!("{toml}\n[admin]\naddress = \"{{admin}}\"\n"))
        .start()
        .await
}
