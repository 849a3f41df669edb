//! Splits a forwarded chain into elements, from the right. Empty elements of `Forwarded` are left out, RFC 9110 §5.6.1.2.
//!
//! The right end was written by trusted hops and is well formed, so each split is correct whatever stands to its left. Read from
//! the left, one stray quote in a forged part would swallow the commas after it and with them the genuine elements.

use std::iter::Rev;
use std::net::IpAddr;

use http::header::HeaderName;
use sluicegate_base::bounds;
use sluicegate_base::received::{FieldValues, ReceivedFields};

use super::node;

/// The meaning of a double quote in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteSyntax {
    /// A byte like any other: `X-Forwarded-For`.
    Plain,
    /// It encloses text in which a comma does not separate: `Forwarded`.
    Delimit,
}

/// Returns the elements of all fields of this name, last field first, each from its right end, within the bounds.
pub(super) fn elements<'a>(
    headers: &'a ReceivedFields,
    name: &HeaderName,
    quotes: QuoteSyntax,
) -> ChainElements<'a> {
    ChainElements {
        fields: headers.get_all(name).rev(),
        rest: None,
        quotes,
        elements_left: bounds::FORWARDED_ELEMENTS,
        bytes_left: bounds::FORWARDED_BYTES,
    }
}

/// The iterator that [`elements`] returns.
#[derive(Debug)]
pub(super) struct ChainElements<'a> {
    fields: Rev<FieldValues<'a>>,
    /// The rest of the current field; `None` before the first and between two.
    rest: Option<&'a [u8]>,
    quotes: QuoteSyntax,
    elements_left: usize,
    bytes_left: usize,
}

impl<'a> Iterator for ChainElements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let element = self.next_element()?;
            // A hop of `X-Forwarded-For` may write an empty element for a client that it does not know.
            if self.quotes == QuoteSyntax::Plain || !node::trim_blanks(element).is_empty() {
                return Some(element);
            }
        }
    }
}

impl<'a> ChainElements<'a> {
    /// Returns the next element, which may be empty.
    fn next_element(&mut self) -> Option<&'a [u8]> {
        self.elements_left = self.elements_left.checked_sub(1)?;
        let rest = match self.rest.take() {
            Some(rest) => rest,
            None => self.fields.next()?.as_bytes(),
        };
        let unseen = rest.len().saturating_sub(self.bytes_left);
        let element = match last_comma(&rest[unseen..], self.quotes) {
            Some(comma) => {
                self.rest = Some(&rest[..unseen + comma]);
                &rest[unseen + comma + 1..]
            }
            None if unseen == 0 => rest,
            // The element goes on beyond the bytes that may be read.
            None => {
                self.elements_left = 0;
                return None;
            }
        };
        // Its separator counts too, be it a comma or the end of a field.
        self.bytes_left = self.bytes_left.saturating_sub(element.len() + 1);
        Some(element)
    }
}

/// Returns the position of the last comma that separates elements.
fn last_comma(text: &[u8], quotes: QuoteSyntax) -> Option<usize> {
    if quotes == QuoteSyntax::Plain {
        return text.iter().rposition(|&byte| byte == b',');
    }
    let mut quoted = false;
    for (at, &byte) in text.iter().enumerate().rev() {
        match byte {
            b'"' => {
                // RFC 9110 §5.6.4: a backslash quotes the next byte, so an odd run of them makes this quote part of the text.
                let escapes = text[..at]
                    .iter()
                    .rev()
                    .take_while(|&&byte| byte == b'\\')
                    .count();
                quoted ^= escapes % 2 == 0;
            }
            b',' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Reads the `for` parameter of one element of `Forwarded`.
///
/// RFC 7239 §4: pairs of a token and a token or a quoted string, separated by semicolons, names in any case, each at most once.
/// `None` when the element breaks that, has no `for`, or names a hop by something other than an address. Unquoted values may
/// contain `:`, `[` and `]`, which the grammar requires to be quoted and common proxies do not quote.
pub(super) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut rest = node::trim_blanks(element);
    let mut told = None;
    while let Some(&first) = rest.first() {
        if matches!(first, b';' | b' ' | b'\t') {
            rest = &rest[1..];
            continue;
        }
        let (name, after) = rest.split_at(rest.iter().position(|&byte| !is_token(byte))?);
        let value = after.strip_prefix(b"=")?;
        let (value, after) = ParameterValue::take(value)?;
        rest = node::trim_blanks(after);
        if name.is_empty() || rest.first().is_some_and(|&byte| byte != b';') {
            return None;
        }
        if name.eq_ignore_ascii_case(b"for") && told.replace(value).is_some() {
            return None;
        }
    }
    told?.node()
}

/// A parameter's value as it was sent.
enum ParameterValue<'a> {
    Bare(&'a [u8]),
    /// Without the quotes, with its escapes.
    Quoted(&'a [u8]),
}

impl<'a> ParameterValue<'a> {
    /// Splits a value from the text after it.
    fn take(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let Some(inner) = text.strip_prefix(b"\"") else {
            let end = text
                .iter()
                .position(|&byte| !is_bare(byte))
                .unwrap_or(text.len());
            let (value, after) = text.split_at(end);
            return (!value.is_empty()).then_some((Self::Bare(value), after));
        };
        let mut escaped = false;
        for (at, &byte) in inner.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return Some((Self::Quoted(&inner[..at]), &inner[at + 1..])),
                _ => {}
            }
        }
        None
    }

    fn node(&self) -> Option<IpAddr> {
        let text = match self {
            Self::Bare(text) => return node::parse(text),
            Self::Quoted(text) => text,
        };
        let mut plain = [0; bounds::FORWARDED_NODE_BYTES];
        let mut length = 0;
        let mut bytes = text.iter();
        while let Some(&byte) = bytes.next() {
            let byte = if byte == b'\\' { *bytes.next()? } else { byte };
            *plain.get_mut(length)? = byte;
            length += 1;
        }
        node::parse(&plain[..length])
    }
}

/// Returns whether a token may contain this byte, RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_bare(byte: u8) -> bool {
    is_token(byte) || matches!(byte, b':' | b'[' | b']')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_for_parameter_is_read_as_rfc_7239_writes_it() {
        for (element, address) in [
            ("for=192.0.2.43", "192.0.2.43"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            (" by=203.0.113.43 ; FOR=192.0.2.60 ", "192.0.2.60"),
            ("host=\"a;for=6.6.6.6\";for=\"192.0.2.60:80\"", "192.0.2.60"),
            ("for=\"\\1\\9\\2.0.2.60\"", "192.0.2.60"),
            (";;for=192.0.2.60;", "192.0.2.60"),
            ("for=192.0.2.60:80", "192.0.2.60"),
            ("for=[2001:db8::1]", "2001:db8::1"),
        ] {
            assert_eq!(
                forwarded_for(element.as_bytes()),
                Some(address.parse().unwrap()),
                "{element}"
            );
        }
    }

    #[test]
    fn an_element_that_breaks_the_grammar_has_no_address() {
        for element in [
            "",
            ";",
            "for",
            "for=",
            "for=unknown",
            "for=_hidden",
            "for=\"1.2.3.4",
            "for=\"1.2.3.4\\\"",
            "for=1.2.3.4\"",
            "for=\"\"",
            "for = 1.2.3.4",
            "=1.2.3.4",
            "by=1.2.3.4",
            "for=1.2.3.4;for=1.2.3.4",
            "for=1.2.3.4 by=x",
            "for=\"1.2.3.4\"x",
            "1.2.3.4",
            "for=1.2.3.4;x",
            "x for=1.2.3.4",
        ] {
            assert_eq!(forwarded_for(element.as_bytes()), None, "{element}");
        }
    }

    #[test]
    fn elements_are_cut_at_commas_outside_quotes_from_the_right() {
        let mut headers = ReceivedFields::new();
        headers.append(
            HeaderName::from_static("forwarded"),
            HeaderValue::from_static("a, b=\"x,\\\"y\", c"),
        );
        headers.append(
            HeaderName::from_static("forwarded"),
            HeaderValue::from_static("d"),
        );
        let found: Vec<&[u8]> =
            elements(&headers, &http::header::FORWARDED, QuoteSyntax::Delimit).collect();
        assert_eq!(found, [b"d".as_slice(), b" c", b" b=\"x,\\\"y\"", b"a"]);
    }

    /// Goal: RFC 9110 §5.6.1.2, empty elements of a list are ignored, and they count among the elements that are read. Method: empty
    /// elements everywhere, with blanks in them and in fields of their own; a quoted comma; more of them than elements are read.
    #[test]
    fn empty_elements_of_forwarded_are_left_out() {
        let mut headers = ReceivedFields::new();
        let name = http::header::FORWARDED;
        for value in ["", ",a,,b=\",,\", \t,", " ", ",,c"] {
            headers.append(&name, HeaderValue::from_static(value));
        }
        let found: Vec<&[u8]> = elements(&headers, &name, QuoteSyntax::Delimit).collect();
        assert_eq!(found, [b"c".as_slice(), b"b=\",,\"", b"a"]);
        let chain = format!("a{}", ",".repeat(bounds::FORWARDED_ELEMENTS));
        headers.insert(&name, HeaderValue::from_str(&chain).unwrap());
        assert_eq!(elements(&headers, &name, QuoteSyntax::Delimit).count(), 0);
    }

    #[test]
    fn a_chain_is_looked_at_within_its_bounds() {
        let mut headers = ReceivedFields::new();
        let name = http::header::FORWARDED;
        headers.append(&name, HeaderValue::from_str(&"a,".repeat(10_000)).unwrap());
        assert_eq!(
            elements(&headers, &name, QuoteSyntax::Plain).count(),
            bounds::FORWARDED_ELEMENTS
        );
        headers.insert(
            &name,
            HeaderValue::from_str(&format!("{},b", "a".repeat(10_000))).unwrap(),
        );
        assert_eq!(
            elements(&headers, &name, QuoteSyntax::Plain).collect::<Vec<_>>(),
            [b"b"]
        );
        // The bound is on all elements together: eight of a thousand bytes, with their commas, leave no room for a ninth.
        let element = format!(",{}", "a".repeat(1000));
        let chain = HeaderValue::from_str(&element.repeat(20)).unwrap();
        headers.insert(&name, chain);
        assert_eq!(elements(&headers, &name, QuoteSyntax::Plain).count(), 8);
    }
}
