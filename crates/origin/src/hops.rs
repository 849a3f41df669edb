//! Counts how often a request came through gateways like this one, by the field `CDN-Loop` (RFC 8586), and ends loops.
//!
//! Every request to an origin names this gateway in the field; no field of a client can remove the entry. A request with too many entries
//! is answered with 508. `Via` would do the same, but nginx does not compress responses to a request that has it.
//!
//! # Limits
//! A request passes one gateway [`OWN_PASSES`](bounds::OWN_PASSES) times, and all gateways together [`ALL_PASSES`](bounds::ALL_PASSES)
//! times. The first bound finds a loop early; the second holds where each pass is through another gateway of a fleet.

use bytes::BytesMut;
use http::{HeaderName, HeaderValue};
use sluicegate_base::bounds;
use sluicegate_base::received::ReceivedFields;

/// The field, RFC 8586 §2.
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// The name of every gateway: a `cdn-id` of RFC 8586 §2.
const NAME: &str = "sluicegate";

/// The entry of one gateway in `CDN-Loop`.
#[derive(Debug)]
pub struct HopName(HeaderValue);

impl HopName {
    /// Returns a name with this number, which is unique to a gateway. Origins and clients see it, so it must reveal no secret.
    #[must_use]
    pub fn new(number: u64) -> Self {
        let text = format!("{NAME}; id={number:016x}");
        Self(
            HeaderValue::from_str(&text)
                .expect("letters, digits, `;`, `=` and a space are visible ASCII"),
        )
    }

    /// Returns whether a request with these fields has passed this gateway before.
    #[must_use]
    pub fn is_loop(&self, fields: &ReceivedFields) -> bool {
        if !fields.contains_key(CDN_LOOP) {
            return false;
        }
        let mut own = 0;
        let mut all = 0;
        for value in fields.get_all(CDN_LOOP) {
            for hop in value.as_bytes().split(|&byte| byte == b',') {
                let hop = hop.trim_ascii();
                let name = hop.split(|&byte| byte == b';').next().unwrap_or_default();
                if name.trim_ascii().eq_ignore_ascii_case(NAME.as_bytes()) {
                    all += 1;
                    own += usize::from(is_same(hop, self.0.as_bytes()));
                }
            }
        }
        own >= bounds::OWN_PASSES || all >= bounds::ALL_PASSES
    }

    /// Returns the value for the origin: every hop of the client's request, then this one.
    ///
    /// RFC 8586 §2: the entries of others are neither changed nor removed.
    #[must_use]
    pub fn behind(&self, received: &ReceivedFields) -> HeaderValue {
        if !received.contains_key(CDN_LOOP) {
            return self.0.clone();
        }
        let mut all = BytesMut::new();
        for hop in received.get_all(CDN_LOOP) {
            all.extend_from_slice(hop.as_bytes());
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(self.0.as_bytes());
        HeaderValue::from_maybe_shared(all.freeze()).expect("values and a comma make a value")
    }
}

/// Returns whether two hops are equal apart from white space, which other hops may change.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let written = |byte: &&u8| !byte.is_ascii_whitespace();
    let one = one.iter().filter(written);
    let other = other.iter().filter(written);
    one.map(u8::to_ascii_lowercase)
        .eq(other.map(u8::to_ascii_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(values: &[&str]) -> ReceivedFields {
        let mut fields = ReceivedFields::new();
        for value in values {
            fields.append(CDN_LOOP, value.parse().unwrap());
        }
        fields
    }

    /// Goal: a request passes one gateway a few times at most, and a fleet a bounded number of times. Method: the field that
    /// each gateway writes is given to the next, until one detects a loop.
    #[test]
    fn passes_are_counted_for_each_gateway_and_for_all() {
        let passes = |gateways: u64| {
            let mut received = fields(&["fastly", "a.test; sluicegate"]);
            (0..100).find(|pass| {
                let hop = HopName::new(pass % gateways);
                let ends = hop.is_loop(&received);
                let told = hop.behind(&received);
                received = ReceivedFields::from_iter([(CDN_LOOP, told)]);
                ends
            })
        };
        assert_eq!(passes(1), Some(bounds::OWN_PASSES as u64));
        assert_eq!(passes(1000), Some(bounds::ALL_PASSES as u64));
    }

    /// Goal: the own hop is detected in any spelling, and others are kept. Method: several fields, other white space and case.
    #[test]
    fn a_hop_is_known_in_any_spelling() {
        let hop = HopName::new(0xab);
        let own = "Sluicegate;id=00000000000000AB";
        let received = fields(&["fastly", &format!("{own} ,\t{own}")]);
        assert!(hop.is_loop(&received));
        assert!(!HopName::new(1).is_loop(&received));
        assert_eq!(
            hop.behind(&received),
            format!("fastly, {own} ,\t{own}, sluicegate; id=00000000000000ab")
        );
        assert!(!hop.is_loop(&fields(&["sluicegates, my-sluicegate"])));
    }
}
