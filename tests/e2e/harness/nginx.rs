//! A real nginx as origin, from the system's package.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::eventually::eventually;
use super::ports::free_address;

/// A running nginx; it is killed by its own process id when dropped.
pub struct Nginx {
    child: Child,
    directory: TempDir,
    address: SocketAddr,
}

impl Nginx {
    /// Starts it with a `server` block's content, such as `location / { return 200 "hello"; }`.
    ///
    /// One process without a master: it needs no privileges, and nothing is left when it is killed.
    pub async fn start(locations: &str) -> Self {
        Self::start_with("", locations).await
    }

    /// The same with lines of the `http` block, such as a `log_format`.
    pub async fn start_with(lines: &str, locations: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let address = free_address();
        let home = directory.path().display().to_string();
        let text = CONFIG
            .replace("{home}", &home)
            .replace("{address}", &address.to_string())
            .replace("{lines}", lines);
        let file = directory.path().join("nginx.conf");
        fs::write(&file, text.replace("{locations}", locations)).unwrap();
        let errors = directory.path().join("stderr.log");
        let child = Command::new("nginx")
            .args([
                "-p",
                &home,
                "-c",
                file.to_str().unwrap(),
                "-e",
                errors.to_str().unwrap(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("nginx does not start ({error}); `./dev test` installs it")
            });
        let mut nginx = Self {
            child,
            directory,
            address,
        };
        eventually("nginx accepts", async || {
            let ended = nginx.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "nginx ended: {}",
                fs::read_to_string(&errors).unwrap_or_default()
            );
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
        })
        .await;
        nginx
    }

    /// The lines of the file of this name in its directory.
    pub fn log(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.directory.path().join(name));
        let lines = text.unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests for this path its own log counts.
    pub fn count(&self, path: &str) -> usize {
        self.lines()
            .filter(|line| line.split(' ').nth(1) == Some(path))
            .count()
    }

    /// When the requests for this path arrived, in milliseconds since the Unix epoch.
    pub fn arrivals(&self, path: &str) -> Vec<u64> {
        let of_path = self
            .lines()
            .filter(|line| line.split(' ').nth(1) == Some(path));
        of_path
            .map(|line| {
                let seconds: f64 = line.split(' ').next().unwrap().parse().unwrap();
                (seconds * 1000.0).round() as u64
            })
            .collect()
    }

    /// The lines of a log in the combined format, where a location says `access_log combined.log combined;`.
    pub fn combined(&self) -> Vec<String> {
        self.log("combined.log")
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let file = File::open(self.directory.path().join("access.log")).unwrap();
        BufReader::new(file).lines().map(|line| line.unwrap())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONFIG: &str = r#"
daemon off;
master_process off;
pid {home}/nginx.pid;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    {lines}
    log_format counted '$msec $uri $status';
    access_log {home}/access.log counted;
    error_log {home}/error.log warn;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    keepalive_requests 10000000;
    server {
        listen {address} backlog=4096;
        {locations}
    }
}
"#;
