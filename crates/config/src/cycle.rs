//! Warns about origins whose server is a listener of the gateway itself, or that of its operator.
//!
//! A request to the first comes back until [`OWN_PASSES`](sluicegate_base::bounds::OWN_PASSES) ends the loop.
//! Two listeners of one gateway may be put one behind the other on purpose, so this is no error. By the second clients reach what is
//! meant for the operator.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::rules::{ListenerRules, Name, OriginAddress, OriginRules};

/// Reports every origin with such a server.
pub(super) fn check(
    origins: &BTreeMap<Name, OriginRules>,
    places: &BTreeMap<Name, KeyPlace>,
    listeners: &[PlacedValue<ListenerRules>],
    admin: Option<SocketAddr>,
    report: &ProblemReport<'_>,
) {
    let is_own = |ip: IpAddr| report.environment.is_own_address(ip);
    for (name, origin) in origins {
        // What listens on a Unix socket is another program.
        let servers = origin.servers.iter().flat_map(|server| &server.addresses);
        let servers = servers.filter_map(OriginAddress::tcp);
        let of_admin = servers
            .clone()
            .find(|server| admin.is_some_and(|at| meets(*server, at, &is_own)));
        if let (Some(server), Some(place)) = (of_admin, places.get(name)) {
            report.warning(
                place,
                format!("the server {server} is the operator's listener: clients of this origin look into the gateway"),
                "write where the origin itself listens, or another [admin] address",
            );
        }
        let met = servers.flat_map(|server| {
            let listener = listeners
                .iter()
                .find(|listener| meets(server, listener.value.address, &is_own));
            listener.map(|listener| (server, listener))
        });
        let (Some((server, listener)), Some(place)) = (met.into_iter().next(), places.get(name))
        else {
            continue;
        };
        let line = report.line_of(&listener.place);
        report.warning(
            place,
            format!(
                "the server {server} is the listener on line {line}: requests come back until they are answered with 508"
            ),
            "write where the origin itself listens",
        );
    }
}

/// Returns whether a connection to `server` reaches what listens on `listener`.
fn meets(server: SocketAddr, listener: SocketAddr, is_own: &dyn Fn(IpAddr) -> bool) -> bool {
    let to = server.ip().to_canonical();
    let at = listener.ip().to_canonical();
    // `[::]` takes IPv4 too. To connect to 0.0.0.0 is to connect to this machine.
    let takes_family = at.is_ipv6() || to.is_ipv4();
    server.port() == listener.port()
        && (to == at
            || (at.is_unspecified() && takes_family && (to.is_unspecified() || is_own(to)))
            || (to.is_unspecified() && at.is_loopback() && at.is_ipv4() == to.is_ipv4()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a server is told from a listener by what the kernel would connect. Method: pairs on both sides, on a machine with one address
    /// beside the loopback.
    #[test]
    fn a_server_meets_a_listener_where_the_kernel_connects_them() {
        let is_own = |ip: IpAddr| ip.is_loopback() || ip == IpAddr::from([192, 0, 2, 1]);
        let meets = |server: &str, listener: &str| {
            super::meets(server.parse().unwrap(), listener.parse().unwrap(), &is_own)
        };
        for (server, listener) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "0.0.0.0:80"),
            ("127.0.0.1:80", "[::]:80"),
            ("[::1]:80", "[::]:80"),
            ("192.0.2.1:80", "0.0.0.0:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ] {
            assert!(meets(server, listener), "{server} {listener}");
        }
        for (server, listener) in [
            ("127.0.0.1:80", "127.0.0.1:81"),
            ("127.0.0.1:80", "192.0.2.1:80"),
            ("[::1]:80", "0.0.0.0:80"),
            ("192.0.2.2:80", "0.0.0.0:80"),
        ] {
            assert!(!meets(server, listener), "{server} {listener}");
        }
    }
}
