//! Writes the members of a JSON object as attributes, while it reads them: no tree of values is built.
//!
//! A line of a log is such an object. So its fields stand in one place, the code that writes the line, and attributes cannot differ from
//! them.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::attributes::AttributeWriter;
use super::wire::{FieldNumber, bytes, concatenated, fixed64, message, tagged};

/// `AnyValue.string_value`
const STRING: FieldNumber = 1;
/// `AnyValue.bool_value`
const BOOLEAN: FieldNumber = 2;
/// `AnyValue.int_value`
const INTEGER: FieldNumber = 3;
/// `AnyValue.double_value`
const DOUBLE: FieldNumber = 4;
/// `AnyValue.array_value`
const ARRAY: FieldNumber = 5;
/// `AnyValue.kvlist_value`
const MEMBERS: FieldNumber = 6;

impl AttributeWriter<'_> {
    /// Adds the members of the JSON `object`, whose names have no escapes. `name_of` returns the two parts of the name of a member's
    /// attribute, or `None` where the member has none.
    ///
    /// # Errors
    /// The text is no such object; members before the error are written.
    pub fn json_members(
        &mut self,
        object: &[u8],
        name_of: impl Fn(&str) -> Option<[&str; 2]>,
    ) -> Result<(), serde_json::Error> {
        let members = ObjectMembers {
            attributes: self,
            name_of,
        };
        serde_json::Deserializer::from_slice(object).deserialize_map(members)
    }
}

/// Writes each member of an object as an attribute.
struct ObjectMembers<'w, 'a, N> {
    attributes: &'w mut AttributeWriter<'a>,
    name_of: N,
}

impl<'de, N: Fn(&str) -> Option<[&str; 2]>> Visitor<'de> for ObjectMembers<'_, '_, N> {
    type Value = ();

    fn expecting(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<(), M::Error> {
        while let Some(name) = members.next_key::<&'de str>()? {
            match (self.name_of)(name) {
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
                Some(parts) => self.attributes.attribute(|into| {
                    concatenated(into, 1, parts);
                    message(into, 2, |into| members.next_value_seed(AnyValue(into)))
                })?,
            }
        }
        Ok(())
    }
}

/// Writes a JSON value as an `AnyValue`.
struct AnyValue<'b>(&'b mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = ();

    fn expecting(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        bytes(self.0, STRING, text.as_bytes());
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        tagged(self.0, BOOLEAN, value.into());
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        // `int_value` is signed; no number of a log exceeds its range.
        tagged(self.0, INTEGER, number);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        tagged(self.0, INTEGER, number.cast_unsigned());
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        fixed64(self.0, DOUBLE, number.to_bits());
        Ok(())
    }

    /// An `AnyValue` without a field is null.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<(), S::Error> {
        message(self.0, ARRAY, |into| {
            while elements.next_element_seed(FieldOf(into, 1))?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<(), M::Error> {
        message(self.0, MEMBERS, |into| {
            while let Some(name) = members.next_key::<String>()? {
                message(into, 1, |into| {
                    bytes(into, 1, name.as_bytes());
                    members.next_value_seed(FieldOf(into, 2))
                })?;
            }
            Ok(())
        })
    }
}

/// Writes a JSON value as a field whose type is `AnyValue`. An element that is missing leaves nothing behind.
struct FieldOf<'b>(&'b mut Vec<u8>, FieldNumber);

impl<'de> DeserializeSeed<'de> for FieldOf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        message(self.0, self.1, |into| AnyValue(into).deserialize(value))
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue as Received, KeyValue};
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ScopeLogs};
    use proptest::prelude::*;
    use prost::Message;
    use serde_json::json;

    use super::super::log::{LogHead, LogTrace, write_log};

    fn own_name(name: &str) -> Option<[&str; 2]> {
        (name != "time").then_some(["own.", name])
    }

    /// Returns the record that a collector gets of a line, as OpenTelemetry's own types read it.
    fn received(line: &str) -> LogRecord {
        let head = LogHead {
            time_unix_nanos: 5,
            observed_unix_nanos: 6,
            trace: Some(LogTrace {
                trace_id: 7,
                span_id: 8,
                flags: 1,
            }),
        };
        let mut into = Vec::new();
        write_log(&mut into, &head, line.as_bytes(), |attributes| {
            let _ = attributes.json_members(line.as_bytes(), own_name);
        });
        let mut scope = ScopeLogs::decode(&*into).expect("these are records");
        assert_eq!(scope.log_records.len(), 1);
        scope.log_records.remove(0)
    }

    /// Returns a value as JSON.
    fn json_of(value: Option<Received>) -> serde_json::Value {
        match value.and_then(|value| value.value) {
            None => serde_json::Value::Null,
            Some(Value::StringValue(text)) => text.into(),
            Some(Value::BoolValue(value)) => value.into(),
            Some(Value::IntValue(number)) => number.into(),
            Some(Value::DoubleValue(number)) => number.into(),
            Some(Value::ArrayValue(array)) => array
                .values
                .into_iter()
                .map(|value| json_of(Some(value)))
                .collect(),
            Some(Value::KvlistValue(members)) => object_of(members.values),
            Some(other) => panic!("{other:?}"),
        }
    }

    fn object_of(members: Vec<KeyValue>) -> serde_json::Value {
        let members = members.into_iter();
        members
            .map(|member| (member.key, json_of(member.value)))
            .collect()
    }

    /// Goal: a record has the line, its times and trace, and its fields with their types. Method: a line with each type of value, decoded
    /// by OpenTelemetry's own types.
    #[test]
    fn a_record_has_the_fields_of_its_line() {
        let fields = json!({
            "time": "now", "text": "a\"\u{fc}\\", "zero": 0, "many": u64::from(u32::MAX), "below": -3, "part": 0.125,
            "yes": true, "none": null, "list": ["a", 1, []], "table": {"x \"y\"": {"z": false}, "n": 1}
        });
        let line = fields.to_string();
        let record = received(&line);
        assert_eq!(record.time_unix_nano, 5);
        assert_eq!(record.observed_time_unix_nano, 6);
        assert_eq!(record.severity_number, 9);
        assert_eq!(record.severity_text, "INFO");
        assert_eq!(record.trace_id, 7_u128.to_be_bytes());
        assert_eq!(record.span_id, 8_u64.to_be_bytes());
        assert_eq!(record.flags, 1);
        assert_eq!(json_of(record.body), line);
        let members = fields.as_object().expect("an object").iter();
        let expected: serde_json::Value = members
            .filter(|(name, _)| *name != "time")
            .map(|(name, value)| (format!("own.{name}"), value.clone()))
            .collect();
        assert_eq!(object_of(record.attributes), expected);
    }

    proptest! {
        /// Goal: whatever a line is, its record can be read. Method: any text, also near JSON.
        #[test]
        fn any_line_makes_a_whole_record(line in "(\\PC{0,60}|\\{\"[a-z]{1,3}\":[\\[\\]{}0-9a-z\",:]{0,40}\\}?)") {
            let record = received(&line);
            prop_assert_eq!(json_of(record.body), line);
        }
    }
}
