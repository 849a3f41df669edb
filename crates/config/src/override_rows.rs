//! Owns the rows of a file of overrides in memory: which key is in which tier.
//!
//! A file may have a million rows, so they lie in one block instead of a million strings; a snapshot turns them into keyed hashes. Each
//! part of a key is kept as the bytes that a request with that value is counted by.

use std::fmt;

use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_base::host;
use sluicegate_base::normal_form::{in_lower_case, in_upper_case};
use sluicegate_base::path::NormalPath;

use super::rules::KeyPart;
use super::tables::{crawler, geo};

use super::field::quoted;
use super::problem::ParseError;

/// The place of a tier among those of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TierIndex(pub u8);

/// Keys and their tiers, in the order of the file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OverrideRows {
    /// The parts of all keys, each behind its length in two bytes, little end first.
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<(u32, TierIndex)>,
}

impl OverrideRows {
    /// Adds a row. A part is made of at most [`LONGEST`] bytes, and a file at most
    /// [`OVERRIDE_BYTES`](sluicegate_base::bounds::OVERRIDE_BYTES).
    pub(super) fn push(&mut self, key: &[Vec<u8>], tier: TierIndex) {
        for part in key {
            let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(&part[..usize::from(length)]);
        }
        let end = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.ends.push((end, tier));
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Every row: the parts of its key, and its tier.
    pub fn iter(&self) -> impl Iterator<Item = (impl Iterator<Item = &[u8]>, TierIndex)> {
        (0..self.len()).map(|row| (KeyParts(self.key(row)), self.ends[row].1))
    }

    /// Two rows of one key, if there are any.
    pub(super) fn find_twin(&self) -> Option<[usize; 2]> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|row| (self.key(*row), *row));
        let mut pairs = order.windows(2);
        pairs.find_map(|pair| match pair {
            &[one, other] if self.key(one) == self.key(other) => Some([one, other]),
            _ => None,
        })
    }

    fn key(&self, row: usize) -> &[u8] {
        let end = |row: usize| self.ends.get(row).map_or(0, |(end, _)| *end as usize);
        let start = row.checked_sub(1).map_or(0, end);
        self.bytes.get(start..end(row)).unwrap_or_default()
    }
}

impl fmt::Debug for OverrideRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.len())
    }
}

/// The parts of one key.
struct KeyParts<'a>(&'a [u8]);

impl<'a> Iterator for KeyParts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<2>()?;
        let (part, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        self.0 = rest;
        Some(part)
    }
}

/// Bytes of one value. Escapes make a path at most three times as long, and a length of two bytes can still say that.
const LONGEST: usize = 16 * 1024;

/// The bytes that a request with this value of `part` is counted by.
pub(super) fn counted_by(part: &KeyPart, text: &str) -> Result<Vec<u8>, ParseError> {
    if text.len() > LONGEST {
        return Err(ParseError::with_advice(
            format!("{} bytes are too many for a part of a key", text.len()),
            format!("keep it to {LONGEST}"),
        ));
    }
    match part {
        KeyPart::ClientIp { v4, v6 } => network(text, PrefixBits { v4: *v4, v6: *v6 }),
        KeyPart::Host => host::normalize(text)
            .map(|host| host.into_owned().into_bytes())
            .map_err(|_| {
                ParseError::with_advice(
                    format!("{} is no host", quoted(text)),
                    "write one such as api.example.com",
                )
            }),
        KeyPart::Path => NormalPath::parse(text)
            .map(|path| in_lower_case(path.key()).as_bytes().to_vec())
            .map_err(|_| {
                ParseError::with_advice(
                    format!("{} is no path", quoted(text)),
                    "write one such as /auth/sendOTP",
                )
            }),
        KeyPart::Method => http::Method::from_bytes(text.as_bytes())
            .map(|method| in_upper_case(&method).as_bytes().to_vec())
            .map_err(|_| {
                ParseError::with_advice(
                    format!("{} is no method", quoted(text)),
                    "write one such as POST",
                )
            }),
        KeyPart::Place(field) => geo::counted_by(text, *field),
        KeyPart::Crawler => crawler::counted_by(text),
        KeyPart::Value(part) => part.counted_text(text).ok_or_else(|| {
            ParseError::with_advice(
                format!("{} is no value of {part}", quoted(text)),
                "write it as a request would have it",
            )
        }),
        KeyPart::Global => Err(ParseError::with_advice(
            "a limit with one counter for all has no keys to tell apart",
            "change its rates",
        )),
    }
}

/// Reads a value of a key part as a row of overrides names it, and returns the form in which it is counted.
///
/// # Errors
/// What is wrong with the value, and what to write instead.
pub fn counted_value(part: &KeyPart, text: &str) -> Result<Vec<u8>, String> {
    counted_by(part, text).map_err(|mistake| mistake.to_text())
}

/// An address where the key takes whole addresses, else the network that the key counts by.
fn network(text: &str, bits: PrefixBits) -> Result<Vec<u8>, ParseError> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: std::net::IpAddr = address.parse().map_err(|_| {
        ParseError::with_advice(
            format!("{} is no address", quoted(text)),
            "write one such as 192.0.2.7, or a network such as 2001:db8::/64",
        )
    })?;
    let address = address.to_canonical();
    let counted = prefix(address, bits);
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let fits = match length {
        Some(length) => length.parse() == Ok(counted.length()) && counted.network() == address,
        None => counted.length() == whole,
    };
    if fits {
        return Ok(counted.as_bytes().to_vec());
    }
    let message = format!(
        "{} is not what the limit counts by, which are /{} of IPv4 and /{} of IPv6",
        quoted(text),
        bits.v4,
        bits.v6
    );
    Err(ParseError::with_advice(message, format!("write {counted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is put in comes out. Method: keys of two parts, one of them empty, and a key twice.
    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut rows = OverrideRows::default();
        let keys = [["a", ""], ["", "a"], ["long enough", "b"], ["", "a"]];
        for (tier, key) in (0..).zip(keys) {
            rows.push(&key.map(|part| part.as_bytes().to_vec()), TierIndex(tier));
        }
        let read: Vec<(Vec<&[u8]>, TierIndex)> = rows
            .iter()
            .map(|(key, tier)| (key.collect(), tier))
            .collect();
        for ((tier, key), read) in (0..).zip(keys).zip(&read) {
            assert_eq!(read, &(key.map(str::as_bytes).to_vec(), TierIndex(tier)));
        }
        assert_eq!(rows.find_twin(), Some([1, 3]));
    }

    /// Goal: a row is what requests are counted by, or an error; never a row that no request meets. Method: networks that fit, have
    /// other lengths or bits behind them, and mapped addresses.
    #[test]
    fn networks_are_those_of_the_key() {
        let bits = PrefixBits { v4: 24, v6: 64 };
        let advice = |text| network(text, bits).unwrap_err().advice.unwrap();
        assert!(network("192.0.2.0/24", bits).is_ok());
        assert_eq!(
            network("2001:DB8:0::/64", bits).unwrap(),
            prefix("2001:db8::1".parse().unwrap(), bits).as_bytes()
        );
        assert_eq!(advice("192.0.2.7"), "write 192.0.2.0/24");
        assert_eq!(advice("192.0.2.7/24"), "write 192.0.2.0/24");
        assert_eq!(advice("192.0.0.0/16"), "write 192.0.0.0/24");
        assert_eq!(advice("2001:db8::1"), "write 2001:db8::/64");
        let whole = PrefixBits::default();
        assert_eq!(
            network("::ffff:192.0.2.7", whole),
            network("192.0.2.7/32", whole)
        );
    }
}
