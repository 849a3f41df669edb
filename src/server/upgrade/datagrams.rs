//! Sends and receives what a process hands over of HTTP/3, among the lines of an upgrade.
//!
//! The identity holds a secret, as the seed of counters does ([`handover`](super::handover)).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

use super::line::UpgradeChannel;
use crate::server::datagrams::{DatagramHandover, DatagramRelay};
use sluicegate_edge::listener::{QuicIdentity, ThreadPlace};

const IDENTITY: &str = "quic ";
const DATAGRAMS: &str = "datagrams ";
const RELAY: &str = "relay ";

/// Sends the handover, each socket with its line.
pub(super) fn send(lines: &UpgradeChannel, handover: &DatagramHandover) -> io::Result<()> {
    let identity = BASE64.encode(handover.identity.to_bytes());
    lines.send_line(&format!("{IDENTITY}{identity}"))?;
    for (address, socket) in &handover.sockets {
        lines.send_with_descriptor(&format!("{DATAGRAMS}{address}"), socket)?;
    }
    for relay in &handover.relays {
        let ThreadPlace { generation, thread } = relay.place;
        let line = format!("{RELAY}{} {generation} {thread}", relay.address);
        lines.send_with_descriptor(&line, &relay.socket)?;
    }
    Ok(())
}

/// The parts of a handover that have arrived so far.
#[derive(Default)]
pub(super) struct DatagramsReader {
    identity: Option<QuicIdentity>,
    sockets: Vec<(SocketAddr, UdpSocket)>,
    relays: Vec<DatagramRelay>,
}

impl DatagramsReader {
    /// Reads a line that was just received, if it is part of the handover. Returns whether it is.
    pub(super) fn take(&mut self, line: &str, lines: &mut UpgradeChannel) -> io::Result<bool> {
        if let Some(text) = line.strip_prefix(IDENTITY) {
            let bytes = BASE64.decode(text).ok();
            let identity = bytes.and_then(|bytes| QuicIdentity::from_bytes(&bytes));
            self.identity = Some(identity.ok_or_else(|| broken("quic"))?);
        } else if let Some(address) = line.strip_prefix(DATAGRAMS) {
            let address = address.parse().map_err(|_| broken("datagrams"))?;
            let socket = lines.descriptor().ok_or_else(|| broken("datagrams"))?;
            self.sockets.push((address, socket.into()));
        } else if let Some(text) = line.strip_prefix(RELAY) {
            let socket = lines.descriptor().ok_or_else(|| broken("relay"))?;
            let relay = read_relay(text, socket.into()).ok_or_else(|| broken("relay"))?;
            self.relays.push(relay);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the complete handover, if the old process speaks HTTP/3.
    pub(super) fn whole(self) -> Option<DatagramHandover> {
        Some(DatagramHandover {
            identity: self.identity?,
            sockets: self.sockets,
            relays: self.relays,
        })
    }
}

fn read_relay(text: &str, socket: UnixDatagram) -> Option<DatagramRelay> {
    let mut words = text.split(' ');
    let address = words.next()?.parse().ok()?;
    let place = ThreadPlace {
        generation: words.next()?.parse().ok()?,
        thread: words.next()?.parse().ok()?,
    };
    Some(DatagramRelay {
        address,
        place,
        socket,
    })
}

fn broken(line: &str) -> io::Error {
    let message = format!("the line `{line}` of the handover cannot be read");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    /// Goal: sockets and ways arrive as they were sent. Method: two sockets of an address and a way, sent at one end and received at the
    /// other; a datagram to each.
    #[test]
    fn sockets_and_relays_arrive() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let patience = Duration::from_secs(10);
        let said = UpgradeChannel::over(one, patience).expect("timeouts");
        let mut heard = UpgradeChannel::over(other, patience).expect("timeouts");
        let address = "127.0.0.1:443".parse().expect("an address");
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (relay, thread) = UnixDatagram::pair().expect("a pair");
        let place = ThreadPlace {
            generation: 7,
            thread: 1,
        };
        let handover = DatagramHandover {
            identity: QuicIdentity::draw().expect("random bytes"),
            sockets: vec![(address, socket()), (address, socket())],
            relays: vec![DatagramRelay {
                address,
                place,
                socket: relay,
            }],
        };
        send(&said, &handover).expect("room");
        said.send_line("end").expect("room");
        let mut reader = DatagramsReader::default();
        loop {
            let line = heard.receive_line().expect("a line");
            if !reader.take(&line, &mut heard).expect("it can be read") {
                assert_eq!(line, "end");
                break;
            }
        }
        let received = reader.whole().expect("all of it");
        let ports = |handover: &DatagramHandover| {
            let sockets = handover.sockets.iter();
            let ports = sockets.map(|(at, socket)| (*at, socket.local_addr().expect("its port")));
            ports.collect::<Vec<_>>()
        };
        assert_eq!(ports(&received), ports(&handover));
        assert_eq!(received.identity.to_bytes(), handover.identity.to_bytes());
        let relay = received.relays.first().expect("one");
        assert_eq!((relay.address, relay.place), (address, place));
        relay.socket.send(b"for it").expect("it is open");
        let mut bytes = [0; 10];
        assert_eq!(thread.recv(&mut bytes).expect("a message"), 6);
    }

    /// Goal: half a handover is rejected, and no secret is printed. Method: lines that are cut off, or lack their sockets.
    #[test]
    fn a_broken_line_is_an_error_without_its_text() {
        for line in [
            "quic c2VjcmV0",
            "datagrams 127.0.0.1:1",
            "relay 127.0.0.1:1 0 0",
        ] {
            let (one, _other) = UnixStream::pair().expect("a pair");
            let mut lines = UpgradeChannel::over(one, Duration::from_secs(1)).expect("timeouts");
            let error = DatagramsReader::default()
                .take(line, &mut lines)
                .expect_err("it cannot be read");
            assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
        }
        assert!(DatagramsReader::default().whole().is_none());
    }
}
