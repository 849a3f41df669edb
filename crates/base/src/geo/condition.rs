//! Decides whether a place is among those that a route or a list names.

use std::fmt;
use std::sync::Arc;

use super::place::{CountryCode, GeoField, GeoPlace, UNKNOWN};

/// Places by country, city and ASN. In each of the three, `None` stands for an unknown value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlaceSet {
    /// Countries, in order.
    pub countries: Vec<Option<CountryCode>>,
    /// Cities, in order.
    pub cities: Vec<Option<Arc<str>>>,
    /// Autonomous systems, in order.
    pub asns: Vec<Option<u32>>,
}

/// The places that a route takes: those of each field that it names, without exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlaceCondition {
    /// The places that match; any in a field that names none.
    pub of: PlaceSet,
    /// The places that do not match.
    pub except: PlaceSet,
}

impl PlaceSet {
    /// Returns whether it names no value of `field`.
    #[must_use]
    pub fn is_empty_in(&self, field: GeoField) -> bool {
        match field {
            GeoField::Country => self.countries.is_empty(),
            GeoField::City => self.cities.is_empty(),
            GeoField::Asn => self.asns.is_empty(),
        }
    }

    /// Returns whether it names the value that `place` has in `field`.
    #[must_use]
    pub fn has(&self, field: GeoField, place: &GeoPlace) -> bool {
        match field {
            GeoField::Country => self.countries.binary_search(&place.country).is_ok(),
            GeoField::City => self.cities.binary_search(&place.city).is_ok(),
            GeoField::Asn => self.asns.binary_search(&place.asn).is_ok(),
        }
    }

    /// Returns the fields in which it names values.
    pub fn fields(&self) -> impl Iterator<Item = GeoField> {
        let named = |field: &GeoField| !self.is_empty_in(*field);
        GeoField::ALL.into_iter().filter(named)
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.countries.len() + self.cities.len() + self.asns.len()
    }

    /// Returns whether it names no place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the texts of its values in `field`.
    #[must_use]
    pub fn texts(&self, field: GeoField) -> Vec<String> {
        fn each<T: ToString>(values: &[Option<T>]) -> Vec<String> {
            let text = |value: &Option<T>| match value {
                Some(value) => value.to_string(),
                None => UNKNOWN.to_owned(),
            };
            values.iter().map(text).collect()
        }
        match field {
            GeoField::Country => each(&self.countries),
            GeoField::City => each(&self.cities),
            GeoField::Asn => each(&self.asns),
        }
    }
}

impl PlaceCondition {
    /// Returns whether every place meets it, whatever its values.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.of.is_empty() && self.except.is_empty()
    }

    /// Returns the fields that it reads.
    pub fn fields(&self) -> impl Iterator<Item = GeoField> {
        let named =
            |field: &GeoField| !self.of.is_empty_in(*field) || !self.except.is_empty_in(*field);
        GeoField::ALL.into_iter().filter(named)
    }

    /// Returns whether `place` meets it.
    #[must_use]
    pub fn takes(&self, place: &GeoPlace) -> bool {
        self.fields().all(|field| {
            (self.of.is_empty_in(field) || self.of.has(field, place))
                && !self.except.has(field, place)
        })
    }
}

impl fmt::Display for PlaceCondition {
    /// Writes `country=DE,AT asn=!64496`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.fields().enumerate() {
            let except = self.except.texts(field).into_iter();
            let mut values = self.of.texts(field);
            values.extend(except.map(|value| format!("!{value}")));
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{}={}", field.label(), values.join(","))?;
        }
        Ok(())
    }
}
