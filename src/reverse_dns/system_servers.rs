//! Finds the DNS servers of the system in `/etc/resolv.conf`, as programs of the C library do (resolv.conf(5)).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sluicegate_base::bounds::{DNS_SERVERS, RESOLV_CONF_EVERY};
use tokio::time::Instant;

use sluicegate_transport::timer;

const FILE: &str = "/etc/resolv.conf";
/// RFC 1035 §4.2.
const PORT: u16 = 53;

/// The servers, as the file named them when it was read last.
#[derive(Debug, Default)]
pub(super) struct SystemServers {
    servers: Vec<SocketAddr>,
    /// The time of the next reading; `None` before the first.
    due: Option<Instant>,
}

impl SystemServers {
    /// Returns the servers, at most [`DNS_SERVERS`]. Reads the file where the last reading is older than [`RESOLV_CONF_EVERY`]; one that
    /// cannot be read is like an empty one.
    pub(super) fn current(&mut self) -> &[SocketAddr] {
        let now = timer::deadline(std::time::Duration::ZERO);
        if self.due.is_none_or(|due| due <= now) {
            self.servers = nameservers(&std::fs::read_to_string(FILE).unwrap_or_default());
            self.due = Some(timer::deadline(RESOLV_CONF_EVERY));
        }
        &self.servers
    }
}

/// Returns the servers that a text names; the one of this machine where there is none.
fn nameservers(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address: IpAddr = match words.next() {
            Some("nameserver") => words.next()?.parse().ok()?,
            _ => return None,
        };
        Some(SocketAddr::new(address, PORT))
    });
    let servers: Vec<_> = servers.take(DNS_SERVERS).collect();
    if servers.is_empty() {
        return vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))];
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the file is read as the C library reads it. Method: servers among other lines, more than count, and files without any.
    #[test]
    fn servers_are_those_of_the_file() {
        let text = "# made by dhcp\nsearch example.com\n nameserver 192.0.2.53 \nnameserver\t2001:db8::53\n\
                    ;nameserver 192.0.2.1\noptions edns0 trust-ad\nnameserver nonsense\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n";
        let servers = nameservers(text);
        let texts: Vec<String> = servers.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["192.0.2.53:53", "[2001:db8::53]:53", "10.0.0.1:53"]);
        for none in ["", "search example.com\n", "nameserver\n"] {
            assert_eq!(nameservers(none), [SocketAddr::from(([127, 0, 0, 1], 53))]);
        }
    }
}
