//! Fuzzes databases of places: a file is refused with a reason, or every address has one answer whose values are possible.
//!
//! What a value says decides about keys, routes and lists, and is written to the log, so its shape is checked here once more. Addresses are
//! taken from the bytes of the file, among them those that its tree begins with, and each IPv4 address is asked for within IPv6 too.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use sluicegate_base::geo::{GeoDatabase, GeoError, GeoField, UNKNOWN};

/// Bytes of the file that are taken for addresses.
const ASKED: usize = 256;

fuzz_target!(|file: &[u8]| {
    let database = match GeoDatabase::parse(file.to_vec()) {
        Ok(database) => database,
        Err(error) => {
            let told = error.to_string();
            assert!(!told.contains(char::is_control), "{told:?}");
            assert!(told.len() < 400, "{told:?}");
            assert!(
                !matches!(error, GeoError::TooLarge { .. }),
                "a case is small"
            );
            return;
        }
    };
    assert!(database.is_of(file) && database.len() == file.len());
    assert!(!database.fields().is_empty(), "it says something");
    assert!(!database.kind().contains(char::is_control));
    assert_eq!(GeoDatabase::parse(file.to_vec()).as_ref(), Ok(&database));
    for bytes in file[..file.len().min(ASKED)].as_chunks::<4>().0 {
        let v4 = Ipv4Addr::from(*bytes);
        let mapped = IpAddr::V6(v4.to_ipv6_mapped());
        let place = answer(&database, v4.into());
        assert_eq!(place, answer(&database, mapped), "{v4}");
    }
    for bytes in file[..file.len().min(ASKED)].as_chunks::<16>().0 {
        answer(&database, Ipv6Addr::from(*bytes).into());
    }
});

/// Asks for an address, all fields at once and each by itself; the texts of its values.
fn answer(database: &GeoDatabase, address: IpAddr) -> [String; 3] {
    let place = database.find(address, &GeoField::ALL);
    GeoField::ALL.map(|field| {
        let text = place.text(field).into_owned();
        let alone = database.find(address, &[field]);
        assert_eq!(alone.text(field), text, "{field} of {address}");
        assert_eq!(place.has(field), text != UNKNOWN, "{text:?}");
        if place.has(field) {
            assert!(database.fields().contains(&field), "{field} of {address}");
            assert!(is_possible(field, &text), "{field}: {text:?}");
        }
        text
    })
}

fn is_possible(field: GeoField, text: &str) -> bool {
    match field {
        GeoField::Country => {
            let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
            text.len() == 2 && text.bytes().all(is_code)
        }
        GeoField::City => {
            let (codes, name) = text.split_once('/').expect("a slash");
            let is_code = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            codes.bytes().all(is_code) && !name.is_empty() && !name.contains(char::is_control)
        }
        GeoField::Asn => text.parse::<u32>().is_ok_and(|asn| asn > 0),
    }
}
