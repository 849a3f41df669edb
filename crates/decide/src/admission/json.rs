//! Finds the value of a JSON text to which a pointer leads.
//!
//! A value that an origin might read in another way is none: a member that an object has twice, of which some origins take the first and
//! others the last; one that differs from the key's in case only, which Go's decoder takes for it.
//!
//! # Limits
//! A text is parsed without recursion but along the pointer, which has at most 16 steps.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::rejection::MissingReason;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::facts::Value;

/// Returns the value to which the steps of a pointer lead.
pub(super) fn value_at<'a>(text: &[u8], steps: &[Arc<str>]) -> Result<Value<'a>, MissingReason> {
    // RFC 8259 §8.1. Decoders that replace or skip other bytes may skip a quote too.
    let text = std::str::from_utf8(text).map_err(|_| MissingReason::Malformed)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = Follow::from_top(steps)
        .deserialize(&mut deserializer)
        .and_then(|found| deserializer.end().map(|()| found))
        .map_err(|_| MissingReason::Malformed)?;
    match found {
        // C ends a text at its first NUL.
        Ok(value) if value.contains('\0') => Err(MissingReason::Malformed),
        found => found.map(|text| Cow::Owned(text.into_bytes())),
    }
}

/// Walks along the steps, and reads everything beside them without keeping it.
struct Follow<'p> {
    steps: &'p [Arc<str>],
    /// The steps that lead to the value in a body without the first member; empty where none do. `ParamsWrapper` of Rails puts
    /// `{"phone": …}` into a member with the name of the controller, `{"user": {"phone": …}}`, where there is none.
    unwrapped: &'p [Arc<str>],
}

/// A scalar's text. The outer error of a walk is that the text is no JSON.
type FieldResult = Result<String, MissingReason>;

/// A member of an object whose name is that of a step.
struct MemberMatch<'p> {
    /// The steps behind it.
    rest: &'p [Arc<str>],
    /// Unset where the name is another one, which some decoders take for the step.
    is_same: bool,
    /// Set where the step is the first of [`Follow::unwrapped`].
    is_unwrapped: bool,
}

impl<'p> Follow<'p> {
    fn from_top(steps: &'p [Arc<str>]) -> Self {
        let unwrapped = steps.get(1..).unwrap_or_default();
        Self { steps, unwrapped }
    }

    fn along(steps: &'p [Arc<str>]) -> Self {
        let unwrapped = &[];
        Self { steps, unwrapped }
    }

    fn scalar<E>(self, text: impl FnOnce() -> String) -> Result<FieldResult, E> {
        Ok(if self.steps.is_empty() {
            Ok(text())
        } else {
            Err(MissingReason::Absent)
        })
    }

    /// Returns what an object or a list is before its members are read.
    fn nothing_found(&self) -> FieldResult {
        Err(if self.steps.is_empty() {
            MissingReason::Malformed
        } else {
            MissingReason::Absent
        })
    }

    fn match_name(&self, name: &str) -> Option<MemberMatch<'p>> {
        let ways = [(self.steps, false), (self.unwrapped, true)];
        ways.into_iter().find_map(|(steps, is_unwrapped)| {
            let (step, rest) = steps.split_first()?;
            is_alike(name, step).then(|| MemberMatch {
                rest,
                is_same: name == &**step,
                is_unwrapped,
            })
        })
    }
}

/// Reads the name of a member without keeping it.
struct MemberName<'f, 'p>(&'f Follow<'p>);

impl<'de, 'p> DeserializeSeed<'de> for MemberName<'_, 'p> {
    type Value = Option<MemberMatch<'p>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for MemberName<'_, 'p> {
    type Value = Option<MemberMatch<'p>>;

    fn expecting(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if name.contains('\0') {
            // C ends the name there, and finds the member under its beginning.
            return Err(E::custom("a name with NUL"));
        }
        Ok(self.0.match_name(name))
    }
}

impl<'de> DeserializeSeed<'de> for Follow<'_> {
    type Value = FieldResult;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<FieldResult, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Follow<'_> {
    type Value = FieldResult;

    fn expecting(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FieldResult, E> {
        self.scalar(|| text.to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<FieldResult, E> {
        self.scalar(|| value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<FieldResult, E> {
        self.scalar(|| value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<FieldResult, E> {
        self.scalar(|| value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<FieldResult, E> {
        self.scalar(|| number(value))
    }

    fn visit_unit<E: Error>(self) -> Result<FieldResult, E> {
        Ok(Err(MissingReason::Absent))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<FieldResult, A::Error> {
        let mut found = self.nothing_found();
        let mut is_met = false;
        let mut is_wrapped = false;
        while let Some(member) = members.next_key_seed(MemberName(&self))? {
            let Some(member) = member else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let here = if member.is_same {
                members.next_value_seed(Follow::along(member.rest))?
            } else {
                members.next_value::<IgnoredAny>()?;
                Err(MissingReason::Repeated)
            };
            if member.is_unwrapped {
                is_wrapped |= here != Err(MissingReason::Absent);
            } else if is_met {
                found = Err(MissingReason::Repeated);
            } else {
                found = here;
                is_met = true;
            }
        }
        if is_wrapped && !is_met {
            found = Err(MissingReason::Repeated);
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<FieldResult, A::Error> {
        let mut found = self.nothing_found();
        if let Some((step, rest)) = self.steps.split_first()
            && let Some(index) = index(step)
        {
            let mut at = 0;
            while at < index && elements.next_element::<IgnoredAny>()?.is_some() {
                at += 1;
            }
            if let Some(here) = elements.next_element_seed(Follow::along(rest))? {
                found = here;
            }
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Parses an index, RFC 6901 §4: digits without a leading zero.
pub(super) fn index(step: &str) -> Option<usize> {
    let plain =
        step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    plain.then(|| step.parse().ok()).flatten()
}

/// Returns whether two names are equal but for case, as decoders that ignore case compare them (`ſ` and `K` have upper cases that fold to
/// ASCII), and for `_` and `-` between letters, as parsers for camelCase do.
fn is_alike(name: &str, step: &str) -> bool {
    fn folded(text: &str) -> impl Iterator<Item = char> {
        let letters = text.chars().filter(|letter| !matches!(letter, '_' | '-'));
        letters
            .flat_map(char::to_uppercase)
            .flat_map(char::to_lowercase)
    }
    let pairs = name.bytes().zip(step.bytes());
    let same = pairs.take_while(|(a, b)| a.is_ascii() && a.eq_ignore_ascii_case(b));
    let same = same.count();
    let name = &name[same..];
    let step = &step[same..];
    let is_letter = |text: &str| text.starts_with(|first: char| first.is_ascii_alphanumeric());
    if is_letter(name) && is_letter(step) {
        false
    } else if same == 0 && name.is_ascii() && step.is_ascii() {
        // `_id` is not `id`.
        name == step
    } else {
        folded(name).eq(folded(step))
    }
}

/// `1.0` and `1e0` are `1`.
pub(super) fn number(value: f64) -> String {
    // Adding zero makes -0 the same as 0.
    format!("{}", value + 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(steps: &[&str], text: &[u8]) -> Result<String, MissingReason> {
        let steps: Vec<Arc<str>> = steps.iter().map(|step| Arc::from(*step)).collect();
        let found = value_at(text, &steps)?;
        Ok(String::from_utf8(found.into_owned()).expect("JSON is UTF-8"))
    }

    /// Goal: no value is absent that Rails wraps into the member of the pointer. Method: bodies with and without that member.
    #[test]
    fn what_rails_wraps_is_not_absent() {
        for (text, found) in [
            (r#"{"phone": "1"}"#, MissingReason::Repeated),
            (r#"{"Phone": "1"}"#, MissingReason::Repeated),
            (r#"{"phone": {}}"#, MissingReason::Repeated),
            (r#"{"phone": null}"#, MissingReason::Absent),
            (r#"{"phone": "1", "user": {}}"#, MissingReason::Absent),
            (
                r#"{"user": {"name": "x"}, "phone": "1"}"#,
                MissingReason::Absent,
            ),
            (r#"{"x": {"phone": "1"}}"#, MissingReason::Absent),
            ("{}", MissingReason::Absent),
            (r#"[{"phone": "1"}]"#, MissingReason::Absent),
        ] {
            assert_eq!(
                at(&["user", "phone"], text.as_bytes()),
                Err(found),
                "{text}"
            );
        }
    }

    /// Goal: a pointer finds what RFC 6901 says, and spellings of one scalar are one. Method: values of every kind, near and nested.
    #[test]
    fn a_pointer_leads_to_a_scalar() {
        let text =
            br#" {"a":1,"b":{"":[true,{"c/d":"x\u0061"}],"e":-0.0},"f":1.0,"g":1e0,"h":"1"} "#;
        for (steps, value) in [
            (&["a"][..], "1"),
            (&["f"], "1"),
            (&["g"], "1"),
            (&["h"], "1"),
            (&["b", "e"], "0"),
            (&["b", "", "0"], "true"),
            (&["b", "", "1", "c/d"], "xa"),
        ] {
            assert_eq!(at(steps, text).as_deref(), Ok(value), "{steps:?}");
        }
        for steps in [
            &["x"][..],
            &["a", "x"],
            &["b", "", "2"],
            &["b", "", "01"],
            &["b", "", "-"],
        ] {
            assert_eq!(at(steps, text), Err(MissingReason::Absent), "{steps:?}");
        }
        assert_eq!(at(&["b"], text), Err(MissingReason::Malformed));
    }

    /// Goal: what decoders read in different ways is no value. Method: members that stand twice, at each depth, and that differ in case
    /// as Go folds it.
    #[test]
    fn a_member_that_stands_twice_is_no_value() {
        for text in [
            r#"{"k":1,"k":2}"#,
            r#"{"k":1,"k":1}"#,
            r#"{"k":1,"K":2}"#,
            r#"{"K":2}"#,
            "{\"\u{212a}\":2,\"k\":1}",
            r#"{"k":{},"k":1}"#,
        ] {
            assert_eq!(
                at(&["k"], text.as_bytes()),
                Err(MissingReason::Repeated),
                "{text}"
            );
        }
        let nested = br#"{"k":{"s":1},"x":{"s":2,"s":3}}"#;
        assert_eq!(at(&["k", "s"], nested).as_deref(), Ok("1"));
        assert_eq!(at(&["x", "s"], nested), Err(MissingReason::Repeated));
        assert_eq!(at(&["k", "\u{17f}"], nested), Err(MissingReason::Repeated));
    }

    /// Goal: JSON has one reading: UTF-8, one text, and nothing that a decoder drops, replaces or ends a text at. Method: each departure in
    /// the value, beside it, in a name and around the text.
    #[test]
    fn what_decoders_of_json_read_in_different_ways_is_malformed() {
        let texts: [&[u8]; 22] = [
            b"\xef\xbb\xbf{\"k\":1}",
            b"\xff\xfe{\0\"\0k\0\"\0:\x001\0}\0",
            b"{\0\"\0k\0\"\0:\x001\0}\0",
            b"{\"x\":\"\xff\",\"k\":1}",
            b"{\"x\":\"\xc2\",\"k\":1,\"y\":\"\"}",
            b"{\"x\":\"\xed\xa0\x80\",\"k\":1}",
            br#"{"k":"\ud800"}"#,
            br#"{"k\udc00":2,"k":1}"#,
            br#"{"k":"1\u0000"}"#,
            br#"{"k":"1\u00002"}"#,
            br#"{"k\u0000":2,"k":1}"#,
            br#"{"k\u0000x":2}"#,
            b"{\"k\":1}\0",
            b"{\"k\":1}{\"k\":2}",
            b"{\"k\":1} // x",
            b"{/* x */\"k\":1}",
            b"{\"k\":NaN}",
            b"{\"k\":1,}",
            b"{'k':1}",
            b"{k:1}",
            b"{\"k\":01}",
            b"{\"k\":1e400}",
        ];
        for text in texts {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(at(&["k"], text), Err(MissingReason::Malformed), "{shown}");
        }
        let deep = format!("{{\"x\":{}{},\"k\":1}}", "[".repeat(500), "]".repeat(500));
        assert_eq!(at(&["k"], deep.as_bytes()).as_deref(), Ok("1"));
    }

    /// Goal: names that some decoder takes for one member are one, and others are not. Method: camelCase beside marks, and neighbors.
    #[test]
    fn a_member_is_found_by_the_name_that_a_decoder_makes() {
        for (step, name) in [
            ("phoneNumber", "phone_number"),
            ("phone_number", "phoneNumber"),
            ("phone_number", "PHONE-NUMBER"),
            ("ask", "A\u{17f}\u{212a}"),
            ("straße", "STRASSE"),
            ("k", "k_"),
        ] {
            assert!(is_alike(name, step), "{name} {step}");
        }
        for (step, name) in [
            ("id", "_id"),
            ("id", "i"),
            ("phone", "phoné"),
            ("id", "ids"),
            ("", "_"),
        ] {
            assert!(!is_alike(name, step), "{name} {step}");
        }
    }

    proptest! {
        /// Goal: nothing a client sends stops the process. Method: texts of what JSON is made of, and brackets by the thousand.
        #[test]
        fn every_text_is_a_value_or_a_reason(text in "[\\[{\"k:,1e\\\\u\\]}\\- ]{0,40}", deep in 0usize..4000) {
            let _ = at(&["k", "0"], text.as_bytes());
            let _ = at(&["k", "0"], "[{\"k\":".repeat(deep).as_bytes());
        }
    }
}
