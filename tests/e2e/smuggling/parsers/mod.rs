//! The parsers of other servers: llhttp, which Node runs, and hyper. Where both the gateway and one of them take a message, it is the same.
//!
//! Messages are generated, most with some bytes changed, and several share a connection. What a parser rejects harms nobody, so the
//! gateway may reject more than the others, and they more than the gateway.

mod codec;
mod hyper_server;
mod llhttp;
mod messages;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use hyper_server::read_by_hyper;
use llhttp::{Sent, read_by_llhttp};

/// Connections of one test.
const CASES: usize = 4000;

/// A message as a parser read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMessage {
    /// The method and the target, or the status.
    pub start: String,
    /// The fields, sorted by their names in lower case. Values have a character a byte.
    pub fields: Vec<(String, String)>,
    pub data: Vec<u8>,
}

/// The reason why a parser read no further message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// Nothing is left.
    Over,
    /// It waits for more bytes.
    Partial,
    /// It rejects what follows, or reads nothing behind a message that ends the connection.
    Closed,
}

/// The messages of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub messages: Vec<ReadMessage>,
    pub end: ReadEnd,
}

impl ReadMessage {
    fn new(start: String, mut fields: Vec<(String, String)>, data: Vec<u8>) -> Self {
        for (name, _) in &mut fields {
            name.make_ascii_lowercase();
        }
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        Self {
            start,
            fields,
            data,
        }
    }
}

impl Reading {
    /// Returns the difference of two readings of the same bytes; `None` where both are of the same messages, as far as both go.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let both = self.messages.len().min(other.messages.len());
        let is_same = self.messages[..both] == other.messages[..both];
        // The one that reads fewer messages must not wait for bytes that the other has taken for the next message.
        let is_settled =
            |fewer: &Self| fewer.messages.len() == both && fewer.end == ReadEnd::Closed;
        let is_equal = self.messages.len() == other.messages.len();
        let agrees = is_same && (is_equal || is_settled(self) || is_settled(other));
        (!agrees).then(|| format!("{self:?}\nand\n{other:?}"))
    }
}

/// Returns text with a character for each byte.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Returns messages of this kind: the same at each run, and others with each number in `PROPTEST_RNG_SEED`.
fn generated<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut config = Config::default();
    if let RngSeed::Random = config.rng_seed {
        config.rng_seed = RngSeed::Fixed(0);
    }
    let mut runner = TestRunner::new(config);
    let one = |_| strategy.new_tree(&mut runner).unwrap().current();
    (0..CASES).map(one).collect()
}

/// Returns whether a tab follows the name `chunked`. In a response llhttp takes it for a part of the name, so that the body lasts until the
/// connection ends; RFC 9110 §5.5 excludes it from the value.
fn has_tab_behind_coding(bytes: &[u8]) -> bool {
    let coding = b"chunked\t";
    (bytes.windows(coding.len())).any(|part| part.eq_ignore_ascii_case(coding))
}

/// Fails with the bytes of the cases on which two parsers differ.
fn assert_no_difference(differences: Vec<(Vec<u8>, String)>) {
    let count = differences.len();
    let shown = differences.into_iter().take(3);
    let shown: String = shown
        .map(|(bytes, difference)| format!("{}\n{difference}\n\n", bytes.escape_ascii()))
        .collect();
    assert!(shown.is_empty(), "{count} of {CASES} differ: {shown}");
}

/// Asserts that llhttp and hyper read the same requests, and all of them, in what an origin was sent on each connection.
pub async fn assert_clear(connections: &[Vec<u8>]) {
    let sent = connections
        .iter()
        .map(|bytes| Sent::requests(bytes, bytes.len().max(1)));
    let by_llhttp = read_by_llhttp(sent.collect());
    assert!(!by_llhttp.is_empty());
    for (bytes, by_llhttp) in connections.iter().zip(by_llhttp) {
        let ours = codec::requests(bytes, bytes.len().max(1));
        // A client may have left within a body.
        assert_ne!(ours.end, ReadEnd::Closed, "{}", bytes.escape_ascii());
        for theirs in [by_llhttp, read_by_hyper(bytes).await] {
            assert_eq!(theirs.messages, ours.messages, "{}", bytes.escape_ascii());
        }
    }
}

#[tokio::test]
async fn requests_are_those_of_llhttp_and_hyper() {
    // Goal: no request that passes here is another one to Node or to hyper. Method: connections with one to three requests, some changed,
    // in reads of any size.
    let cases = generated(messages::requests());
    let sent = cases
        .iter()
        .map(|(bytes, step)| Sent::requests(bytes, *step));
    let by_llhttp = read_by_llhttp(sent.collect());
    let (mut differences, mut whole, mut cut) = (Vec::new(), 0, 0);
    for ((bytes, step), by_llhttp) in cases.iter().zip(by_llhttp) {
        let ours = codec::requests(bytes, *step);
        whole += ours.messages.len();
        cut += usize::from(ours.end == ReadEnd::Closed);
        let by_hyper = read_by_hyper(bytes).await;
        for theirs in [by_llhttp, by_hyper] {
            differences.extend(ours.difference(&theirs).map(|found| (bytes.clone(), found)));
        }
    }
    assert_no_difference(differences);
    // The messages are neither all valid nor all rejected.
    assert!(whole > CASES && cut > CASES / 10, "{whole} {cut}");
}

#[test]
fn responses_are_those_of_llhttp() {
    // Goal: no response that passes here is another one to Node's client. Method: responses to GET and HEAD, some changed, in reads of any
    // size, with bytes behind. The properties of the codec compare them with hyper.
    let cases = generated(messages::responses());
    let sent = cases
        .iter()
        .map(|(bytes, step, is_head)| Sent::response(bytes, *step, *is_head));
    let by_llhttp = read_by_llhttp(sent.collect());
    let (mut differences, mut whole) = (Vec::new(), 0);
    for ((bytes, step, is_head), theirs) in cases.iter().zip(by_llhttp) {
        let Some(ours) = codec::response(bytes, *step, *is_head) else {
            continue;
        };
        whole += 1;
        if has_tab_behind_coding(bytes) {
            continue;
        }
        differences.extend(ours.difference(&theirs).map(|found| (bytes.clone(), found)));
    }
    assert_no_difference(differences);
    assert!(whole > CASES / 4, "{whole}");
}
