//! Selects the request fields of lines that are kept.
//!
//! Clients choose which fields they send, and in logs that have all of them they may send many more than a line keeps. So a reader that
//! is told the fields it will be asked for keeps these, whatever stands before them.

/// The request fields that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelection {
    /// Names in lower case; `None` for all fields.
    names: Option<Box<[Box<[u8]>]>>,
}

/// The spelling of the names of request fields in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldSpelling {
    /// The client's, in any case.
    #[default]
    AsSent,
    /// That of nginx's variables, with an underscore for each dash.
    Variable,
}

impl FieldSelection {
    /// Returns the selection of all fields, of which a line keeps the first [`MAX_FIELDS`](crate::MAX_FIELDS).
    #[must_use]
    pub const fn all() -> Self {
        Self { names: None }
    }

    /// Returns the selection of the fields with these names, in any case.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let names = names.into_iter();
        let names = names.map(|name| name.to_ascii_lowercase().into_bytes().into());
        Self {
            names: Some(names.collect()),
        }
    }

    /// Returns whether some field is kept.
    pub(crate) fn has_any(&self) -> bool {
        self.names.as_ref().is_none_or(|names| !names.is_empty())
    }

    /// Returns whether the field with this name is kept.
    pub(crate) fn has(&self, name: &[u8], spelling: FieldSpelling) -> bool {
        self.names.as_ref().is_none_or(|names| {
            let mut names = names.iter();
            names.any(|wanted| spelling.is(name, wanted))
        })
    }
}

impl FieldSpelling {
    /// Returns a byte of a name in lower case, with dashes.
    pub(crate) fn normalized(self, byte: u8) -> u8 {
        match (self, byte) {
            (Self::Variable, b'_') => b'-',
            _ => byte.to_ascii_lowercase(),
        }
    }

    /// Returns whether a name is this one in lower case.
    pub(crate) fn is(self, name: &[u8], lower: &[u8]) -> bool {
        let mut bytes = name.iter().zip(lower);
        name.len() == lower.len() && bytes.all(|(byte, lower)| self.normalized(*byte) == *lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names are found in the spelling of their log, and no other. Method: a field as clients and as nginx write it, with a header
    /// beside that differs by an underscore.
    #[test]
    fn names_are_compared_in_the_spelling_of_the_log() {
        let wanted = FieldSelection::new(["X-Api-Key"]);
        assert!(wanted.has(b"x-API-key", FieldSpelling::AsSent));
        assert!(!wanted.has(b"x_api-key", FieldSpelling::AsSent));
        assert!(wanted.has(b"x_api_key", FieldSpelling::Variable));
        assert!(!wanted.has(b"x-api-keys", FieldSpelling::AsSent));
        assert!(FieldSelection::all().has(b"anything", FieldSpelling::AsSent));
        assert!(!FieldSelection::new([]).has(b"anything", FieldSpelling::AsSent));
    }
}
