//! Owns fields in the bytes in which they were decoded: those of a request, or of its trailers.

use bytes::BytesMut;

use crate::hpack::{BEHIND_NAME, DecodedField, FieldPlaces, LINE_END};
use crate::violation::RuleViolation;

/// Fields as lines of HTTP/1.1, `name: value` with its line end, and the places of each name and value.
///
/// Pseudo-fields lie in the bytes in front of the lines, and have no places.
#[derive(Debug, Default)]
pub struct FieldLines {
    pub(crate) bytes: BytesMut,
    pub(crate) places: Vec<FieldPlaces>,
}

impl FieldLines {
    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns name and value of each field, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|places| {
            let name = self.bytes.get(places.name.clone());
            let value = self.bytes.get(places.value.clone());
            (name.unwrap_or_default(), value.unwrap_or_default())
        })
    }

    /// Adds a field behind the others. The name is in lower case, and the value has no line end.
    pub fn append(&mut self, name: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        for part in [name, BEHIND_NAME, value, LINE_END] {
            self.bytes.extend_from_slice(part);
        }
        let value_start = start + name.len() + BEHIND_NAME.len();
        self.places.push(FieldPlaces {
            name: start..start + name.len(),
            value: value_start..value_start + value.len(),
        });
    }

    /// Removes the fields of this name. Their bytes remain.
    pub fn remove(&mut self, name: &[u8]) {
        let bytes = &self.bytes;
        let is_other = |places: &FieldPlaces| bytes.get(places.name.clone()) != Some(name);
        self.places.retain(is_other);
    }

    /// Returns the bytes and the places of each field.
    #[must_use]
    pub fn into_parts(self) -> (BytesMut, Vec<FieldPlaces>) {
        (self.bytes, self.places)
    }
}

/// Gathers the fields of trailers, RFC 9113 §8.1.
#[derive(Debug, Default)]
pub struct TrailerBuilder {
    places: Vec<FieldPlaces>,
    violation: Option<RuleViolation>,
}

impl TrailerBuilder {
    /// Adds a field that was decoded.
    pub fn add(&mut self, bytes: &BytesMut, field: DecodedField) {
        // RFC 9113 §8.3: pseudo-fields are not in trailers.
        let is_pseudo = bytes.get(field.places.name.start) == Some(&b':');
        let pseudo = is_pseudo.then_some(RuleViolation::PseudoField);
        match field.violation.or(pseudo) {
            None => self.places.push(field.places),
            violation => self.violation = self.violation.or(violation),
        }
    }

    /// Returns the fields, which lie in these bytes.
    ///
    /// # Errors
    /// A field breaks a rule.
    pub fn finish(self, bytes: BytesMut) -> Result<FieldLines, RuleViolation> {
        let places = self.places;
        self.violation.map_or(Ok(FieldLines { bytes, places }), Err)
    }
}
