//! Owns a request as it comes out of the reader: its values copied, the escapes undone.

use std::net::IpAddr;

use crate::line::{FieldKind, LoggedTreatment};

/// A request out of a log. What the log does not say is empty, zero or `None`.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRequest<'a> {
    /// The time at which it began, in nanoseconds since the Unix epoch. It never goes back from one request to the next.
    pub time: u64,
    /// The client's address.
    pub client: IpAddr,
    /// The other end of the connection, where the log tells it apart from the client.
    pub peer: Option<IpAddr>,
    /// The method.
    pub method: &'a [u8],
    /// The host, with a port or without.
    pub host: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// The id.
    pub id: &'a [u8],
    /// The status of the response; 0 without one.
    pub status: u16,
    /// Bytes of the response.
    pub bytes: Option<u64>,
    /// The time from its begin to its end, in nanoseconds.
    pub duration: Option<u64>,
    /// The time from its begin to the head of the response, in nanoseconds.
    pub first_byte: Option<u64>,
    /// The treatment of the request when it was logged.
    pub treatment: LoggedTreatment,
    /// The number of requests that it counted as, where the log says one; 0 only asked whether there is room.
    pub hits: Option<u32>,
    /// Values with names.
    pub fields: LoggedFields<'a>,
}

/// The values with names of a request.
#[derive(Clone, Copy, Debug)]
pub struct LoggedFields<'a> {
    pub(crate) fields: &'a [StoredField],
    pub(crate) bytes: &'a [u8],
}

/// A value with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedField<'a> {
    /// The kind of the value.
    pub kind: FieldKind,
    /// The name; of request fields in lower case, with dashes.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A range of the bytes of stored lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByteSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl ByteSpan {
    pub(crate) fn slice(self, bytes: &[u8]) -> &[u8] {
        bytes
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// A stored value with its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredField {
    pub(crate) kind: FieldKind,
    pub(crate) name: ByteSpan,
    pub(crate) value: ByteSpan,
}

impl<'a> LoggedFields<'a> {
    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.fields.is_empty()
    }

    /// Returns each value, in the order of the line.
    pub fn iter(self) -> impl Iterator<Item = LoggedField<'a>> {
        self.fields.iter().map(move |field| LoggedField {
            kind: field.kind,
            name: field.name.slice(self.bytes),
            value: field.value.slice(self.bytes),
        })
    }
}
