//! Names the fields that decide about a message or its connection, so that a name is compared once, when its line is parsed.
//!
//! The fields that end with a connection are among them: one list for requests, responses and trailers.

/// A field by whose name a parser or a proxy decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnownField {
    /// Any other field.
    #[default]
    Other,
    /// `Connection`
    Connection,
    /// `Content-Length`
    ContentLength,
    /// `Date`
    Date,
    /// `Expect`
    Expect,
    /// `Host`
    Host,
    /// `Keep-Alive`
    KeepAlive,
    /// `Proxy-Connection`
    ProxyConnection,
    /// `TE`
    Te,
    /// `Trailer`
    Trailer,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Upgrade`
    Upgrade,
}

impl KnownField {
    /// Returns the field of this name, a token in any case.
    #[must_use]
    pub fn named(name: &[u8]) -> Self {
        // The length first: most names differ from all of these in it.
        match name.len() {
            2 if is(name, b"te") => Self::Te,
            4 if is(name, b"host") => Self::Host,
            4 if is(name, b"date") => Self::Date,
            6 if is(name, b"expect") => Self::Expect,
            7 if is(name, b"upgrade") => Self::Upgrade,
            7 if is(name, b"trailer") => Self::Trailer,
            10 if is(name, b"connection") => Self::Connection,
            10 if is(name, b"keep-alive") => Self::KeepAlive,
            14 if is(name, b"content-length") => Self::ContentLength,
            16 if is(name, b"proxy-connection") => Self::ProxyConnection,
            17 if is(name, b"transfer-encoding") => Self::TransferEncoding,
            _ => Self::Other,
        }
    }

    /// Returns whether the field ends with the connection that it came over, RFC 9110 §7.6.1: a proxy passes it to nobody.
    #[must_use]
    pub const fn is_hop_by_hop(self) -> bool {
        match self {
            Self::Connection
            | Self::KeepAlive
            | Self::ProxyConnection
            | Self::Te
            | Self::Trailer
            | Self::TransferEncoding
            | Self::Upgrade => true,
            Self::Other | Self::ContentLength | Self::Date | Self::Expect | Self::Host => false,
        }
    }
}

/// Returns whether the field of this name, in any case, ends with the connection that it came over: see [`KnownField::is_hop_by_hop`].
///
/// # Example
/// ```
/// use sluicegate_http1::is_hop_by_hop;
///
/// assert!(is_hop_by_hop(b"keep-alive") && is_hop_by_hop(b"Upgrade"));
/// assert!(!is_hop_by_hop(b"content-length"));
/// ```
#[must_use]
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    KnownField::named(name).is_hop_by_hop()
}

/// Returns whether a token is this one, which has only lower-case letters and hyphens. Compares all bytes at once: the bit that makes a
/// letter a small one is set in a hyphen too, and no other byte of a token becomes a letter or a hyphen by it.
fn is<const BYTES: usize>(token: &[u8], lower_case: &[u8; BYTES]) -> bool {
    <[u8; BYTES]>::try_from(token).is_ok_and(|token| token.map(|byte| byte | 0x20) == *lower_case)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each field is known by its name in any case, and by no other name. Method: the names, in three cases, and names that differ in
    /// one byte.
    #[test]
    fn fields_are_known_by_their_names() {
        for (name, field) in [
            ("connection", KnownField::Connection),
            ("content-length", KnownField::ContentLength),
            ("date", KnownField::Date),
            ("expect", KnownField::Expect),
            ("host", KnownField::Host),
            ("keep-alive", KnownField::KeepAlive),
            ("proxy-connection", KnownField::ProxyConnection),
            ("te", KnownField::Te),
            ("trailer", KnownField::Trailer),
            ("transfer-encoding", KnownField::TransferEncoding),
            ("upgrade", KnownField::Upgrade),
        ] {
            for spelling in [name.to_owned(), name.to_uppercase()] {
                assert_eq!(KnownField::named(spelling.as_bytes()), field, "{spelling}");
            }
            for at in 0..name.len() {
                let mut other = name.as_bytes().to_vec();
                other[at] = b'_';
                assert_eq!(
                    KnownField::named(&other),
                    KnownField::Other,
                    "{name} at {at}"
                );
            }
            assert_eq!(
                KnownField::named(format!("{name}s").as_bytes()),
                KnownField::Other
            );
        }
        assert_eq!(KnownField::named(b""), KnownField::Other);
    }
}
