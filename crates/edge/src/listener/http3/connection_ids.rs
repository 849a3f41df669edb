//! Decides what the server's connection ids say: the process and the thread that a connection runs at, for this gateway alone.
//!
//! The kernel spreads the datagrams of an address over the sockets of its threads by their source, and a client's source changes. A
//! process that has taken the sockets over receives the datagrams of connections that the old one still serves. By its id each finds its
//! connection ([`datagram_routes`](super::datagram_routes)).
//!
//! An id is a nonce and a place, encrypted under it: the two halves look random, so that nobody relates one id of a connection to another
//! (RFC 9000 §5.1). A client can alter the place, and only loses its own datagrams by that.

use std::hash::Hasher;
use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use ring::{hkdf, hmac};
use siphasher::sip::SipHasher24;

/// Bytes of an id: a nonce, and the place.
const LENGTH: usize = 16;
/// Bytes of each half.
const HALF: usize = LENGTH / 2;
/// Bytes of the secret.
const SECRET: usize = 32;

/// The place that a connection runs at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadPlace {
    /// The number of upgrades before its process.
    pub generation: u16,
    /// The thread of that process, among those of the address.
    pub thread: u16,
}

/// The secret from which the keys of QUIC are made, and the generation of this process. Processes that take over from one another share
/// the secret.
#[derive(Clone)]
pub struct QuicIdentity {
    secret: [u8; SECRET],
    generation: u16,
}

/// Reads and makes ids.
#[derive(Clone)]
pub(super) struct ConnectionIds([u8; 16]);

/// Makes the ids of one thread.
struct PlacedIds {
    ids: ConnectionIds,
    place: ThreadPlace,
    made: u64,
}

impl ThreadPlace {
    /// Returns whether its process began after that of another place. Generations are counted modulo their range.
    pub(super) fn is_newer_than(self, other: Self) -> bool {
        let ahead = self.generation.wrapping_sub(other.generation);
        (1..=u16::MAX / 2).contains(&ahead)
    }

    fn to_bytes(self) -> [u8; HALF] {
        let [one, two] = self.generation.to_be_bytes();
        let [three, four] = self.thread.to_be_bytes();
        [one, two, three, four, 0, 0, 0, 0]
    }

    /// Reads a place; `None` for bytes that are none.
    fn from_bytes(bytes: [u8; HALF]) -> Option<Self> {
        let [one, two, three, four, 0, 0, 0, 0] = bytes else {
            return None;
        };
        Some(Self {
            generation: u16::from_be_bytes([one, two]),
            thread: u16::from_be_bytes([three, four]),
        })
    }
}

impl QuicIdentity {
    /// Returns the identity of a process that takes over from none.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret)?;
        Ok(Self {
            secret,
            generation: 0,
        })
    }

    /// Returns the identity of the process that takes over from this one.
    pub fn successor(&self) -> Self {
        Self {
            secret: self.secret,
            generation: self.generation.wrapping_add(1),
        }
    }

    /// Returns the generation of the process.
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// Returns the identity for another process of this machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.secret[..], &self.generation.to_be_bytes()].concat()
    }

    /// Reads an identity; `None` for bytes that are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (secret, generation) = bytes.split_first_chunk()?;
        Some(Self {
            secret: *secret,
            generation: u16::from_be_bytes(generation.try_into().ok()?),
        })
    }

    /// Returns the ids of these processes.
    pub(super) fn connection_ids(&self) -> ConnectionIds {
        ConnectionIds(self.derive(b"connection ids"))
    }

    /// Returns the key of stateless resets: a process resets the connections of those before it.
    pub(super) fn reset_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive::<32>(b"resets"))
    }

    /// Returns the key of the tokens by which clients prove their addresses.
    pub(super) fn token_key(&self) -> hkdf::Prk {
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&self.derive::<32>(b"tokens"))
    }

    /// Returns the key of this purpose.
    fn derive<const N: usize>(&self, purpose: &[u8]) -> [u8; N] {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let tag = hmac::sign(&secret, purpose);
        let mut key = [0; N];
        for (into, byte) in key.iter_mut().zip(tag.as_ref()) {
            *into = *byte;
        }
        key
    }
}

impl ConnectionIds {
    /// Returns what makes the ids of connections at this place.
    pub(super) fn at(&self, place: ThreadPlace) -> Box<dyn ConnectionIdGenerator> {
        Box::new(PlacedIds {
            ids: self.clone(),
            place,
            made: 0,
        })
    }

    /// Returns the place that the id of a datagram names; `None` for an id that a client has made, or a datagram without one.
    pub(super) fn place_of(&self, datagram: &[u8]) -> Option<ThreadPlace> {
        self.place(destination_id(datagram)?)
    }

    fn place(&self, id: &[u8]) -> Option<ThreadPlace> {
        let (nonce, sealed) = id.split_first_chunk::<HALF>()?;
        let sealed = u64::from_be_bytes(sealed.try_into().ok()?);
        let place = sealed ^ self.mask(*nonce);
        ThreadPlace::from_bytes(place.to_be_bytes())
    }

    fn mask(&self, nonce: [u8; HALF]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&nonce);
        hasher.finish()
    }
}

impl ConnectionIdGenerator for PlacedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        // Another message than a nonce alone, so no mask is known from it.
        let mut nonce = SipHasher24::new_with_key(&self.ids.0);
        nonce.write(&self.place.to_bytes());
        nonce.write(&self.made.to_be_bytes());
        self.made += 1;
        let nonce = nonce.finish().to_be_bytes();
        let place = u64::from_be_bytes(self.place.to_bytes());
        let sealed = (place ^ self.ids.mask(nonce)).to_be_bytes();
        ConnectionId::new(&[nonce, sealed].concat())
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.ids.place(id).map(|_| ()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Returns the destination connection id of a datagram's first packet, if it is as long as ours (RFC 9000 §17.2, §17.3).
fn destination_id(datagram: &[u8]) -> Option<&[u8]> {
    const LONG_HEADER: u8 = 0x80;
    let begin = match datagram.first()? & LONG_HEADER {
        0 => 1,
        // Behind the version stands the length of the id.
        _ if usize::from(*datagram.get(5)?) == LENGTH => 6,
        _ => return None,
    };
    datagram.get(begin..begin + LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> QuicIdentity {
        QuicIdentity {
            secret: [7; SECRET],
            generation: 3,
        }
    }

    /// Goal: a connection is found by each of its ids, in packets of both forms. Method: many ids of two places, each behind both headers.
    #[test]
    fn an_id_says_where_its_connection_runs() {
        let ids = identity().connection_ids();
        for thread in [0, 40_000] {
            let place = ThreadPlace {
                generation: identity().generation(),
                thread,
            };
            let mut generator = ids.at(place);
            for _ in 0..100 {
                let id = generator.generate_cid();
                let short = [&[0x40], &id[..], b"rest"].concat();
                let long = [&[0xe0, 0, 0, 0, 1, 16], &id[..], b"rest"].concat();
                assert_eq!(ids.place_of(&short), Some(place));
                assert_eq!(ids.place_of(&long), Some(place));
                assert!(generator.validate(&id).is_ok());
            }
        }
    }

    /// Goal: a client's own ids, and datagrams that are cut off, name no place. Method: ids of other keys and lengths, and each beginning
    /// of a datagram.
    #[test]
    fn other_ids_name_no_place() {
        let place = ThreadPlace {
            generation: 0,
            thread: 0,
        };
        let ids = identity().connection_ids();
        let foreign = ConnectionIds([1; 16]).at(place).generate_cid();
        let short = [&[0x40], &foreign[..]].concat();
        assert_eq!(ids.place_of(&short), None);
        let own = ids.at(place).generate_cid();
        let long = [&[0xc0, 0, 0, 0, 1, 8], &own[..]].concat();
        assert_eq!(ids.place_of(&long), None);
        let short = [&[0x40], &own[..]].concat();
        for end in 0..short.len() {
            assert_eq!(ids.place_of(&short[..end]), None);
        }
    }

    /// Goal: ids are different at each place, and after an upgrade. Method: the first ids of several places.
    #[test]
    fn no_two_places_make_the_same_id() {
        let ids = identity().connection_ids();
        let first = |generation, thread| {
            let id = ids.at(ThreadPlace { generation, thread }).generate_cid();
            id.to_vec()
        };
        let mut made = vec![first(0, 0), first(0, 1), first(1, 0), first(1, 1)];
        made.sort();
        made.dedup();
        assert_eq!(made.len(), 4);
    }

    /// Goal: a process knows which ids are of one behind it, however many upgrades there were. Method: generations around the end of their
    /// range.
    #[test]
    fn a_place_is_newer_by_its_generation() {
        let at = |generation| ThreadPlace {
            generation,
            thread: 9,
        };
        assert!(at(1).is_newer_than(at(0)) && at(0).is_newer_than(at(u16::MAX)));
        assert!(!at(0).is_newer_than(at(0)) && !at(0).is_newer_than(at(1)));
        let successor = identity().successor();
        assert!(at(successor.generation()).is_newer_than(at(identity().generation())));
    }

    /// Goal: another process reads the identity whole. Method: there and back, and a piece of it.
    #[test]
    fn an_identity_is_handed_over() {
        let bytes = identity().to_bytes();
        let read = QuicIdentity::from_bytes(&bytes).expect("it is whole");
        assert_eq!(read.to_bytes(), bytes);
        assert!(QuicIdentity::from_bytes(&bytes[1..]).is_none());
    }
}
