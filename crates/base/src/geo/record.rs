//! Reads a record of a database: the few members that say country, city and ASN, in the shapes that publishers use.
//!
//! MaxMind and DB-IP nest (`country.iso_code`, `city.names.en`, `autonomous_system_number`), IPinfo and IPLocate are flat (`country_code`,
//! `city`, `asn = "AS15169"`). A member of another type or an impossible value is no value; it does not spoil the others.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::place::{CountryCode, GeoField, GeoPlace};

/// Longest name of a city that counts, in bytes: the longest of GeoNames has 163. A longer one is no name.
const CITY_NAME: usize = 256;
/// Longest code of a subdivision: ISO 3166-2 has three characters behind the hyphen.
const SUBDIVISION: usize = 8;

/// The members of a record that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeoRecord<'d> {
    #[serde(borrow)]
    country: RecordMember<'d>,
    #[serde(borrow)]
    country_code: RecordMember<'d>,
    #[serde(borrow)]
    city: RecordMember<'d>,
    #[serde(borrow)]
    subdivisions: RecordMember<'d>,
    #[serde(borrow)]
    autonomous_system_number: RecordMember<'d>,
    #[serde(borrow)]
    asn: RecordMember<'d>,
}

/// One member, of whichever type; of a list its first element.
#[derive(Debug, Default, PartialEq, Eq)]
struct RecordMember<'d> {
    text: Option<&'d str>,
    number: Option<u64>,
    iso_code: Option<&'d str>,
    english: Option<&'d str>,
    geoname_id: Option<u64>,
}

impl<'d> GeoRecord<'d> {
    /// Returns what the record says of `fields`.
    pub(super) fn place(&self, fields: &[GeoField]) -> GeoPlace {
        let mut place = GeoPlace::default();
        for field in fields {
            match field {
                GeoField::Country => place.country = self.country(),
                GeoField::City => place.city = self.city().map(Into::into),
                GeoField::Asn => place.asn = self.asn(),
            }
        }
        place
    }

    fn country(&self) -> Option<CountryCode> {
        let codes = [
            self.country.iso_code,
            self.country_code.text,
            self.country.text,
        ];
        codes.into_iter().flatten().find_map(CountryCode::new)
    }

    fn asn(&self) -> Option<u32> {
        let number = self.autonomous_system_number.number.or(self.asn.number);
        let number = number.or_else(|| {
            let digits = self.asn.text?;
            digits.strip_prefix("AS").unwrap_or(digits).parse().ok()
        });
        // RFC 7607: AS 0 is no network's.
        let number = u32::try_from(number?).ok();
        number.filter(|number| *number != 0)
    }

    /// Returns `DE-BE/Berlin`: the code of the subdivision as far as the record has it, and the identifier of GeoNames where it has no
    /// English name.
    fn city(&self) -> Option<String> {
        let is_name =
            |name: &&str| (1..=CITY_NAME).contains(&name.len()) && !name.contains(char::is_control);
        let english = self.city.english.or(self.city.text).filter(is_name);
        let identifier = || self.city.geoname_id.map(|id| id.to_string());
        let name = english.map(str::to_owned).or_else(identifier)?;
        let is_code = |code: &&str| {
            (1..=SUBDIVISION).contains(&code.len())
                && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let subdivision = self.subdivisions.iso_code.filter(is_code);
        Some(match (self.country(), subdivision) {
            (Some(country), Some(subdivision)) => format!("{country}-{subdivision}/{name}"),
            (Some(country), None) => format!("{country}/{name}"),
            (None, _) => format!("/{name}"),
        })
    }
}

impl<'de: 'd, 'd> Deserialize<'de> for RecordMember<'d> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberVisitor)
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = RecordMember<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a geographic database")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(RecordMember {
            text: Some(text),
            ..RecordMember::default()
        })
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(RecordMember {
            number: Some(number),
            ..RecordMember::default()
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut member = RecordMember::default();
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "iso_code" => member.iso_code = map.next_value::<RecordMember<'de>>()?.text,
                "geoname_id" => member.geoname_id = map.next_value::<RecordMember<'de>>()?.number,
                // The member `names` of a city, and the member `en` of `names`.
                "names" => member.english = map.next_value::<RecordMember<'de>>()?.english,
                "en" => member.english = map.next_value::<RecordMember<'de>>()?.text,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(member)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let first = list.next_element()?.unwrap_or_default();
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(RecordMember::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(RecordMember::default())
    }

    fn visit_u128<E>(self, _: u128) -> Result<Self::Value, E> {
        Ok(RecordMember::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(RecordMember::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(RecordMember::default())
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Self::Value, E> {
        Ok(RecordMember::default())
    }
}
