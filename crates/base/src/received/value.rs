//! A name and a value of a request's field, as bytes that are lent.

use http::header::{HeaderName, HeaderValue};

/// The name of a field: a token in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldName<'a>(&'a [u8]);

impl<'a> FieldName<'a> {
    #[inline]
    pub(super) fn new(lower_case: &'a [u8]) -> Self {
        Self(lower_case)
    }

    /// Returns the bytes of the name.
    #[must_use]
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.0).expect("a token is ASCII")
    }

    /// Returns the name by itself.
    #[must_use]
    pub fn to_header_name(self) -> HeaderName {
        HeaderName::from_bytes(self.0).expect("it was the name of a field")
    }
}

impl<'a> From<&'a HeaderName> for FieldName<'a> {
    #[inline]
    fn from(name: &'a HeaderName) -> Self {
        Self(name.as_str().as_bytes())
    }
}

impl PartialEq<HeaderName> for FieldName<'_> {
    #[inline]
    fn eq(&self, name: &HeaderName) -> bool {
        self.0 == name.as_str().as_bytes()
    }
}

/// The value of a field: bytes that are no control characters but tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldValue<'a>(&'a [u8]);

/// A value that is not text: a byte of it is outside visible ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText;

impl<'a> FieldValue<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the value.
    #[must_use]
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns whether the value is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns the value as text.
    ///
    /// # Errors
    /// A byte of it is neither visible ASCII nor a blank.
    pub fn to_str(self) -> Result<&'a str, NotText> {
        let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
        if !self.0.iter().all(is_text) {
            return Err(NotText);
        }
        std::str::from_utf8(self.0).map_err(|_| NotText)
    }

    /// Returns a copy of the value.
    #[must_use]
    pub fn to_header_value(self) -> HeaderValue {
        HeaderValue::from_bytes(self.0).expect("it was the value of a field")
    }
}

impl<'a> From<&'a HeaderValue> for FieldValue<'a> {
    #[inline]
    fn from(value: &'a HeaderValue) -> Self {
        Self(value.as_bytes())
    }
}

impl PartialEq<str> for FieldValue<'_> {
    #[inline]
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&str> for FieldValue<'_> {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl PartialEq<HeaderValue> for FieldValue<'_> {
    #[inline]
    fn eq(&self, value: &HeaderValue) -> bool {
        self.0 == value.as_bytes()
    }
}
