//! Owns the facts that `sluicegate replay` needs beside those that a line has anyway.

use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::hex::digits_of_u64;

use super::line::{number, text};
use crate::admission::RecordedKey;

/// The facts by which the decision over a request can be repeated.
#[derive(Debug)]
pub struct ReplayFacts<'a> {
    /// The time of the decision.
    pub decided: Timestamp,
    /// The keys by which the limits of the route count the request.
    pub keys: Vec<RecordedKey<'a>>,
}

impl ReplayFacts<'_> {
    /// Writes the time of the decision, and the key under each template or why there is none, as members of a JSON object.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        number(into, b",\"decided_ns\":", self.decided.as_nanos());
        let mut before: &[u8] = b",\"key_hashes\":{\"";
        for recorded in &self.keys {
            text(into, before, recorded.template.to_string().as_bytes());
            match recorded.key {
                Ok(key) => {
                    into.extend_from_slice(b":\"");
                    into.extend_from_slice(&digits_of_u64(key.bits()));
                    into.push(b'"');
                }
                Err(why) => text(into, b":\"", why.as_str().as_bytes()),
            }
            before = b",\"";
        }
        if !self.keys.is_empty() {
            into.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::KeyHash;

    use super::*;
    use crate::config::rules::{KeyPart, KeyTemplate};
    use crate::rejection::MissingReason;

    /// Goal: replay reads what is written here. Method: a hash, the reason for a missing key, and a route without limits.
    #[test]
    fn hashes_and_reasons_are_written_by_template() {
        let (path, method) = (
            KeyTemplate(vec![KeyPart::Path]),
            KeyTemplate(vec![KeyPart::Method, KeyPart::Host]),
        );
        let decided = Timestamp::from_nanos(7);
        let keys = vec![
            RecordedKey {
                template: &path,
                key: Ok(KeyHash::from_bits(0xab)),
            },
            RecordedKey {
                template: &method,
                key: Err(MissingReason::OtherType),
            },
        ];
        let mut line = b"{\"a\":1".to_vec();
        ReplayFacts { decided, keys }.write(&mut line);
        let expected = r#"{"a":1,"decided_ns":7,"key_hashes":{"path":"00000000000000ab","method, host":"other-type"}"#;
        assert_eq!(String::from_utf8(line).expect("text"), expected);
        let mut line = Vec::new();
        let keys = Vec::new();
        ReplayFacts { decided, keys }.write(&mut line);
        assert_eq!(line, b",\"decided_ns\":7");
    }
}
