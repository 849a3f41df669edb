//! Tests of messages, whose answers are written by the library that the module reads them with; also the answers of other modules' tests.

use domain::base::{Ttl, iana::Class};
use domain::rdata::Cname;
use proptest::prelude::*;

use super::*;

type TestName = Name<Vec<u8>>;

/// A record of a test's answer: owner, seconds to live, value.
pub(in super::super) enum TestRecord<'a> {
    Ptr(&'a str, u32, &'a str),
    Cname(&'a str, u32, &'a str),
    Address(&'a str, u32, IpAddr),
    /// Zone, seconds to live, minimum.
    Soa(&'a str, u32, u32),
}

fn name(text: &str) -> TestName {
    text.parse().unwrap()
}

/// The answer to `question` with these records and this code.
pub(in super::super) fn answer(
    question: &DnsQuestion,
    rcode: Rcode,
    records: &[TestRecord<'_>],
) -> DnsAnswer {
    let builder = MessageBuilder::new_vec();
    let mut answers = builder.start_answer(&question.message, rcode).unwrap();
    for record in records {
        match record {
            TestRecord::Ptr(owner, ttl, value) => {
                let value = Ptr::new(name(value));
                let record = (name(owner), Class::IN, Ttl::from_secs(*ttl), value);
                answers.push(record).unwrap();
            }
            TestRecord::Cname(owner, ttl, value) => {
                let value = Cname::new(name(value));
                let record = (name(owner), Class::IN, Ttl::from_secs(*ttl), value);
                answers.push(record).unwrap();
            }
            TestRecord::Address(owner, ttl, IpAddr::V4(value)) => {
                let record = (name(owner), Class::IN, Ttl::from_secs(*ttl), A::new(*value));
                answers.push(record).unwrap();
            }
            TestRecord::Address(owner, ttl, IpAddr::V6(value)) => {
                let value = Aaaa::new(*value);
                let record = (name(owner), Class::IN, Ttl::from_secs(*ttl), value);
                answers.push(record).unwrap();
            }
            TestRecord::Soa(..) => {}
        }
    }
    let mut authority = answers.authority();
    for record in records {
        if let TestRecord::Soa(owner, ttl, minimum) = record {
            let second = Ttl::from_secs(1);
            let value = Soa::new(
                name("ns.test"),
                name("admin.test"),
                1.into(),
                second,
                second,
                second,
                Ttl::from_secs(*minimum),
            );
            let record = (name(owner), Class::IN, Ttl::from_secs(*ttl), value);
            authority.push(record).unwrap();
        }
    }
    let bytes = authority.finish();
    question.answer(&bytes).unwrap()
}

const REVERSE: &str = "1.2.0.192.in-addr.arpa";

fn question() -> DnsQuestion {
    DnsQuestion::for_names("192.0.2.1".parse().unwrap()).unwrap()
}

fn names(records: &[TestRecord<'_>]) -> FoundRecords<String> {
    answer(&question(), Rcode::NOERROR, records)
        .names()
        .unwrap()
}

/// Goal: only the names of the asked address count, in one form, for the shortest time of all records. Method: names of odd case, of
/// another address, behind an alias as in RFC 2317.
#[test]
fn names_are_those_of_the_address() {
    let found = names(&[
        TestRecord::Ptr(REVERSE, 300, "Crawl-1.GoogleBot.com."),
        TestRecord::Ptr("2.2.0.192.in-addr.arpa", 1, "other.googlebot.com"),
        TestRecord::Ptr(REVERSE, 200, "b.test"),
    ]);
    assert_eq!(found.values, ["crawl-1.googlebot.com", "b.test"]);
    assert_eq!((found.records, found.ttl), (2, 1));
    let alias = "1.0-25.2.0.192.in-addr.arpa";
    let found = names(&[
        TestRecord::Cname(REVERSE, 60, alias),
        TestRecord::Ptr(alias, 300, "crawl.googlebot.com"),
    ]);
    assert_eq!((&*found.values[0], found.ttl), ("crawl.googlebot.com", 60));
}

/// Goal: no bytes of a label become another name, or a dot. Method: labels with dots, spaces, zero bytes and bytes beyond ASCII.
#[test]
fn odd_bytes_are_no_name() {
    for odd in [&b"x.googlebot"[..], b"a b", b"a\0", b"\xff", b"*", b"a\\"] {
        let mut builder = domain::base::name::NameBuilder::new_vec();
        builder.append_label(odd).unwrap();
        builder.append_label(b"com").unwrap();
        let name: TestName = builder.into_name().unwrap();
        assert_eq!(host_name(&name), None, "{odd:?}");
    }
    assert_eq!(host_name(&name("A_b.C")), Some("a_b.c".to_owned()));
    assert_eq!(host_name(&name(".")), None);
}

/// Goal: aliases that form a circle are an error, and no loop. Method: a circle of two.
#[test]
fn a_circle_of_aliases_ends() {
    let circle = [
        TestRecord::Cname(REVERSE, 60, "b.test"),
        TestRecord::Cname("b.test", 60, REVERSE),
    ];
    let found = answer(&question(), Rcode::NOERROR, &circle).names();
    assert!(found.is_err());
}

/// Goal: how long there is no name is what RFC 2308 says. Method: an answer with a zone, and one without.
#[test]
fn an_absence_holds_as_long_as_its_zone_says() {
    for (records, ttl) in [
        (&[TestRecord::Soa("in-addr.arpa", 900, 60)][..], 60),
        (&[TestRecord::Soa("in-addr.arpa", 30, 60)], 30),
        (&[], 0),
    ] {
        let none = answer(&question(), Rcode::NXDOMAIN, records);
        let found = none.settled().unwrap().names().unwrap();
        assert_eq!((found.records, found.ttl), (0, ttl));
    }
    let failed = answer(&question(), Rcode::SERVFAIL, &[]).settled();
    assert!(failed.is_err());
}

/// Goal: a name has a bounded number of addresses, of the name alone. Method: more of them, and those of another name.
#[test]
fn addresses_are_bounded() {
    let asked = "192.0.2.1".parse().unwrap();
    let question = DnsQuestion::for_addresses("a.test", asked).unwrap();
    let other = TestRecord::Address("b.test", 60, "192.0.2.99".parse().unwrap());
    let many = (0..100).map(|_| TestRecord::Address("a.test", 60, asked));
    let records: Vec<_> = std::iter::once(other).chain(many).collect();
    let found = answer(&question, Rcode::NOERROR, &records).addresses();
    let values = found.unwrap().values;
    assert_eq!(values.len(), LOOK_UP_ADDRESSES);
    assert!(values.iter().all(|address| *address == asked));
}

/// Goal: an answer with another number, or to another question, is none. Method: the answer to one question for another.
#[test]
fn only_the_answer_to_the_question_counts() {
    let other = DnsQuestion::for_names("192.0.2.2".parse().unwrap()).unwrap();
    let mut again = question();
    let first = answer(&again, Rcode::NOERROR, &[]);
    let bytes = first.message.as_slice().to_vec();
    assert!(again.answer(&bytes).is_some());
    assert!(other.answer(&bytes).is_none());
    while again.message.header().id() == first.message.header().id() {
        again.renew().unwrap();
    }
    assert!(again.answer(&bytes).is_none());
}

proptest! {
    /// Goal: no bytes of a server panic. Method: random bytes behind the head of an answer.
    #[test]
    fn any_bytes_are_an_answer_or_an_error(rest in proptest::collection::vec(any::<u8>(), 0..200), counts in any::<[u8; 4]>()) {
        let question = question();
        let mut bytes = question.bytes().to_vec();
        bytes[2] |= 0x80;
        bytes[6..10].copy_from_slice(&counts);
        bytes.extend(rest);
        if let Some(answer) = question.answer(&bytes) {
            let _ = (answer.names(), answer.addresses());
        }
    }
}
