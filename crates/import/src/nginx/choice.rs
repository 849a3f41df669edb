//! A value that depends on at most one property of the request, as `map` and `geo` make them.

use crate::model::KeyPart;

/// The property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestProperty {
    /// The client's address; cases are blocks.
    Client,
    /// The method.
    Method,
    /// A field, a parameter or a cookie.
    Value(KeyPart),
    /// Methods, fields and parameters, whose texts stand behind each other with [`JOINT`] between them.
    Joined(Vec<RequestProperty>),
}

/// The character between the texts of properties that are joined. No request has it.
pub(super) const JOINT: char = '\0';

/// A value for each case of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueChoice<T> {
    /// `None` where the value depends on nothing.
    pub(super) property: Option<RequestProperty>,
    /// Each text that the property is compared with, and the value then.
    pub(super) cases: Vec<(String, T)>,
    /// The value in all other cases.
    pub(super) default: T,
    /// Cases that are not told apart.
    pub(super) differences: Vec<String>,
    /// Cases that are not told apart, and in which more requests pass than in nginx.
    pub(super) looser: Vec<String>,
}

impl<T> ValueChoice<T> {
    /// Returns a value that depends on nothing.
    pub(super) fn constant(value: T) -> Self {
        Self {
            property: None,
            cases: Vec::new(),
            default: value,
            differences: Vec::new(),
            looser: Vec::new(),
        }
    }

    /// Applies a function to each value.
    pub(super) fn try_map<U, E>(
        self,
        mut function: impl FnMut(T) -> Result<U, E>,
    ) -> Result<ValueChoice<U>, E> {
        let cases = self.cases.into_iter();
        let cases = cases.map(|(case, value)| Ok((case, function(value)?)));
        Ok(ValueChoice {
            cases: cases.collect::<Result<_, E>>()?,
            default: function(self.default)?,
            property: self.property,
            differences: self.differences,
            looser: self.looser,
        })
    }
}
