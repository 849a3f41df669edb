//! A real DNS server, from the system's package, with the records of the test and no others.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::eventually::eventually;
use super::ports::free_address;

/// A running dnsmasq; it is killed by its own process id when dropped.
pub struct Dnsmasq {
    child: Child,
    directory: TempDir,
    address: SocketAddr,
}

impl Dnsmasq {
    /// Starts it with these lines of its configuration, and waits until it answers.
    pub async fn start(records: &[String]) -> Self {
        Self::start_at(free_address(), records).await
    }

    /// The same at an address that is free: the same server, with other records.
    pub async fn start_at(address: SocketAddr, records: &[String]) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("dnsmasq.conf");
        let text = format!(
            "port={}\nlisten-address={}\nbind-interfaces\nno-resolv\nno-hosts\nlog-queries\nlog-facility=-\n\
             local=/arpa/com/test/\n{}\n",
            address.port(),
            address.ip(),
            records.join("\n")
        );
        fs::write(&file, text).unwrap();
        let log = directory.path().join("queries.log");
        let child = Command::new("dnsmasq")
            // In the foreground, as the user that started it, and one process for streams too.
            .args(["--no-daemon", &format!("--conf-file={}", file.display())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("dnsmasq does not start ({error}); `./dev test` installs it")
            });
        let mut dnsmasq = Self {
            child,
            directory,
            address,
        };
        eventually("dnsmasq accepts", async || {
            let ended = dnsmasq.child.try_wait().unwrap();
            assert!(ended.is_none(), "dnsmasq ended: {}", dnsmasq.log());
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
        })
        .await;
        dnsmasq
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many questions of this type its own log counts: `PTR`, `A`, `AAAA`.
    pub fn count(&self, of: &str) -> usize {
        let asked = format!("query[{of}] ");
        self.log().matches(&asked).count()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("queries.log")).unwrap_or_default()
    }
}

/// The line that gives an address this name.
pub fn names(address: &str, name: &str) -> String {
    let reverse = match address.parse().unwrap() {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let digits = format!("{:032x}", address.to_bits());
            let digits = digits.chars().rev().map(|digit| format!("{digit}."));
            format!("{}ip6.arpa", digits.collect::<String>())
        }
    };
    format!("ptr-record={reverse},{name}")
}

/// The line that gives a name this address, and the address no name.
pub fn has(name: &str, address: &str) -> String {
    format!("address=/{name}/{address}")
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
