//! Reads the header by which a proxy in front announces its client: the PROXY protocol, versions 1 and 2, before TLS and HTTP.
//!
//! The sender of this header chooses the address that a request counts under, so only the operator's own proxies may send it.
//! The announced address becomes the peer of the connection, for limits, log and the trust of `[client]` alike; later code reads
//! the connection's address and sees no difference. The end of a header is found here, and only a whole header is given to the
//! parser: `ppp` cuts texts at a byte after a lone carriage return, which panics inside a character.
//!
//! # Limits
//! 107 bytes in version 1, [`PROXY_HEADER`](bounds::PROXY_HEADER) in version 2, within the time of a request's head.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use pingora::prelude::timeout;
use ppp::{v1, v2};
use sluicegate_base::bounds;
use tokio::io::AsyncReadExt;

use sluicegate_config::rules::ProxyProtocol;
use sluicegate_record::{ProxyHeaderCounts, ProxyHeaderResult};
use sluicegate_tls::client_socket::ClientSocket;

const V1: &[u8] = b"PROXY ";
/// The longest line of version 1, with its end.
const V1_BYTES: usize = 107;
const V2: &[u8] = v2::PROTOCOL_PREFIX;
/// Bytes of signature, version and command, family and protocol, length.
const V2_BYTES: usize = 16;

/// The result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A partial header; more bytes decide.
    Partial,
    /// No header.
    None,
    /// A malformed header.
    Malformed,
    /// A header of so many bytes. Without a client the connection is the proxy's own, such as a health check.
    Whole(usize, Option<SocketAddr>),
}

/// Reads the header where `rules` have one.
///
/// # Errors
/// The reason for which the connection must end, which is counted.
pub(super) async fn read(
    socket: ClientSocket,
    rules: &ProxyProtocol,
    counts: &ProxyHeaderCounts,
    patience: Duration,
) -> Result<ClientSocket, ProxyHeaderResult> {
    let is_required = match rules {
        ProxyProtocol::Off => return Ok(socket),
        ProxyProtocol::Optional(_) => false,
        ProxyProtocol::Required(_) => true,
    };
    let end = |why: ProxyHeaderResult| {
        counts.count(why);
        Err(why)
    };
    if !may_send_header(rules, socket.peer().ip().to_canonical()) {
        return if is_required {
            end(ProxyHeaderResult::Stranger)
        } else {
            Ok(socket)
        };
    }
    let (socket, header) = match timeout(patience, take(socket)).await {
        Ok(Some(taken)) => taken,
        Ok(None) => return end(ProxyHeaderResult::Gone),
        Err(_) => return end(ProxyHeaderResult::TimedOut),
    };
    match header {
        Header::Whole(..) => counts.count(ProxyHeaderResult::Read),
        Header::None if !is_required => {}
        Header::None | Header::Malformed | Header::Partial => {
            return end(ProxyHeaderResult::Malformed);
        }
    }
    Ok(socket)
}

/// Returns whether a connection from `peer` may begin with a header: it is one of the operator's proxies.
pub(super) fn may_send_header(rules: &ProxyProtocol, peer: IpAddr) -> bool {
    match rules {
        ProxyProtocol::Off => false,
        ProxyProtocol::Optional(networks) | ProxyProtocol::Required(networks) => {
            networks.iter().any(|network| network.contains(&peer))
        }
    }
}

/// Takes the header off the stream, and puts back the bytes after it that were read. `None` when the stream ends before.
async fn take(mut socket: ClientSocket) -> Option<(ClientSocket, Header)> {
    let mut read = BytesMut::new();
    loop {
        match Header::find(&read) {
            Header::Partial => {}
            Header::Whole(bytes, client) => {
                socket.put_back(read.split_off(bytes));
                if let Some(client) = client {
                    socket.announce(client);
                }
                return Some((socket, Header::Whole(bytes, client)));
            }
            other => {
                socket.put_back(read);
                return Some((socket, other));
            }
        }
        read.reserve(bounds::HEAD_READ);
        if socket.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

impl Header {
    /// Parses the first bytes of a connection, however few are here.
    pub fn find(read: &[u8]) -> Self {
        if read.starts_with(V2) {
            return Self::v2(read);
        }
        if read.starts_with(V1) {
            return Self::v1(read);
        }
        if V1.starts_with(read) || V2.starts_with(read) {
            return Self::Partial;
        }
        Self::None
    }

    fn v1(read: &[u8]) -> Self {
        let line = read.get(..V1_BYTES).unwrap_or(read);
        let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
            return if read.len() < V1_BYTES {
                Self::Partial
            } else {
                Self::Malformed
            };
        };
        let Some((header, text)) = line
            .get(..end + 2)
            .filter(|header| header.is_ascii() && !header.get(..end).is_some_and(has_return))
            .and_then(|header| Some((header, str::from_utf8(header).ok()?)))
        else {
            return Self::Malformed;
        };
        let client = match v1::Header::try_from(text).map(|header| header.addresses) {
            Ok(v1::Addresses::Tcp4(pair)) => Some((pair.source_address, pair.source_port).into()),
            Ok(v1::Addresses::Tcp6(pair)) => Some((pair.source_address, pair.source_port).into()),
            Ok(v1::Addresses::Unknown) => None,
            Err(_) => return Self::Malformed,
        };
        Self::Whole(header.len(), client)
    }

    fn v2(read: &[u8]) -> Self {
        let Some(&[version_and_command, _, high, low]) = read
            .get(V2.len()..V2_BYTES)
            .and_then(|fixed| fixed.first_chunk())
        else {
            return Self::Partial;
        };
        let bytes = V2_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if bytes > bounds::PROXY_HEADER {
            return Self::Malformed;
        }
        let Some(header) = read.get(..bytes) else {
            return Self::Partial;
        };
        if version_and_command == 0x20 {
            // LOCAL, §2.2: the proxy's own connection, whatever else the header contains.
            return Self::Whole(bytes, None);
        }
        let Ok(parsed) = v2::Header::try_from(header) else {
            return Self::Malformed;
        };
        let client = match (parsed.protocol, parsed.addresses) {
            (v2::Protocol::Stream, v2::Addresses::IPv4(pair)) => {
                Some((pair.source_address, pair.source_port).into())
            }
            (v2::Protocol::Stream, v2::Addresses::IPv6(pair)) => {
                Some((pair.source_address, pair.source_port).into())
            }
            // UNSPEC and UNIX, §2.2: the addresses are to be ignored.
            _ => None,
        };
        Self::Whole(bytes, client)
    }
}

fn has_return(bytes: &[u8]) -> bool {
    bytes.contains(&b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v2_header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut header = V2.to_vec();
        header.extend([command, family]);
        header.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
        header.extend(rest);
        header
    }

    fn whole(header: &[u8], client: Option<&str>) -> Header {
        Header::Whole(header.len(), client.map(|client| client.parse().unwrap()))
    }

    /// Returns every valid header with the client that it announces.
    fn sound() -> Vec<(Vec<u8>, Option<&'static str>)> {
        let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 1, 187];
        let mut v6 = vec![0; 36];
        v6[..2].copy_from_slice(&[0x20, 1]);
        v6[32..34].copy_from_slice(&[0, 80]);
        let with_tlv = [&v4[..], &[3, 0, 4, 1, 2, 3, 4]].concat();
        vec![
            (
                b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 443\r\n".to_vec(),
                Some("192.0.2.7:12345"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n".to_vec(),
                Some("[2001:db8::7]:1"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ::1 ::1 1 2\r\n".to_vec(), None),
            (v2_header(0x21, 0x11, &v4), Some("192.0.2.7:12345")),
            (v2_header(0x21, 0x11, &with_tlv), Some("192.0.2.7:12345")),
            (v2_header(0x21, 0x21, &v6), Some("[2001::]:80")),
            (v2_header(0x20, 0x00, &[]), None),
            (v2_header(0x20, 0xff, &[1]), None),
            (v2_header(0x21, 0x00, &[]), None),
            (v2_header(0x21, 0x31, &[0; 216]), None),
        ]
    }

    /// Goal: a header is read wherever its bytes are cut, and the bytes after it stay. Method: every header, whole and at every
    /// length.
    #[test]
    fn a_header_is_whole_at_its_last_byte_and_not_before() {
        for (header, client) in sound() {
            assert_eq!(Header::find(&header), whole(&header, client), "{header:?}");
            let longer = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(Header::find(&longer), whole(&header, client));
            for cut in 0..header.len() {
                assert_eq!(Header::find(&header[..cut]), Header::Partial, "{cut}");
            }
        }
    }

    /// Goal: bytes without a header are distinguished from a broken header. Method: requests, a TLS record, and headers with one
    /// thing wrong.
    #[test]
    fn what_is_no_header_is_left_alone_and_what_is_broken_is_refused() {
        for other in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\x16\x03\x01",
            b"PRI * ",
            b"\r\n\r\nX",
        ] {
            assert_eq!(Header::find(other), Header::None, "{other:?}");
        }
        let long = [b"PROXY UNKNOWN ", [b'x'; 100].as_slice()].concat();
        for broken in [
            &b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 443 \r\n"[..],
            b"PROXY TCP4 192.0.2.256 10.0.0.1 12345 443\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 012345 443\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 443\r\n",
            b"PROXY TCP5 192.0.2.7 10.0.0.1 1 443\r\n",
            b"PROXY TCP4\r192.0.2.7 10.0.0.1 1 443\r\n",
            "PROXY UNKNOWN \ré\r\n".as_bytes(),
            &long,
            &v2_header(0x21, 0x11, &[1, 2, 3]),
            &v2_header(0x31, 0x11, &[0; 12]),
            &v2_header(0x22, 0x11, &[0; 12]),
            &v2_header(0x21, 0x11, &[0; 5000]),
        ] {
            assert_eq!(Header::find(broken), Header::Malformed, "{broken:?}");
        }
    }

    proptest! {
        /// Goal: no bytes from a network stop the process. Method: arbitrary bytes after each beginning, and headers with bytes
        /// replaced.
        #[test]
        fn every_beginning_can_be_judged(
            rest in proptest::collection::vec(any::<u8>(), 0..300),
            text in "[A-Z0-9 .:\r\né]{0,120}",
            which in 0_usize..11,
            at in 0_usize..64,
            byte: u8,
        ) {
            for beginning in [V1, V2, b"PROXY TCP4 ", b""] {
                Header::find(&[beginning, &rest].concat());
                Header::find(&[beginning, text.as_bytes()].concat());
            }
            let (mut header, _) = sound().swap_remove(which);
            if let Some(place) = header.get_mut(at) {
                *place = byte;
            }
            if let Header::Whole(bytes, _) = Header::find(&header) {
                prop_assert!(bytes <= header.len());
            }
        }
    }
}
