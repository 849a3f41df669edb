//! Decides which stored answer of a URL matches a request: RFC 9111 §4.1.
//!
//! Values are compared after a normalization that never changes their meaning: white space around the members of a list. An
//! answer with `Content-Encoding` varies by `Accept-Encoding` even if its `Vary` lacks that name, since a client that cannot
//! decode it could not use it.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderName};
use pingora::cache::VarianceBuilder;
use pingora::cache::key::HashBinary;
use sluicegate_base::bounds;
use sluicegate_base::received::ReceivedFields;

/// The names in `Vary`, in lower case.
pub fn names(answer: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    members(answer).filter_map(|name| HeaderName::from_bytes(name).ok())
}

/// Returns whether the response varies by `*`, or by more fields than are compared: no other request can get it.
#[must_use]
pub fn is_of_everything(answer: &HeaderMap) -> bool {
    let mut count = 0;
    members(answer).any(|name| {
        count += 1;
        // An invalid field name cannot be compared either.
        name == b"*" || HeaderName::from_bytes(name).is_err() || count > bounds::VARY_FIELDS
    })
}

/// Returns the hash of the fields that a request must share with the one that got `answer`; `None` where the key suffices.
#[must_use]
pub fn variance(answer: &HeaderMap, request: &ReceivedFields) -> Option<HashBinary> {
    let coded = answer.contains_key(CONTENT_ENCODING);
    let unsaid = coded.then_some(ACCEPT_ENCODING);
    let mut differs = VarianceBuilder::new();
    for name in names(answer).chain(unsaid) {
        let mut value = Vec::new();
        for line in request.get_all(&name) {
            for member in line.as_bytes().split(|byte| *byte == b',') {
                value.extend_from_slice(member.trim_ascii());
                value.push(b',');
            }
        }
        // An empty field is a comma, an absent one nothing.
        differs.add_owned_name_value(name.as_str().to_owned(), value);
    }
    differs.finalize()
}

fn members(answer: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = answer.get_all(VARY).iter();
    let members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    members
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = all.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    /// Goal: requests share an answer if and only if the fields that it names are equal. Method: pairs of requests.
    #[test]
    fn requests_share_what_does_not_differ_between_them() {
        let answer = fields(&[("vary", "Accept-Language, x-b")]);
        let of =
            |request: &[(&'static str, &'static str)]| variance(&answer, &fields(request).into());
        let german = of(&[("accept-language", "de,en"), ("accept", "a")]);
        assert_eq!(
            german,
            of(&[("accept-language", "de , en"), ("accept", "b")])
        );
        assert_ne!(german, of(&[("accept-language", "en,de")]));
        assert_ne!(of(&[]), of(&[("x-b", "")]));
        assert_ne!(of(&[("x-b", "1")]), of(&[("accept-language", "1")]));
        assert_eq!(
            variance(&fields(&[]), &fields(&[("x-b", "1")]).into()),
            None
        );
    }

    /// Goal: no client gets a coding that it did not ask for. Method: a compressed answer that does not name `Accept-Encoding`.
    #[test]
    fn a_coded_answer_differs_by_accept_encoding_whatever_it_says() {
        let answer = fields(&[("content-encoding", "gzip")]);
        let of =
            |request: &[(&'static str, &'static str)]| variance(&answer, &fields(request).into());
        assert_ne!(of(&[("accept-encoding", "gzip")]), of(&[]));
    }

    /// Goal: an answer that cannot be compared is not shared. Method: a star among names, an invalid name, and too many names.
    #[test]
    fn an_answer_that_varies_by_anything_is_not_shared() {
        assert!(is_of_everything(&fields(&[("vary", "accept, *")])));
        assert!(is_of_everything(&fields(&[("vary", "a b")])));
        assert!(!is_of_everything(&fields(&[("vary", "accept, ,x")])));
        let many = (0..=bounds::VARY_FIELDS).map(|n| format!("x-{n}"));
        let many = many.collect::<Vec<_>>().join(",");
        let mut answer = HeaderMap::new();
        answer.insert(VARY, HeaderValue::from_str(&many).expect("a value"));
        assert!(is_of_everything(&answer));
    }
}
