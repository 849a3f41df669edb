//! Matches header fields.
//!
//! A condition holds when one of the fields of its name has exactly its value. A second field of the same name therefore
//! does not take a request out of its route.

use http::{HeaderName, HeaderValue};
use sluicegate_base::received::ReceivedFields;

/// Conditions that must all hold.
#[derive(Debug)]
pub(super) struct HeaderMatch(Box<[(HeaderName, HeaderValue)]>);

impl HeaderMatch {
    pub(super) fn compile(conditions: &[(HeaderName, HeaderValue)]) -> Self {
        Self(conditions.into())
    }

    pub(super) fn takes(&self, headers: &ReceivedFields) -> bool {
        self.0
            .iter()
            .all(|(name, value)| headers.get_all(name).any(|sent| sent == *value))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_must_find_one_field_with_its_value() {
        let condition = |name, value| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        let conditions =
            HeaderMatch::compile(&[condition("x-plan", "free"), condition("x-beta", "1")]);
        let mut headers = ReceivedFields::new();
        assert!(!conditions.takes(&headers));
        headers.append(
            HeaderName::from_static("x-plan"),
            HeaderValue::from_static("paid"),
        );
        headers.append(
            HeaderName::from_static("x-beta"),
            HeaderValue::from_static("1"),
        );
        assert!(!conditions.takes(&headers));
        headers.append(
            HeaderName::from_static("x-plan"),
            HeaderValue::from_static("free"),
        );
        assert!(conditions.takes(&headers));
        headers.insert(
            HeaderName::from_static("x-plan"),
            HeaderValue::from_static("Free"),
        );
        assert!(!conditions.takes(&headers));
    }
}
