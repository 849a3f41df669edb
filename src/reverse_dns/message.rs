//! Writes questions to DNS servers, and reads the parts of their answers that matter for the names of addresses.
//!
//! An answer comes from a server that may pass on what the owner of any zone wrote. So names are taken only where they consist of
//! letters, digits, `-` and `_`, chains of aliases end after a bounded number of steps, and a message that cannot be parsed is an error.

use std::io;
use std::net::IpAddr;

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, ParsedName, Rtype, ToName};
use domain::rdata::{A, Aaaa, Ptr, Soa};
use sluicegate_base::bounds::LOOK_UP_ADDRESSES;

/// A question with the bytes that ask it.
#[derive(Clone, Debug)]
pub(super) struct DnsQuestion {
    message: Message<Vec<u8>>,
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub(super) struct DnsAnswer {
    message: Message<Vec<u8>>,
}

/// The values of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRecords<T> {
    /// Those that can be used.
    pub(super) values: Vec<T>,
    /// The number of records, whatever they hold.
    pub(super) records: usize,
    /// The time for which the answer holds, in seconds; zero where it does not say.
    pub(super) ttl: u32,
}

impl DnsQuestion {
    /// Returns the question for the names of an address.
    ///
    /// # Errors
    /// The system gives no random number.
    pub(super) fn for_names(address: IpAddr) -> io::Result<Self> {
        let name = Name::<Vec<u8>>::reverse_from_addr(address).map_err(malformed)?;
        Self::new(&name, Rtype::PTR)
    }

    /// Returns the question for the addresses of a name, of the family of `like`.
    ///
    /// # Errors
    /// The text is no name, or the system gives no random number.
    pub(super) fn for_addresses(name: &str, like: IpAddr) -> io::Result<Self> {
        let name: Name<Vec<u8>> = name.parse().map_err(malformed)?;
        let rtype = match like {
            IpAddr::V4(_) => Rtype::A,
            IpAddr::V6(_) => Rtype::AAAA,
        };
        Self::new(&name, rtype)
    }

    fn new(name: &Name<Vec<u8>>, rtype: Rtype) -> io::Result<Self> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_rd(true);
        let mut question = builder.question();
        question.push((name, rtype)).map_err(malformed)?;
        let message = question.into_message();
        let mut asked = Self { message };
        asked.renew()?;
        Ok(asked)
    }

    /// Gives the question another number, by which its answer is known (RFC 5452 §4.3).
    ///
    /// # Errors
    /// The system gives no random number.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        self.message.header_mut().set_id(u16::from_be_bytes(id));
        Ok(())
    }

    /// Returns the bytes to send.
    pub(super) fn bytes(&self) -> &[u8] {
        self.message.as_slice()
    }

    /// Reads bytes that a server sent; `None` where they do not answer this question.
    pub(super) fn answer(&self, bytes: &[u8]) -> Option<DnsAnswer> {
        let message = Message::from_octets(bytes.to_vec()).ok()?;
        let is_answer = message.is_answer(&self.message);
        is_answer.then_some(DnsAnswer { message })
    }
}

impl DnsAnswer {
    /// Returns whether the answer is complete only over a stream.
    pub(super) fn is_truncated(&self) -> bool {
        self.message.header().tc()
    }

    /// Returns the answer where the server has found out that there are such records, or none.
    ///
    /// # Errors
    /// The code by which the server says that it could not.
    pub(super) fn settled(self) -> io::Result<Self> {
        match self.message.header().rcode() {
            Rcode::NOERROR | Rcode::NXDOMAIN => Ok(self),
            code => Err(io::Error::other(format!("the answer is {code}"))),
        }
    }

    /// Returns the names of an address, in lower case and without the root dot. Names with other bytes than those of hosts are left out.
    ///
    /// # Errors
    /// The message is malformed, or its aliases form a circle.
    pub(super) fn names(&self) -> io::Result<FoundRecords<String>> {
        let owner = self.owner()?;
        let mut values = Vec::new();
        let mut records = 0;
        let answers = self.message.answer().map_err(malformed)?;
        for record in answers.limit_to::<Ptr<ParsedName<_>>>() {
            let record = record.map_err(malformed)?;
            if record.owner() == &owner {
                records += 1;
                values.extend(host_name(record.data().ptrdname()));
            }
        }
        self.found(values, records)
    }

    /// Returns the addresses of a name, at most [`LOOK_UP_ADDRESSES`], of the family that was asked for.
    ///
    /// # Errors
    /// As for [`Self::names`].
    pub(super) fn addresses(&self) -> io::Result<FoundRecords<IpAddr>> {
        let owner = self.owner()?;
        let answers = self.message.answer().map_err(malformed)?;
        let mut values: Vec<IpAddr> = Vec::new();
        for record in answers.limit_to::<A>() {
            let record = record.map_err(malformed)?;
            if record.owner() == &owner {
                values.push(record.data().addr().into());
            }
        }
        for record in answers.limit_to::<Aaaa>() {
            let record = record.map_err(malformed)?;
            if record.owner() == &owner {
                values.push(record.data().addr().into());
            }
        }
        values.truncate(LOOK_UP_ADDRESSES);
        let records = values.len();
        self.found(values, records)
    }

    /// Returns the name that the question's name stands for.
    fn owner(&self) -> io::Result<ParsedName<&[u8]>> {
        let message = Message::from_slice(self.message.as_slice()).map_err(malformed)?;
        // The library follows a bounded number of aliases.
        let owner = message.canonical_name();
        owner.ok_or_else(|| malformed("its aliases form a circle"))
    }

    fn found<T>(&self, values: Vec<T>, records: usize) -> io::Result<FoundRecords<T>> {
        let ttl = if records == 0 {
            self.negative_ttl()?
        } else {
            self.shortest_ttl()?
        };
        Ok(FoundRecords {
            values,
            records,
            ttl,
        })
    }

    /// Returns the shortest time to live of the records of the answer, aliases among them.
    fn shortest_ttl(&self) -> io::Result<u32> {
        let mut shortest = u32::MAX;
        for record in self.message.answer().map_err(malformed)? {
            shortest = shortest.min(record.map_err(malformed)?.ttl().as_secs());
        }
        Ok(shortest)
    }

    /// Returns the time for which there are no such records, RFC 2308 §5; zero where the answer does not say.
    fn negative_ttl(&self) -> io::Result<u32> {
        let authority = self.message.authority().map_err(malformed)?;
        let mut zones = authority.limit_to::<Soa<ParsedName<_>>>();
        match zones.next() {
            Some(zone) => {
                let zone = zone.map_err(malformed)?;
                Ok(zone.ttl().min(zone.data().minimum()).as_secs())
            }
            None => Ok(0),
        }
    }
}

/// Returns a name of a host in lower case and without the root dot; `None` where it has other bytes than those of hosts. A dot within a
/// label is one of them, so that the text has the labels of the name.
fn host_name(name: &impl ToName) -> Option<String> {
    let mut text = String::new();
    for label in name.iter_labels().filter(|label| !label.is_root()) {
        let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !label.as_slice().iter().all(is_host) {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(
            label
                .as_slice()
                .iter()
                .map(|byte| char::from(byte.to_ascii_lowercase())),
        );
    }
    (!text.is_empty()).then_some(text)
}

fn malformed(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
#[path = "message_tests.rs"]
pub(super) mod tests;
