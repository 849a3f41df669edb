//! Holds the address of a connection's other end with its text, which each of its requests writes into a field and into the log.

use std::net::{IpAddr, SocketAddr};

use http::HeaderValue;
use sluicegate_base::address::address_text;

/// The address of the other end of a connection.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    socket: SocketAddr,
    text: HeaderValue,
}

impl PeerAddress {
    /// Returns the address with its text.
    #[must_use]
    pub fn new(socket: SocketAddr) -> Self {
        Self {
            socket,
            text: address_value(socket.ip().to_canonical()),
        }
    }

    /// Returns the address as the socket has it.
    #[must_use]
    pub const fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Returns the IP address, IPv4-mapped ones folded.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.socket.ip().to_canonical()
    }

    /// Returns the text of the [IP address](Self::ip).
    #[must_use]
    pub const fn text(&self) -> &HeaderValue {
        &self.text
    }
}

/// Returns the text of an address as the value of a field.
pub fn address_value(address: IpAddr) -> HeaderValue {
    HeaderValue::from_str(&address_text(address))
        .expect("digits, letters, dots and colons are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the text is that of the folded address. Method: an address of each family, and one of IPv4 in IPv6.
    #[test]
    fn the_text_is_that_of_the_address() {
        for (socket, ip) in [
            ("192.0.2.7:80", "192.0.2.7"),
            ("[2001:db8::7]:80", "2001:db8::7"),
            ("[::ffff:192.0.2.7]:80", "192.0.2.7"),
        ] {
            let peer = PeerAddress::new(socket.parse().unwrap());
            assert_eq!(peer.text(), ip);
            assert_eq!(peer.ip().to_string(), ip);
            assert_eq!(peer.socket().to_string(), socket);
        }
    }
}
