//! Owns the facts that `sluicegate replay` needs beside those that a line has anyway.

use sluicegate_base::hex::digits_of_u64;
use sluicegate_limiter::Timestamp;

use super::line_values::{number, text};
use sluicegate_decide::admission::{RecordedKey, RecordedReserve};

/// The facts by which the decision over a request can be repeated.
#[derive(Debug)]
pub struct ReplayFacts<'a> {
    /// The time of the decision.
    pub decided: Timestamp,
    /// The keys by which the limits of the route count the request.
    pub keys: Vec<RecordedKey<'a>>,
    /// The reserves that the request announced.
    pub reserves: Vec<RecordedReserve>,
}

impl ReplayFacts<'_> {
    /// Writes the time of the decision, the key under each template or why there is none, and the announced reserve of each limit, as
    /// members of a JSON object.
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
        let mut before: &[u8] = b",\"reserves\":{\"";
        for recorded in &self.reserves {
            text(into, before, recorded.limit.as_bytes());
            number(into, b":", recorded.reserve.get().into());
            before = b",\"";
        }
        if !self.reserves.is_empty() {
            into.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_decide::rejection::MissingReason;
    use sluicegate_limiter::{Cost, KeyHash};

    use super::*;
    use sluicegate_config::rules::{KeyPart, KeyTemplate};

    /// Goal: replay reads what is written here. Method: a hash, the reason for a missing key, a reserve, and a route
    /// without limits.
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
        let reserves = vec![RecordedReserve {
            limit: "tokens".into(),
            reserve: Cost::new(2_100).expect("a cost"),
        }];
        let mut line = b"{\"a\":1".to_vec();
        let facts = ReplayFacts {
            decided,
            keys,
            reserves,
        };
        facts.write(&mut line);
        let hashes = r#""key_hashes":{"path":"00000000000000ab","method, host":"other-type"}"#;
        let expected = format!(r#"{{"a":1,"decided_ns":7,{hashes},"reserves":{{"tokens":2100}}"#);
        assert_eq!(String::from_utf8(line).expect("text"), expected);
        let mut line = Vec::new();
        let facts = ReplayFacts {
            decided,
            keys: Vec::new(),
            reserves: Vec::new(),
        };
        facts.write(&mut line);
        assert_eq!(line, b",\"decided_ns\":7");
    }
}
