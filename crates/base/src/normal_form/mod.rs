//! Defines the forms in which values, paths and methods are compared, so that two spellings of one thing share a counter.
//!
//! Every form may merge more than one origin would, and never less: a merged value makes a limit stricter, a split one gives fresh
//! counters away. Bytes that are no UTF-8 are read as U+FFFD.
//!
//! Every form takes a time that is linear in the value, with tables that are read by direct index.
//!
//! The configuration puts the keys of overrides and tiers into these forms, admission the keys that it hashes. So the module stands
//! below both.

mod code_points;
mod email;
mod email_providers;
mod fold;
mod fold_buffer;
mod fold_table;
mod integer;
mod letter_case;
mod lower;
mod margins;
mod uuid;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use crate::bounds;
use crate::telephony::{self, PhoneRegion};

use self::email::email;
pub use self::fold::fold;
pub use self::letter_case::{in_lower_case, in_upper_case};
use self::lower::lower;
pub(crate) use self::margins::part;
pub use self::margins::trimmed;

/// One step by which a value gets its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Normalizer {
    /// `lower`
    Lower,
    /// `trim`
    Trim,
    /// `fold`: without case, accents, width and invisible characters.
    Fold,
    /// `e164`, or `e164 DE` with the country of numbers that are written without one.
    E164(Option<PhoneRegion>),
    /// `email`
    Email,
    /// `integer`: a whole number, in the one form that every origin reads as the same.
    Integer,
    /// `uuid`
    Uuid,
    /// `first N`: so many characters.
    First(NonZeroU16),
    /// `before "@"`: up to the first.
    Before(Arc<str>),
    /// `after "@"`: from the last on.
    After(Arc<str>),
}

impl Normalizer {
    /// Returns whether some values have no such form.
    #[must_use]
    pub fn can_fail(&self) -> bool {
        match self {
            Self::Lower | Self::Trim | Self::First(_) => false,
            // Bytes that are no UTF-8 are no text to fold, and neither is a text that was cut.
            Self::Fold | Self::E164(_) | Self::Email | Self::Before(_) | Self::After(_) => true,
            Self::Integer | Self::Uuid => true,
        }
    }

    /// Returns whether it brings spellings of one thing to one form.
    #[must_use]
    pub fn merges_spellings(&self) -> bool {
        match self {
            Self::Lower | Self::Fold | Self::E164(_) | Self::Email => true,
            Self::Integer | Self::Uuid => true,
            Self::Trim | Self::First(_) | Self::Before(_) | Self::After(_) => false,
        }
    }
}

impl fmt::Display for Normalizer {
    /// Writes the step as the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lower => f.write_str("lower"),
            Self::Trim => f.write_str("trim"),
            Self::Fold => f.write_str("fold"),
            Self::E164(None) => f.write_str("e164"),
            Self::E164(Some(region)) => write!(f, "e164 {region}"),
            Self::Email => f.write_str("email"),
            Self::Integer => f.write_str("integer"),
            Self::Uuid => f.write_str("uuid"),
            Self::First(count) => write!(f, "first {count}"),
            Self::Before(mark) => write!(f, "before \"{mark}\""),
            Self::After(mark) => write!(f, "after \"{mark}\""),
        }
    }
}

/// Returns `value` after `normalizers`, in their order; `None` where it has no such form.
pub fn apply<'a>(mut value: Cow<'a, [u8]>, normalizers: &[Normalizer]) -> Option<Cow<'a, [u8]>> {
    for normalizer in normalizers {
        if *normalizer == Normalizer::Fold && std::str::from_utf8(&value).is_err() {
            // Databases cut such a text, or drop what they cannot read of it.
            return None;
        }
        let text = String::from_utf8_lossy(&value);
        value = Cow::Owned(one(&text, normalizer)?.into_bytes());
    }
    Some(value)
}

/// Takes one step.
fn one(text: &str, normalizer: &Normalizer) -> Option<String> {
    match normalizer {
        Normalizer::Lower => Some(lower(text)),
        Normalizer::Trim => Some(text.trim().to_owned()),
        Normalizer::Fold => fold(text),
        Normalizer::E164(_) if text.len() > bounds::TELEPHONE_BYTES => None,
        // Folded, since vendors read the digits of all scripts.
        Normalizer::E164(region) => telephony::e164(&fold(text)?, *region),
        Normalizer::Email => email(text),
        Normalizer::Integer => integer::is_integer(text).then(|| text.to_owned()),
        Normalizer::Uuid => uuid::uuid(text),
        Normalizer::First(count) => Some(text.chars().take(usize::from(count.get())).collect()),
        Normalizer::Before(mark) => text
            .split_once(&**mark)
            .map(|(before, _)| before.to_owned()),
        Normalizer::After(mark) => text.rsplit_once(&**mark).map(|(_, after)| after.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(text: &str, normalizers: &[Normalizer]) -> Option<String> {
        apply(Cow::Borrowed(text.as_bytes()), normalizers)
            .map(|value| String::from_utf8(value.into_owned()).unwrap())
    }

    /// Goal: the ways in which people write one number are one number, and what is none has no form. Method: a German mobile number
    /// in many spellings, then slips and tricks.
    #[test]
    fn spellings_of_a_telephone_number_are_one() {
        let german = [Normalizer::E164(Some("DE".parse().unwrap()))];
        for text in [
            "+4915112345678",
            "004915112345678",
            "015112345678",
            "0151 12345678",
            " (0151) 123-456.78 ",
            "٠١٥١١٢٣٤٥٦٧٨",
            "＋４９ １５１ １２３４５６７８",
            "0151\u{ad}12345678",
            "+49 (151) 123 45678",
        ] {
            assert_eq!(
                normal(text, &german).as_deref(),
                Some("+4915112345678"),
                "{text}"
            );
        }
        assert_eq!(
            normal("+1 650-253-0000", &german).as_deref(),
            Some("+16502530000")
        );
        for text in [
            "",
            "+",
            "110",
            "123",
            "phone",
            "+49",
            "0151 12345678;ext=1",
            "tel:+4915112345678",
            "++4915112345678",
            "0151 +12345678",
        ] {
            assert_eq!(normal(text, &german), None, "{text}");
        }
        let anywhere = [Normalizer::E164(None)];
        assert_eq!(normal("015112345678", &anywhere), None);
        assert_eq!(
            normal("+4915112345678", &anywhere).as_deref(),
            Some("+4915112345678")
        );
    }

    /// Goal: forms apply in the order written, and an empty value stays one. Method: chains over small texts.
    #[test]
    fn forms_follow_each_other() {
        use Normalizer::*;
        let first = |count| First(std::num::NonZeroU16::new(count).unwrap());
        let at = || std::sync::Arc::from("@");
        assert_eq!(
            normal("Víc\u{ad}tim@A.Test ", &[Fold]).as_deref(),
            Some("victim@a.test")
        );
        assert_eq!(apply(Cow::Borrowed(b"v\xedctim"), &[Fold]), None);
        assert_eq!(normal(" ÄB ", &[Trim, Lower]).as_deref(), Some("äb"));
        assert_eq!(normal("äöü", &[first(2)]).as_deref(), Some("äö"));
        assert_eq!(normal("a", &[first(2)]).as_deref(), Some("a"));
        assert_eq!(normal("", &[Trim, Lower, first(2)]).as_deref(), Some(""));
        assert_eq!(normal("a@b@c", &[Before(at())]).as_deref(), Some("a"));
        assert_eq!(normal("a@b@c", &[After(at())]).as_deref(), Some("c"));
        assert_eq!(normal("abc", &[After(at())]), None);
        assert_eq!(
            normal("Ann@Example.com", &[Email, After(at()), first(3)]).as_deref(),
            Some("exa")
        );
    }

    proptest! {
        /// Goal: nothing a client sends stops the process, and a form is its own form. Method: texts of the characters that numbers
        /// and addresses are made of.
        #[test]
        fn every_text_has_a_form_or_none(text in "\\PC{0,12}", phone in "[+0-9 ()/.-]{0,20}") {
            let german = [Normalizer::E164(Some("DE".parse().unwrap()))];
            for (text, form) in [(&phone, &german), (&text, &german), (&text, &[Normalizer::Email])] {
                if let Some(normal_form) = normal(text, form) {
                    prop_assert_eq!(normal(&normal_form, form), Some(normal_form.clone()));
                }
            }
        }
    }
}
