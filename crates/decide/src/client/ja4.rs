//! Computes the fingerprint of a TLS client, by FoxIO's JA4 method for TLS clients.
//!
//! The first message of a TLS library is the same for all programs that use it, whatever `User-Agent` they send: a limit by it
//! counts the bots of one kind together, though each has an address of its own. The method is public (github.com/FoxIO-LLC/ja4,
//! `ja4` alone of its family, BSD 3-Clause). Lists are sorted, since browsers shuffle them, and values that exist only to keep
//! servers tolerant (GREASE, RFC 8701) are left out.

use std::fmt::Write as _;

use super::certificate::{hex, sha256};

/// Hexadecimal digits of each hash.
const DIGITS: usize = 12;

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const PROTOCOLS: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// A reader of a message; malformed parts read as empty.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn one(&mut self) -> Option<usize> {
        Some(usize::from(*self.take(1)?.first()?))
    }

    fn two(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Reads a byte string after a length of one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.one()?;
        self.take(length)
    }

    /// Reads a byte string after a length of two bytes.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.two()?);
        self.take(length)
    }
}

/// Returns the fingerprint of a ClientHello, RFC 8446 §4.1.2, without the header of the handshake; `None` where it is malformed.
#[must_use]
pub fn ja4(hello: &[u8]) -> Option<String> {
    let mut hello = ByteReader(hello);
    let legacy_version = hello.two()?;
    hello.take(32)?;
    hello.short()?;
    let ciphers = numbers(hello.long()?);
    hello.short()?;
    let mut versions = Vec::new();
    let mut signatures = Vec::new();
    let mut protocol = None;
    let mut kinds = Vec::new();
    // Old clients have none.
    let mut extensions = ByteReader(hello.long().unwrap_or_default());
    while !extensions.0.is_empty() {
        let kind = extensions.two()?;
        let content = extensions.long()?;
        if is_grease(kind) {
            continue;
        }
        kinds.push(kind);
        let mut content = ByteReader(content);
        match kind {
            SUPPORTED_VERSIONS => versions = numbers(content.short()?),
            SIGNATURE_ALGORITHMS => signatures = numbers(content.long()?),
            PROTOCOLS => protocol = ByteReader(content.long()?).short(),
            _ => {}
        }
    }
    let version = versions.into_iter().max().unwrap_or(legacy_version);
    let named = if kinds.contains(&SERVER_NAME) {
        'd'
    } else {
        'i'
    };
    let many_ciphers = ciphers.len().min(99);
    let many_kinds = kinds.len().min(99);
    let mut text = format!("t{}{named}{many_ciphers:02}{many_kinds:02}", short(version));
    push_ends(&mut text, protocol.unwrap_or_default());
    text.push('_');
    text.push_str(&digest(sorted(ciphers), &[]));
    kinds.retain(|kind| ![SERVER_NAME, PROTOCOLS].contains(kind));
    text.push('_');
    text.push_str(&digest(sorted(kinds), &signatures));
    Some(text)
}

fn sorted(mut values: Vec<u16>) -> Vec<u16> {
    values.sort_unstable();
    values
}

/// Returns the values of a list, without GREASE.
fn numbers(list: &[u8]) -> Vec<u16> {
    let pairs = list.as_chunks::<2>().0.iter();
    let values = pairs.map(|pair| u16::from_be_bytes(*pair));
    values.filter(|value| !is_grease(*value)).collect()
}

/// Returns whether a value is GREASE. RFC 8701 §2: both bytes equal, and ending in `a`.
fn is_grease(value: u16) -> bool {
    let [high, low] = value.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

fn short(version: u16) -> &'static str {
    match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        _ => "00",
    }
}

/// Appends the first and the last character of the client's most preferred protocol.
fn push_ends(into: &mut String, protocol: &[u8]) {
    let (Some(first), Some(last)) = (protocol.first(), protocol.last()) else {
        into.push_str("00");
        return;
    };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        into.extend([char::from(*first), char::from(*last)]);
    } else {
        // The outer digits, where the bytes are no letters.
        let _ = write!(into, "{:x}{:x}", first >> 4, last & 0x0f);
    }
}

/// Returns the beginning of the hash of a list, and of a second one after it if there is any.
fn digest(values: Vec<u16>, behind: &[u16]) -> String {
    if values.is_empty() {
        return "0".repeat(DIGITS);
    }
    let joined = |values: &[u16]| {
        let texts: Vec<String> = values.iter().map(|value| format!("{value:04x}")).collect();
        texts.join(",")
    };
    let mut text = joined(&values);
    if !behind.is_empty() {
        text.push('_');
        text.push_str(&joined(behind));
    }
    let mut digits = hex(&sha256(text.as_bytes()));
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(values: &[u16]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_be_bytes())
            .collect()
    }

    fn long(content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap();
        [&length.to_be_bytes(), content].concat()
    }

    fn short_list(content: &[u8]) -> Vec<u8> {
        [&[u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn hello(ciphers: &[u16], extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let extensions = extensions
            .iter()
            .flat_map(|(kind, content)| [kind.to_be_bytes().to_vec(), long(content)].concat());
        [
            &[3, 3][..],
            &[7; 32],
            &short_list(&[9; 32]),
            &long(&list(ciphers)),
            &short_list(&[0]),
            &long(&extensions.collect::<Vec<u8>>()),
        ]
        .concat()
    }

    /// Returns the example of the method's description: a Chrome with GREASE in every list.
    fn chrome() -> Vec<u8> {
        let signatures = [
            0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
        ];
        let mut extensions: Vec<(u16, Vec<u8>)> = [
            0x3a3a, 0x0017, 0x0000, 0xff01, 0x000a, 0x000b, 0x0023, 0x0005, 0x0012, 0x0033, 0x002d,
            0x001b, 0x4469, 0x0015, 0x4a4a,
        ]
        .map(|kind| (kind, Vec::new()))
        .into();
        extensions.push((PROTOCOLS, long(b"\x02h2\x08http/1.1")));
        extensions.push((SIGNATURE_ALGORITHMS, long(&list(&signatures))));
        let versions = short_list(&list(&[0x5a5a, 0x0304, 0x0303]));
        extensions.push((SUPPORTED_VERSIONS, versions));
        let ciphers = [
            0x2a2a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013,
            0xc014, 0x009c, 0x009d, 0x002f, 0x0035,
        ];
        hello(&ciphers, &extensions)
    }

    /// Goal: the fingerprint equals the one of other tools and of blocklists. Method: the example of the method's own
    /// description.
    #[test]
    fn a_fingerprint_is_the_one_of_the_methods_description() {
        let found = ja4(&chrome());
        assert_eq!(
            found.as_deref(),
            Some("t13d1516h2_8daaf6152771_e5627efa2ab1")
        );
    }

    /// Goal: clients with few options have a fingerprint too. Method: no extensions at all, and a protocol that is no text.
    #[test]
    fn what_is_not_said_is_zero() {
        let found = ja4(&hello(&[], &[]));
        assert_eq!(
            found.as_deref(),
            Some("t12i000000_000000000000_000000000000")
        );
        let odd = ja4(&hello(&[], &[(PROTOCOLS, long(b"\x02\xab\xcd"))])).unwrap();
        assert!(odd.starts_with("t12i0001ad_"), "{odd}");
    }

    proptest! {
        /// Goal: no message of a client stops the process. Method: arbitrary bytes, and a valid message that is cut or altered.
        #[test]
        fn every_message_can_be_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0_usize..400,
            at in 0_usize..400,
            byte: u8,
        ) {
            let _ = ja4(&bytes);
            let mut hello = chrome();
            hello.truncate(cut);
            if let Some(place) = hello.get_mut(at) {
                *place = byte;
            }
            if let Some(text) = ja4(&hello) {
                prop_assert_eq!(text.len(), 36);
            }
        }
    }
}
