//! Writes the values of a line of the access log: texts of clients, words, numbers and addresses.

use std::net::IpAddr;
use std::time::Duration;

use sluicegate_base::address::address_text;
use sluicegate_base::hex::digits_of_u64;
use sluicegate_limiter::KeyHash;
use sluicegate_telemetry::decimal::write_thousandths;
use sluicegate_telemetry::escape::{ValueTruncation, escape, escape_cut};

/// Bytes of a target that are logged; the rest is cut, marked by `…` and by `target_bytes`.
pub(super) const MAX_TARGET: usize = 2048;
/// Bytes of a host that are logged: the longest DNS name has 253.
pub(super) const MAX_HOST: usize = 256;
/// Bytes of a method that are logged: the longest registered one has 17.
pub(super) const MAX_METHOD: usize = 32;

/// Rounds up to whole seconds (RFC 9110 §10.2.3: `Retry-After`), so that the result is never too early.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs()
        .saturating_add(u64::from(wait.subsec_nanos() > 0))
}

/// Writes a value that a client chose, escaped, and the closing quote.
#[inline]
pub(super) fn text(into: &mut Vec<u8>, before: &[u8], value: &[u8]) {
    into.extend_from_slice(before);
    escape(into, value);
    into.push(b'"');
}

/// Writes at most `cap` bytes of a value that a client chose, escaped, and the closing quote.
pub(super) fn text_cut(
    into: &mut Vec<u8>,
    before: &[u8],
    value: &[u8],
    cap: usize,
) -> ValueTruncation {
    into.extend_from_slice(before);
    let cut = escape_cut(into, value, cap);
    into.push(b'"');
    cut
}

/// Writes a word of the program, or the name of a limit or an origin, which needs no escape, and the closing quote.
#[inline]
pub(super) fn word(into: &mut Vec<u8>, before: &[u8], word: &str) {
    plain(into, before, word.as_bytes());
    into.push(b'"');
}

/// Writes a value that needs no escape. Inlined, so that the constant in front of it is written by a few instructions.
#[inline(always)]
pub(super) fn plain(into: &mut Vec<u8>, before: &[u8], value: &[u8]) {
    into.extend_from_slice(before);
    into.extend_from_slice(value);
}

/// Writes a key as the admin endpoints show it: without the bit that the limiter does not keep.
pub(super) fn hash(into: &mut Vec<u8>, before: &[u8], key: KeyHash) {
    plain(into, before, &digits_of_u64(key.kept_bits()));
    into.push(b'"');
}

#[inline]
pub(super) fn number(into: &mut Vec<u8>, before: &[u8], value: u64) {
    plain(into, before, itoa::Buffer::new().format(value).as_bytes());
}

/// Writes a number of thousandths as a decimal with three places.
pub(super) fn thousandths(into: &mut Vec<u8>, before: &[u8], value: u64) {
    into.extend_from_slice(before);
    write_thousandths(into, value);
}

pub(super) fn address(into: &mut Vec<u8>, before: &[u8], address: Option<IpAddr>) {
    let Some(address) = address else { return };
    plain(into, before, address_text(address).as_bytes());
    into.push(b'"');
}

/// Writes an address as a socket address shows it: IPv6 in brackets.
pub(super) fn bare_address(into: &mut Vec<u8>, address: IpAddr) {
    let bracketed = address.is_ipv6();
    if bracketed {
        into.push(b'[');
    }
    into.extend_from_slice(address_text(address).as_bytes());
    if bracketed {
        into.push(b']');
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
