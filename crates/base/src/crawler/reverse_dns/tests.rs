//! Tests of the names of addresses without DNS: each test is the task that looks them up.

use std::net::Ipv4Addr;

use super::*;
use crate::bounds::{CONFIRMED_LEAST, LOOK_UPS_WAITING, UNCONFIRMED_LEAST};

const NOW: u64 = 1_000_000;

fn served(domains: &[&str], previous: Option<&Arc<ReverseDns>>) -> Arc<ReverseDns> {
    let domains = domains.iter().map(|domain| HostDomain::new(domain));
    let dns = ReverseDns::new(domains, previous).unwrap();
    dns.serve();
    dns
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn confirmed() -> LookUpResult {
    LookUpResult::Confirmed {
        names: Arc::from(["crawl.googlebot.com".into()]),
        ttl: 0,
    }
}

const NO_NAME: LookUpResult = LookUpResult::Unconfirmed {
    fault: NamesFault::NoName,
    ttl: 0,
};

fn skipped(dns: &ReverseDns) -> [u64; 3] {
    let counts: Vec<u64> = dns.counts().skipped().map(|(_, count)| count).collect();
    counts.try_into().unwrap()
}

/// Goal: an address is looked up once, whoever asks how often, and its answer holds. Method: requests before, during and after the
/// look-up, by both spellings of an IPv4 address.
#[test]
fn an_address_is_looked_up_once() {
    let dns = served(&["googlebot.com"], None);
    let client = address("192.0.2.1");
    for text in ["192.0.2.1", "::ffff:192.0.2.1"] {
        let found = dns.names(address(text), NOW);
        assert_eq!(found, Err(ReverseDnsFault::Pending));
    }
    let look_up = dns.take().unwrap();
    assert_eq!(look_up.address(), client);
    assert!(look_up.takes("crawl.googlebot.com") && !look_up.takes("evilgooglebot.com"));
    assert!(dns.take().is_none());
    assert_eq!(dns.names(client, NOW), Err(ReverseDnsFault::Pending));
    look_up.finish(&confirmed(), NOW);
    assert!(dns.names(client, NOW).is_ok());
    assert!(dns.take().is_none());
    // It is confirmed while it is refreshed.
    assert!(dns.names(client, NOW + CONFIRMED_LEAST).is_ok());
    assert_eq!((dns.waiting(), dns.counts().in_flight()), ((1, 0), 0));
    dns.take().unwrap().finish(&NO_NAME, NOW + CONFIRMED_LEAST);
    let no_name = ReverseDnsFault::Names(NamesFault::NoName);
    assert_eq!(dns.names(client, NOW + CONFIRMED_LEAST), Err(no_name));
    assert!(dns.take().is_none());
}

/// Goal: a process without the task that looks names up queues nothing. Method: requests before it serves.
#[test]
fn nothing_is_queued_for_nobody() {
    let domains = [HostDomain::new("googlebot.com")];
    let dns = ReverseDns::new(domains, None).unwrap();
    let found = dns.names(address("192.0.2.1"), NOW);
    assert_eq!(found, Err(ReverseDnsFault::NotLookedUp));
    assert!(dns.take().is_none());
    assert!(ReverseDns::new([], None).is_none());
}

/// Goal: a look-up that is given up lets its network have another one. Method: one that is dropped, and its neighbor.
#[test]
fn a_dropped_look_up_frees_its_network() {
    let dns = served(&["googlebot.com"], None);
    let _ = dns.names(address("192.0.2.1"), NOW);
    assert_eq!((dns.waiting(), dns.counts().in_flight()), ((0, 1), 0));
    let look_up = dns.take().unwrap();
    assert_eq!((dns.waiting(), dns.counts().in_flight()), ((0, 0), 1));
    let neighbor = address("192.0.2.2");
    let found = dns.names(neighbor, NOW);
    assert_eq!(found, Err(ReverseDnsFault::Throttled));
    drop(look_up);
    assert_eq!(dns.counts().in_flight(), 0);
    let found = dns.names(neighbor, NOW);
    assert_eq!(found, Err(ReverseDnsFault::Pending));
    assert_eq!(skipped(&dns), [1, 0, 0]);
}

/// Goal: a network whose addresses have no names costs a few look-ups in a minute, a crowd of networks fills the queue and no more.
/// Method: all addresses of a network one after the other, in that minute and the next one; then networks beyond the queue.
#[test]
fn liars_cost_a_bounded_number_of_look_ups() {
    let dns = served(&["googlebot.com"], None);
    let look_ups = |now| {
        let of_network = (0..=255).map(|host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)));
        let looked_up = of_network.filter(|client| {
            let _ = dns.names(*client, now);
            dns.take()
                .map(|look_up| look_up.finish(&NO_NAME, now))
                .is_some()
        });
        looked_up.count() as u64
    };
    assert_eq!(look_ups(NOW), LOOK_UP_FAILURES);
    assert_eq!(look_ups(NOW), 0);
    let later = NOW + UNCONFIRMED_LEAST;
    assert_eq!(look_ups(later), LOOK_UP_FAILURES);
    for network in 0..1000 {
        let _ = dns.names(IpAddr::V4(Ipv4Addr::from_bits(network << 8)), later);
    }
    assert_eq!(dns.waiting(), (0, LOOK_UPS_WAITING));
    let waiting = std::iter::from_fn(|| dns.take()).count();
    assert_eq!(waiting, LOOK_UPS_WAITING);
    assert_eq!(skipped(&dns)[1], 1000 - LOOK_UPS_WAITING as u64);
}

/// Goal: a reload keeps all answers where the domains are the same, and else those that hold for the new ones. Method: a confirmed address
/// and one without a name, under the same domains in another order, more, and others.
#[test]
fn answers_survive_a_reload() {
    let dns = served(&["googlebot.com", "google.com"], None);
    for (text, result) in [("192.0.2.1", confirmed()), ("198.51.100.1", NO_NAME)] {
        let _ = dns.names(address(text), NOW);
        dns.take().unwrap().finish(&result, NOW);
    }
    assert_eq!(dns.cached(), (1, 1));
    let same = served(&["google.com", "googlebot.com"], Some(&dns));
    assert!(Arc::ptr_eq(&same, &dns));
    let _ = dns.names(address("203.0.113.1"), NOW);
    let look_up = dns.take().unwrap();
    let more = served(&["googlebot.com", "search.msn.com"], Some(&dns));
    assert_eq!(more.cached(), (1, 0));
    // A look-up for the domains before is still in flight.
    assert_eq!(more.counts().in_flight(), 1);
    drop(look_up);
    assert_eq!(more.counts().in_flight(), 0);
    assert!(more.names(address("192.0.2.1"), NOW).is_ok());
    let results: Vec<u64> = more.counts().results().map(|(_, count)| count).collect();
    assert_eq!(results, [1, 1, 0, 0, 0]);
    let others = served(&["search.msn.com"], Some(&dns));
    assert_eq!(others.cached(), (0, 0));
}
