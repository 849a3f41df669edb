//! Fuzzes who a proxy says its client is: a header of the PROXY protocol ends where it ends, and names whom its bytes name.
//!
//! Where a header ends decides what is taken for the first request; whom it names, whose limits hold. So the listener is asked again with
//! more and with fewer bytes, and the address is read once more, the obvious way.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use sluicegate_edge::fuzzing::{Announcement, announcement};

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fuzz_target!(|read: &[u8]| {
    let found = announcement(read);
    if let Announcement::Whole { header, client } = found {
        assert_eq!(
            announcement(&read[..header]),
            found,
            "what follows changes it"
        );
        for end in 0..header {
            let shorter = announcement(&read[..end]);
            assert_eq!(shorter, Announcement::Partial, "{end} of {header} bytes");
        }
        let named = if read.starts_with(V2) {
            of_bytes(&read[..header])
        } else {
            of_line(&read[..header])
        };
        assert_eq!(client, named);
    } else if found == Announcement::Partial {
        // Nobody is waited for beyond the longest header that there may be.
        assert!(read.len() < 16 + 65_536);
        assert!(
            V2.starts_with(read)
                || read.starts_with(V2)
                || b"PROXY ".starts_with(read)
                || read.starts_with(b"PROXY ")
        );
    }
});

/// `PROXY TCP4 192.0.2.7 10.0.0.1 12345 443`
fn of_line(line: &[u8]) -> Option<SocketAddr> {
    let line = std::str::from_utf8(line).expect("a header in ASCII");
    let words: Vec<&str> = line.trim_end_matches("\r\n").split(' ').collect();
    let address: IpAddr = match words[1] {
        "TCP4" => IpAddr::V4(words[2].parse().expect("an address of IPv4")),
        "TCP6" => IpAddr::V6(words[2].parse().expect("an address of IPv6")),
        other => {
            assert_eq!(other, "UNKNOWN");
            return None;
        }
    };
    assert_eq!(words.len(), 6, "{line:?}");
    Some(SocketAddr::new(address, words[4].parse().expect("a port")))
}

/// Version 2, §2.2: the addresses stand behind 16 bytes, the source first.
fn of_bytes(header: &[u8]) -> Option<SocketAddr> {
    let (command, family) = (header[12], header[13]);
    if command == 0x20 {
        return None;
    }
    assert_eq!(command, 0x21);
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    match family {
        0x11 => {
            let address: [u8; 4] = header[16..20].try_into().expect("4 bytes");
            Some(SocketAddr::new(Ipv4Addr::from(address).into(), port(24)))
        }
        0x21 => {
            let address: [u8; 16] = header[16..32].try_into().expect("16 bytes");
            Some(SocketAddr::new(Ipv6Addr::from(address).into(), port(48)))
        }
        _ => None,
    }
}
