//! Clients of HTTP/3 that nobody here wrote: aioquic, and libcurl with ngtcp2 by curl_cffi.
//!
//! `SLUICEGATE_TEST_HTTP3_CLIENTS` names the folder with their packages, which `./dev test` fetches.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::tls::Authority;

/// Clients that believe an authority.
pub struct Http3Clients {
    authority: PathBuf,
    _directory: tempfile::TempDir,
}

impl Http3Clients {
    /// Those that believe this authority; `None` where Python has no packages for HTTP/3, which is printed.
    pub fn of(authority: &Authority) -> Option<Self> {
        let imports = "import aioquic, curl_cffi";
        let status = python()
            .args(["-c", imports])
            .stderr(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            assert!(
                env::var_os("CI").is_none(),
                "aioquic or curl_cffi is missing"
            );
            eprintln!("Python has no aioquic or no curl_cffi: HTTP/3 is NOT tested");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authority.pem");
        std::fs::write(&path, authority.pem()).unwrap();
        Some(Self {
            authority: path,
            _directory: directory,
        })
    }

    /// Performs the steps of `http3/client.py` on one connection. Returns the result of each.
    pub async fn perform(&self, gateway: SocketAddr, steps: &[&str]) -> Vec<Value> {
        let mut command = python();
        command.args(["-c", include_str!("http3/client.py")]);
        command.arg(gateway.port().to_string()).arg(&self.authority);
        command.args(steps);
        let output = run(command).await;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{lines}\n{errors}");
        let lines = lines.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Gets a path, or posts so many bytes to it, by libcurl. Returns the status and the number of bytes of the answer, which came over
    /// HTTP/3.
    pub async fn curl(&self, gateway: SocketAddr, path: &str, body: Option<usize>) -> (u64, u64) {
        let mut command = python();
        command.args(["-c", include_str!("http3/curl.py")]);
        command.arg(format!("https://a.test:{}{path}", gateway.port()));
        command.arg(&self.authority);
        command.args(body.map(|bytes| bytes.to_string()));
        let output = run(command).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer[1], true, "it is HTTP/3");
        (answer[0].as_u64().unwrap(), answer[2].as_u64().unwrap())
    }
}

fn python() -> Command {
    let mut command = Command::new("python3");
    if let Some(folder) = env::var_os("SLUICEGATE_TEST_HTTP3_CLIENTS") {
        command.env("PYTHONPATH", folder);
    }
    command
}

async fn run(mut command: Command) -> Output {
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}
