//! Owns the values that a database has for an address, and their one text each, which keys, conditions and logs share.
//!
//! An address without a value has the text [`UNKNOWN`], which no value can have: a country has two characters, an ASN digits only, a city a
//! slash.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The text of a value that no database has.
pub const UNKNOWN: &str = "unknown";

/// A field of a database's records that decides something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GeoField {
    /// `client.country`: the ISO 3166-1 code of the country.
    Country,
    /// `client.city`: the city, with the codes of its country and subdivision.
    City,
    /// `client.asn`: the number of the autonomous system, which is the network's operator.
    Asn,
}

/// A country by its two characters, in upper case: ISO 3166-1 alpha-2, or what a database of the operator's own has in its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountryCode([u8; 2]);

/// The values that databases have for one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeoPlace {
    /// The country.
    pub country: Option<CountryCode>,
    /// The number of the autonomous system.
    pub asn: Option<u32>,
    /// The city as `DE-BE/Berlin`: many cities share a name, so the codes of country and subdivision (ISO 3166-2) stand before it.
    pub city: Option<Arc<str>>,
}

impl GeoField {
    /// Every field.
    pub const ALL: [Self; 3] = [Self::Country, Self::City, Self::Asn];

    /// Returns the part of a key that counts by it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Country => "client.country",
            Self::City => "client.city",
            Self::Asn => "client.asn",
        }
    }

    /// Returns its name in labels of metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Country => "country",
            Self::City => "city",
            Self::Asn => "asn",
        }
    }
}

impl fmt::Display for GeoField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CountryCode {
    /// Returns the country with this code, in any case; `None` where the text is no code.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let code: [u8; 2] = text.as_bytes().try_into().ok()?;
        let is_code = code.iter().all(u8::is_ascii_alphanumeric);
        is_code.then(|| Self(code.map(|byte| byte.to_ascii_uppercase())))
    }

    /// Returns the code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for CountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for CountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl GeoPlace {
    /// Returns whether it has a value of `field`.
    #[must_use]
    pub fn has(&self, field: GeoField) -> bool {
        match field {
            GeoField::Country => self.country.is_some(),
            GeoField::City => self.city.is_some(),
            GeoField::Asn => self.asn.is_some(),
        }
    }

    /// Returns the text of a value: `DE`, `DE-BE/Berlin`, `64496`, or [`UNKNOWN`].
    #[must_use]
    pub fn text(&self, field: GeoField) -> Cow<'_, str> {
        match field {
            GeoField::Country => self.country.as_ref().map(|country| country.as_str().into()),
            GeoField::City => self.city.as_deref().map(Cow::Borrowed),
            GeoField::Asn => self.asn.map(|asn| asn.to_string().into()),
        }
        .unwrap_or(Cow::Borrowed(UNKNOWN))
    }
}
