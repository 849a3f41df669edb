//! Passes datagrams to the thread, of this process or of one before it, that has their connection.
//!
//! Each thread has a pair of connected Unix sockets: datagrams that reached another one come through it. The other end of each pair passes
//! to the process that takes over, and from that to the next, as long as the thread lives.
//!
//! # Limits
//! The kernel keeps as much for a thread as the socket's buffer takes. A datagram without room is lost, as any may be on its way.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixDatagram;

use quinn_proto::EcnCodepoint;

use super::connection_ids::{ConnectionIds, QuicIdentity, ThreadPlace};
use super::socket::LARGEST_DATAGRAM;

/// Bytes of the longest line before a datagram that is passed on: two addresses, and a number.
const LONGEST_LINE: usize = 128;
/// The address that the system does not say.
const UNKNOWN: &str = "-";

/// The ways to all threads of an address.
pub(super) struct DatagramRoutes {
    ids: ConnectionIds,
    relays: HashMap<ThreadPlace, UnixDatagram>,
}

/// The end at which a thread receives what reached others.
pub struct RelayReceiver {
    socket: tokio::net::UnixDatagram,
    message: Vec<u8>,
}

/// Both ends of the way to a thread.
pub struct RelayEnds {
    /// The end for the others.
    pub sender: UnixDatagram,
    /// The end of the thread.
    pub receiver: UnixDatagram,
}

/// The facts of a datagram beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramOrigin {
    pub(super) source: SocketAddr,
    /// The address that it was sent to; `None` where the system does not say.
    pub(super) destination: Option<IpAddr>,
    pub(super) congestion: Option<EcnCodepoint>,
}

/// The state of the thread at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayState {
    /// It may read.
    Open,
    /// It has ended.
    Ended,
}

/// The thread that a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatagramRoute {
    /// The one that received it, which has its connection or none has.
    Here,
    /// Another one, to which it was passed on.
    Elsewhere,
    /// One of a process that is about to read at this address, or reads there already.
    Newer,
}

impl DatagramRoutes {
    /// Returns the ways to these threads.
    pub(super) fn new(
        identity: &QuicIdentity,
        relays: impl IntoIterator<Item = (ThreadPlace, UnixDatagram)>,
    ) -> Self {
        Self {
            ids: identity.connection_ids(),
            relays: relays.into_iter().collect(),
        }
    }

    /// Returns the ways to threads that have not ended, for a process that takes over.
    ///
    /// # Errors
    /// There is no descriptor for a duplicate.
    pub(super) fn duplicates(&self) -> io::Result<Vec<(ThreadPlace, UnixDatagram)>> {
        let relays = self.relays.iter();
        // A message without bytes is skipped there.
        let open = relays.filter(|(_, relay)| send(relay, &[]) == RelayState::Open);
        open.map(|(place, relay)| Ok((*place, relay.try_clone()?)))
            .collect()
    }

    pub(super) fn ids(&self) -> &ConnectionIds {
        &self.ids
    }

    /// Passes a datagram on that the thread `here` received, if it is for another one.
    pub(super) fn pass_on(
        &self,
        here: ThreadPlace,
        origin: &DatagramOrigin,
        datagram: &[u8],
    ) -> DatagramRoute {
        let Some(place) = self.ids.place_of(datagram).filter(|place| *place != here) else {
            return DatagramRoute::Here;
        };
        if place.is_newer_than(here) {
            return DatagramRoute::Newer;
        }
        let Some(relay) = self.relays.get(&place) else {
            return DatagramRoute::Here;
        };
        let message = [origin.to_line().as_bytes(), datagram].concat();
        match send(relay, &message) {
            RelayState::Open => DatagramRoute::Elsewhere,
            // The thread that received it says so to the client.
            RelayState::Ended => DatagramRoute::Here,
        }
    }
}

/// Sends a message to a thread, as far as there is room.
fn send(relay: &UnixDatagram, message: &[u8]) -> RelayState {
    match relay.send(message) {
        Ok(_) => RelayState::Open,
        Err(error) if error.kind() == ErrorKind::WouldBlock => RelayState::Open,
        Err(_) => RelayState::Ended,
    }
}

/// Returns both ends of the way to a thread.
///
/// # Errors
/// The system's.
pub fn relay() -> io::Result<RelayEnds> {
    let (sender, receiver) = UnixDatagram::pair()?;
    sender.set_nonblocking(true)?;
    receiver.set_nonblocking(true)?;
    Ok(RelayEnds { sender, receiver })
}

impl RelayReceiver {
    /// Registers the receiving end with this thread.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(receiver: UnixDatagram) -> io::Result<Self> {
        Ok(Self {
            socket: tokio::net::UnixDatagram::from_std(receiver)?,
            message: vec![0; LONGEST_LINE + LARGEST_DATAGRAM],
        })
    }

    /// Receives the next datagram; `None` for a message that is none.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn receive(&mut self) -> io::Result<Option<(DatagramOrigin, &[u8])>> {
        let Self { socket, message } = self;
        let length = socket.recv(message).await?;
        Ok(DatagramOrigin::from_message(
            message.get(..length).unwrap_or_default(),
        ))
    }
}

impl DatagramOrigin {
    fn to_line(self) -> String {
        let destination = self.destination.map(|address| address.to_string());
        let destination = destination.as_deref().unwrap_or(UNKNOWN);
        let congestion = self.congestion.map_or(0, |congestion| congestion as u8);
        format!("{} {destination} {congestion}\n", self.source)
    }

    /// Reads a message: the line, and the datagram behind it.
    fn from_message(message: &[u8]) -> Option<(Self, &[u8])> {
        let end = memchr::memchr(b'\n', message)?;
        let (line, datagram) = message.split_at_checked(end + 1)?;
        let mut words = str::from_utf8(line).ok()?.split_ascii_whitespace();
        let source = words.next()?.parse().ok()?;
        let destination = match words.next()? {
            UNKNOWN => None,
            address => Some(address.parse().ok()?),
        };
        let congestion = EcnCodepoint::from_bits(words.next()?.parse().ok()?);
        let origin = Self {
            source,
            destination,
            congestion,
        };
        Some((origin, datagram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: ThreadPlace = ThreadPlace {
        generation: 0,
        thread: 0,
    };
    const HERE: ThreadPlace = ThreadPlace {
        generation: 1,
        thread: 0,
    };
    const OTHER: ThreadPlace = ThreadPlace {
        generation: 1,
        thread: 1,
    };

    fn identity() -> QuicIdentity {
        QuicIdentity::from_bytes(&[3; 34]).expect("an identity")
    }

    /// A packet of a connection at this place.
    fn packet(place: ThreadPlace) -> Vec<u8> {
        let id = identity().connection_ids().at(place).generate_cid();
        [&[0x40], &id[..], b"rest"].concat()
    }

    fn origin(source: &str, destination: Option<&str>) -> DatagramOrigin {
        DatagramOrigin {
            source: source.parse().expect("an address"),
            destination: destination.map(|address| address.parse().expect("an address")),
            congestion: Some(EcnCodepoint::Ect0),
        }
    }

    /// Goal: each datagram reaches the thread of its connection, with all that is known of it. Method: datagrams for another thread, for
    /// one whose process has ended, for nobody, and for a process that comes.
    #[tokio::test]
    async fn a_datagram_reaches_the_thread_of_its_connection() {
        let other = relay().expect("a pair");
        let old = relay().expect("a pair").sender;
        let routes = DatagramRoutes::new(&identity(), [(OTHER, other.sender), (OLD, old)]);
        let mut other = RelayReceiver::new(other.receiver).expect("it is registered");
        let origins = [
            origin("192.0.2.1:7", Some("192.0.2.2")),
            origin("[::ffff:192.0.2.1]:7", Some("::ffff:192.0.2.2")),
            origin("[fe80::1%3]:65535", None),
        ];
        for origin in origins {
            let sent = packet(OTHER);
            let route = routes.pass_on(HERE, &origin, &sent);
            assert_eq!(route, DatagramRoute::Elsewhere);
            let received = other.receive().await.expect("it is open");
            assert_eq!(received, Some((origin, sent.as_slice())));
        }
        let handed: Vec<_> = routes.duplicates().expect("duplicates");
        assert_eq!(handed.first().map(|(place, _)| *place), Some(OTHER));
        assert_eq!(handed.len(), 1);
        assert_eq!(other.receive().await.expect("it is open"), None);
        let route = |place| routes.pass_on(HERE, &origins[0], &packet(place));
        assert_eq!(route(HERE), DatagramRoute::Here);
        assert_eq!(route(OLD), DatagramRoute::Here);
        let next = identity().successor().successor();
        let generation = next.generation();
        assert_eq!(
            route(ThreadPlace {
                generation,
                thread: 0
            }),
            DatagramRoute::Newer
        );
        assert_eq!(
            routes.pass_on(HERE, &origins[0], b"no packet"),
            DatagramRoute::Here
        );
    }

    /// Goal: what a thread does not take costs no memory, and no other thread its time. Method: datagrams without end to one that reads
    /// none.
    #[test]
    fn a_thread_that_reads_nothing_gets_no_more() {
        let RelayEnds {
            sender,
            receiver: _open,
        } = relay().expect("a pair");
        let routes = DatagramRoutes::new(&identity(), [(OTHER, sender)]);
        let large = [packet(OTHER), vec![0; 1200]].concat();
        for _ in 0..10_000 {
            let route = routes.pass_on(HERE, &origin("192.0.2.1:7", None), &large);
            assert_eq!(route, DatagramRoute::Elsewhere);
        }
    }

    /// Goal: a message that is none is skipped. Method: beginnings of one.
    #[test]
    fn half_a_message_is_skipped() {
        let line = origin("192.0.2.1:7", None).to_line();
        for end in 0..line.len() {
            assert_eq!(DatagramOrigin::from_message(&line.as_bytes()[..end]), None);
        }
    }
}
