//! Tests chains as attackers and genuine hops write them.

use http::HeaderValue;
use proptest::prelude::*;
use sluicegate_base::bounds;
use sluicegate_base::received::ReceivedFields;

use super::*;

fn rules(trusted: &[&str], forwarded: ForwardedSource) -> ClientRules {
    ClientRules {
        signed_hosts: sluicegate_base::crawler::SignedHosts::default(),
        dns_servers: Vec::new(),
        request_id: None,
        lists: sluicegate_config::rules::ListUse::default(),
        trusted_proxies: trusted.iter().map(|net| net.parse().unwrap()).collect(),
        client_ip_header: forwarded,
        trusted_headers: Vec::new(),
    }
}

fn headers(name: &str, values: &[&str]) -> ReceivedFields {
    let mut headers = ReceivedFields::new();
    for value in values {
        headers.append(
            HeaderName::try_from(name).unwrap(),
            HeaderValue::try_from(*value).unwrap(),
        );
    }
    headers
}

fn from(address: &str, source: AddressSource) -> ClientAddress {
    ClientAddress {
        address: address.parse().unwrap(),
        source,
    }
}

fn xff(peer: &str, values: &[&str]) -> ClientAddress {
    let rules = rules(
        &["10.0.0.0/8", "2001:db8:ff::/48"],
        ForwardedSource::XForwardedFor,
    );
    identify(
        peer.parse().unwrap(),
        &headers("x-forwarded-for", values),
        &rules,
    )
}

fn single(values: &[&str]) -> ClientAddress {
    let rules = rules(
        &["10.0.0.0/8"],
        ForwardedSource::SingleValue(HeaderName::from_static("cf-connecting-ip")),
    );
    identify(
        "10.0.0.1".parse().unwrap(),
        &headers("cf-connecting-ip", values),
        &rules,
    )
}

#[test]
fn an_untrusted_peer_is_the_client_whatever_it_claims() {
    assert_eq!(
        xff("192.0.2.1", &["6.6.6.6"]),
        from("192.0.2.1", AddressSource::Connection)
    );
    assert_eq!(
        xff("192.0.2.1", &[]),
        from("192.0.2.1", AddressSource::Connection)
    );
    assert_eq!(
        xff("::ffff:192.0.2.1", &["6.6.6.6"]),
        from("192.0.2.1", AddressSource::Connection)
    );
}

#[test]
fn the_first_untrusted_hop_from_the_right_is_the_client() {
    assert_eq!(
        xff("10.0.0.1", &["6.6.6.6, 192.0.2.1"]),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    assert_eq!(
        xff("10.0.0.1", &["6.6.6.6, 192.0.2.1, 10.0.0.2"]),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    assert_eq!(
        xff("10.0.0.1", &["6.6.6.6", "192.0.2.1", "10.0.0.2"]),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    assert_eq!(
        xff("10.0.0.1", &["6.6.6.6, 192.0.2.1:80,10.0.0.2"]),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    assert_eq!(
        xff("2001:db8:ff::1", &["[2001:db8::9]:80"]),
        from("2001:db8::9", AddressSource::Forwarded)
    );
}

#[test]
fn a_chain_of_trusted_hops_leads_to_its_leftmost() {
    assert_eq!(
        xff("10.0.0.1", &["10.0.0.3, 10.0.0.2"]),
        from("10.0.0.3", AddressSource::Forwarded)
    );
}

#[test]
fn nothing_is_read_beyond_an_element_without_an_address() {
    for stop in [
        "unknown",
        "_hidden",
        "",
        " ",
        "1.2.3.4.5",
        "\"",
        "6.6.6.6 x",
    ] {
        assert_eq!(
            xff("10.0.0.1", &[&format!("6.6.6.6,{stop}")]),
            from("10.0.0.1", AddressSource::Connection),
            "{stop:?}"
        );
        assert_eq!(
            xff("10.0.0.1", &[&format!("6.6.6.6,{stop},10.0.0.2")]),
            from("10.0.0.2", AddressSource::Forwarded),
            "{stop:?}"
        );
    }
    assert_eq!(
        xff("10.0.0.1", &["6.6.6.6", "", "10.0.0.2"]),
        from("10.0.0.2", AddressSource::Forwarded)
    );
}

#[test]
fn mapped_addresses_are_the_same_hop_as_plain_ones() {
    assert_eq!(
        xff("::ffff:10.0.0.1", &["::ffff:192.0.2.1, ::ffff:10.0.0.2"]),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    let mapped = rules(&["::ffff:10.0.0.0/104"], ForwardedSource::XForwardedFor);
    let chain = headers("x-forwarded-for", &["192.0.2.1"]);
    assert_eq!(
        identify("10.9.9.9".parse().unwrap(), &chain, &mapped),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    assert_eq!(
        identify("11.9.9.9".parse().unwrap(), &chain, &mapped),
        from("11.9.9.9", AddressSource::Connection)
    );
}

#[test]
fn trusting_all_of_ipv6_trusts_no_ipv4() {
    let rules = rules(&["::/0"], ForwardedSource::XForwardedFor);
    let chain = headers("x-forwarded-for", &["6.6.6.6"]);
    assert_eq!(
        identify("192.0.2.1".parse().unwrap(), &chain, &rules),
        from("192.0.2.1", AddressSource::Connection)
    );
}

#[test]
fn a_forged_quote_cannot_hide_a_genuine_element() {
    // Goal: the attacker's part ends in an open quote; the trusted hop's element is still found. Method: RFC 7239 chains.
    let rules = rules(&["10.0.0.0/8"], ForwardedSource::Forwarded);
    for forged in [
        "for=\"6.6.6.6",
        "for=6.6.6.6;x=\"",
        "for=\"\\",
        "\"",
        "\\\"",
        "for=6.6.6.6",
    ] {
        for honest in [
            "for=192.0.2.1",
            "for=\"192.0.2.1:4711\";by=\"[2001:db8::1]\"",
            "proto=https;For=\"192.0.2.1\"",
        ] {
            let chain = headers("forwarded", &[&format!("{forged}, {honest}, for=10.0.0.2")]);
            let client = identify("10.0.0.1".parse().unwrap(), &chain, &rules);
            assert_eq!(
                client,
                from("192.0.2.1", AddressSource::Forwarded),
                "{forged} {honest}"
            );
        }
    }
}

#[test]
fn a_single_value_counts_only_when_it_is_single() {
    assert_eq!(
        single(&["192.0.2.1"]),
        from("192.0.2.1", AddressSource::Forwarded)
    );
    assert_eq!(
        single(&[" 2001:db8::1 "]),
        from("2001:db8::1", AddressSource::Forwarded)
    );
    for values in [
        &[][..],
        &["192.0.2.1", "192.0.2.1"],
        &["192.0.2.1, 192.0.2.2"],
        &["unknown"],
        &[""],
    ] {
        assert_eq!(
            single(values),
            from("10.0.0.1", AddressSource::Connection),
            "{values:?}"
        );
    }
}

#[test]
fn a_chain_beyond_the_bound_ends_at_the_last_hop_reached() {
    let chain = format!(
        "6.6.6.6,{}",
        vec!["10.0.0.2"; bounds::FORWARDED_ELEMENTS].join(",")
    );
    assert_eq!(
        xff("10.0.0.1", &[&chain]),
        from("10.0.0.2", AddressSource::Forwarded)
    );
}

/// Elements of both syntaxes: trusted, untrusted, malformed.
fn element() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("10.0.0.2"),
        Just("10.0.0.3:80"),
        Just("192.0.2.1"),
        Just("[2001:db8::1]:4"),
        Just("unknown"),
        Just(""),
        Just("for=10.0.0.2"),
        Just("For=\"10.0.0.3:80\";by=x"),
        Just("for=192.0.2.1"),
        Just("for=\"[2001:db8::1]\""),
        Just("for=_x"),
    ]
    .prop_map(str::to_owned)
}

fn source() -> impl Strategy<Value = (&'static str, ForwardedSource)> {
    prop_oneof![
        Just(("x-forwarded-for", ForwardedSource::XForwardedFor)),
        Just(("forwarded", ForwardedSource::Forwarded)),
    ]
}

proptest! {
    #[test]
    fn forging_left_of_the_first_untrusted_hop_changes_nothing(
        (name, forwarded) in source(),
        forged in "[ -~]{0,80}",
        hops in 0usize..4,
        own_field: bool,
    ) {
        let wrap = |address: &str| if name == "forwarded" { format!("for=\"{address}\"") } else { address.to_owned() };
        let mut honest = vec![wrap("192.0.2.1:99")];
        honest.extend((0..hops).map(|hop| wrap(&format!("10.0.0.{hop}"))));
        let honest = honest.join(", ");
        let rules = rules(&["10.0.0.0/8"], forwarded);
        let joined = format!("{forged},{honest}");
        let values = if own_field { vec![forged.as_str(), &honest] } else { vec![joined.as_str()] };
        let client = identify("10.0.0.9".parse().unwrap(), &headers(name, &values), &rules);
        prop_assert_eq!(client, from("192.0.2.1", AddressSource::Forwarded));
    }

    #[test]
    fn a_chain_in_many_fields_is_the_chain_in_one(
        (name, forwarded) in source(),
        elements in prop::collection::vec((element(), any::<bool>()), 1..8),
    ) {
        let rules = rules(&["10.0.0.0/8"], forwarded);
        let mut fields: Vec<String> = Vec::new();
        for (element, starts) in &elements {
            match fields.last_mut() {
                Some(field) if !starts => *field = format!("{field},{element}"),
                _ => fields.push(element.clone()),
            }
        }
        let one = elements.iter().map(|(element, _)| element.as_str()).collect::<Vec<_>>().join(",");
        let split: Vec<&str> = fields.iter().map(String::as_str).collect();
        let peer = "10.0.0.9".parse().unwrap();
        prop_assert_eq!(identify(peer, &headers(name, &split), &rules), identify(peer, &headers(name, &[&one]), &rules));
    }

    #[test]
    fn no_bytes_make_it_panic(
        (name, forwarded) in source(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        syntax in "[for=\"\\\\,;:\\[\\]0-9. ]{0,60}",
    ) {
        let rules = rules(&["0.0.0.0/0", "::/0"], forwarded);
        let mut headers = ReceivedFields::new();
        for bytes in [&bytes[..], syntax.as_bytes()] {
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        let _ = identify("10.0.0.9".parse().unwrap(), &headers, &rules);
    }
}

proptest! {
    /// Goal: a client that is told is found, and no trusted network changes that. Method: any address, in each field.
    #[test]
    fn a_told_client_is_found(bits in any::<u128>(), is_v4 in any::<bool>()) {
        let client = match is_v4 {
            true => IpAddr::from((bits as u32).to_be_bytes()),
            false => IpAddr::from(bits.to_be_bytes()).to_canonical(),
        };
        let own = HeaderName::from_static("x-client");
        for source in [
            ForwardedSource::XForwardedFor,
            ForwardedSource::Forwarded,
            ForwardedSource::SingleValue(own),
        ] {
            let rules = rules(&["127.0.0.0/8"], source);
            let fields = ReceivedFields::from_iter(client_field(client, &rules));
            let found = identify("127.0.0.1".parse().unwrap(), &fields, &rules);
            prop_assert_eq!(found.address, client);
            prop_assert_eq!(found.source, AddressSource::Forwarded);
        }
    }
}
