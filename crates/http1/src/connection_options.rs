//! Reads the options of `Connection`, RFC 9110 §7.6.1, and decides whether a connection persists, RFC 9112 §9.3.

use crate::bytes::is_token;
use crate::fields::FieldLines;
use crate::known_field::KnownField;
use crate::version::HttpVersion;

/// The options of all `Connection` fields of a head.
///
/// # Example
///
/// ```
/// use sluicegate_http1::{ConnectionOptions, HeadLimits, HttpVersion, RequestHead};
///
/// # fn main() -> Result<(), sluicegate_http1::HeadError> {
/// let read = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\n\r\n";
/// let mut head = RequestHead::new();
/// head.parse(read, &HeadLimits { bytes: 1024, fields: 16, target: 64 })?;
/// let options = ConnectionOptions::new(head.fields(), read);
/// assert!(options.has_close() && !options.keeps_connection(HttpVersion::Http11));
/// assert!(options.nominates(head.fields(), read, b"x-hop"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    others: usize,
    is_malformed: bool,
}

impl ConnectionOptions {
    /// Reads the options of the head in `read`. RFC 9110 §5.6.1: empty elements of a list do not count.
    #[must_use]
    pub fn new(fields: &FieldLines, read: &[u8]) -> Self {
        let mut options = Self::default();
        for value in fields.values(read, KnownField::Connection) {
            // Mostly it is one option.
            if options.add_known(value) {
                continue;
            }
            for option in elements(value) {
                if !options.add_known(option) {
                    options.others += 1;
                    options.is_malformed |= !is_name(option);
                }
            }
        }
        options
    }

    /// Adds an option that does not name a field. Returns whether it is one.
    fn add_known(&mut self, option: &[u8]) -> bool {
        match option.len() {
            5 if option.eq_ignore_ascii_case(b"close") => self.close = true,
            7 if option.eq_ignore_ascii_case(b"upgrade") => self.upgrade = true,
            10 if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
            _ => return false,
        }
        true
    }

    /// Returns whether the sender ends the connection after this message or its answer.
    #[must_use]
    pub const fn has_close(self) -> bool {
        self.close
    }

    /// Returns whether the sender keeps the connection after this message, if its version is HTTP/1.0 too.
    #[must_use]
    pub const fn has_keep_alive(self) -> bool {
        self.keep_alive
    }

    /// Returns whether `Upgrade` names the protocols to which this connection may switch, RFC 9110 §7.8.
    #[must_use]
    pub const fn has_upgrade(self) -> bool {
        self.upgrade
    }

    /// Returns the number of options other than `close`, `keep-alive` and `upgrade`; each names a field.
    #[must_use]
    pub const fn others(self) -> usize {
        self.others
    }

    /// Returns whether an option is no token.
    #[must_use]
    pub const fn is_malformed(self) -> bool {
        self.is_malformed
    }

    /// Returns whether an option is this name, in any case: a proxy removes the field of this name. The options are those of the
    /// head in `read`. Takes time in proportion to [`others`](Self::others), which a caller bounds.
    #[must_use]
    pub fn nominates(self, fields: &FieldLines, read: &[u8], name: &[u8]) -> bool {
        match name.len() {
            5 if name.eq_ignore_ascii_case(b"close") => self.close,
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrade,
            10 if name.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive,
            _ => {
                self.others > 0
                    && listed(fields, read).any(|option| option.eq_ignore_ascii_case(name))
            }
        }
    }

    /// Returns whether the connection persists after a message of this version, as far as its sender decides, RFC 9112 §9.3.
    #[must_use]
    pub const fn keeps_connection(self, version: HttpVersion) -> bool {
        match version {
            HttpVersion::Http11 => !self.close,
            // §9.3: `close` comes first.
            HttpVersion::Http10 => self.keep_alive && !self.close,
        }
    }
}

/// Returns the options of all `Connection` fields, in order.
fn listed<'a>(fields: &FieldLines, read: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    fields
        .values(read, KnownField::Connection)
        .flat_map(elements)
}

/// Returns the names of fields that the value of one `Connection` field has: a proxy removes the fields of these names. Options that name
/// none, and elements that are no token, are passed over; the others count.
///
/// # Example
/// ```
/// use sluicegate_http1::nominated_by;
///
/// let names: Vec<_> = nominated_by(b"close, X-Hop, \xe9").collect();
/// assert_eq!(names, [b"X-Hop"]);
/// ```
pub fn nominated_by(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut known = ConnectionOptions::default();
    elements(value).filter(move |option| !known.add_known(option) && is_name(option))
}

/// Returns whether an option can name a field.
fn is_name(option: &[u8]) -> bool {
    option.iter().all(|&byte| is_token(byte))
}

/// Returns the elements of a list, without the empty ones.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|option| !option.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HeadLimits;
    use crate::response::ResponseHead;

    /// Returns a head with these lines, and its fields.
    fn head(lines: &str) -> (Vec<u8>, ResponseHead) {
        let limits = HeadLimits {
            bytes: 1024,
            fields: 16,
            target: 0,
        };
        let read = format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
        let mut head = ResponseHead::new();
        head.parse(&read, &limits).unwrap();
        (read, head)
    }

    fn options(lines: &str) -> ConnectionOptions {
        let (read, head) = head(lines);
        ConnectionOptions::new(head.fields(), &read)
    }

    /// Goal: a connection persists as RFC 9112 §9.3 says. Method: options in each spelling, in both versions.
    #[test]
    fn a_connection_persists_by_version_and_options() {
        for (lines, in_http10, in_http11) in [
            ("", false, true),
            ("Connection: close\r\n", false, false),
            ("Connection: keep-alive\r\n", true, true),
            ("connection:Keep-Alive\r\n", true, true),
            ("Connection: keep-alive, close\r\n", false, false),
            (
                "Connection: keep-alive\r\nConnection: CLOSE\r\n",
                false,
                false,
            ),
            ("Connection: ,\t,close ,\r\n", false, false),
            ("Connection: close-me\r\n", false, true),
            ("Connection: clo se\r\n", false, true),
            ("Connection: upgrade\r\n", false, true),
            ("Keep-Alive: timeout=5\r\n", false, true),
            ("Proxy-Connection: close\r\n", false, true),
        ] {
            let options = options(lines);
            let found = [HttpVersion::Http10, HttpVersion::Http11]
                .map(|version| options.keeps_connection(version));
            assert_eq!(found, [in_http10, in_http11], "{lines:?}");
        }
    }

    /// Goal: a field is removed where an option names it, and nowhere else. Method: lists over two fields.
    #[test]
    fn options_nominate_fields() {
        let (read, head) = head("Connection: X-Hop, keep-alive\r\nA: x-other\r\nConnection:y\r\n");
        let options = ConnectionOptions::new(head.fields(), &read);
        let nominates = |name: &str| options.nominates(head.fields(), &read, name.as_bytes());
        for name in ["x-hop", "Keep-Alive", "Y"] {
            assert!(nominates(name), "{name}");
        }
        for name in ["x-ho", "x-hop,", "close", "upgrade", "a", "x-other", ""] {
            assert!(!nominates(name), "{name}");
        }
        assert_eq!((options.others(), options.is_malformed()), (2, false));
    }

    /// Goal: what an option says is known without the fields. Method: one option each.
    #[test]
    fn options_are_counted_and_judged() {
        assert_eq!(options(""), ConnectionOptions::default());
        assert!(options("Connection: Upgrade\r\n").has_upgrade());
        assert!(options("Connection: close\r\n").has_close());
        assert!(options("Connection: Keep-Alive\r\n").has_keep_alive());
        for malformed in ["\"close\"", "close;q=1", "a b", "a:"] {
            let options = options(&format!("Connection: {malformed}\r\n"));
            assert!(
                options.is_malformed() && !options.has_close(),
                "{malformed}"
            );
        }
    }
}
