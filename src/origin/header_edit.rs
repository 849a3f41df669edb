//! Decides in which case field names travel between client and origin, and edits the fields of a message either way.
//!
//! Names have no case (RFC 9110 §5.1), and from clients that speak HTTP/2 they arrive in lower case (RFC 9113 §8.2), so every origin
//! accepts them. Pingora keeps the case of each name in a second map beside the fields, whose maintenance costs a proxied request more than
//! all decisions about it. So the second map is dropped unless the origin's rules need it.

use std::mem;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, request, response};
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};

use crate::config::rules::HeaderCase;

/// Fields that an edit adds to most messages, rounded up: a map that has room for them grows once, not with every other field.
const MOSTLY_ADDED: usize = 6;

/// Fields that can be edited, with or without the case of their names.
pub trait FieldEdit {
    /// Returns the first value of this name.
    fn get(&self, name: &HeaderName) -> Option<&HeaderValue>;
    /// Replaces every field of this name.
    ///
    /// # Errors
    /// When there are more than 32,768 fields; heads have a cap far below.
    fn insert(&mut self, name: HeaderName, value: HeaderValue) -> Result<()>;
    /// Adds a field beside those of the same name.
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert).
    fn append(&mut self, name: HeaderName, value: HeaderValue) -> Result<()>;
    /// Removes every field of this name.
    fn remove(&mut self, name: &HeaderName);
}

/// Fields that can be edited and are all in one map.
pub trait HeaderEdit: FieldEdit {
    /// Returns all fields.
    fn all(&self) -> &HeaderMap;
}

impl FieldEdit for HeaderMap {
    fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        HeaderMap::get(self, name)
    }

    fn insert(&mut self, name: HeaderName, value: HeaderValue) -> Result<()> {
        drop(HeaderMap::insert(self, name, value));
        Ok(())
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) -> Result<()> {
        HeaderMap::append(self, name, value);
        Ok(())
    }

    fn remove(&mut self, name: &HeaderName) {
        drop(HeaderMap::remove(self, name));
    }
}

impl HeaderEdit for HeaderMap {
    fn all(&self) -> &HeaderMap {
        self
    }
}

/// The two heads of Pingora have the same functions, but no trait for them.
macro_rules! cased_fields {
    ($head:ty) => {
        impl HeaderEdit for $head {
            fn all(&self) -> &HeaderMap {
                &self.headers
            }
        }

        impl FieldEdit for $head {
            fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
                self.headers.get(name)
            }

            fn insert(&mut self, name: HeaderName, value: HeaderValue) -> Result<()> {
                self.insert_header(name, value)
            }

            fn append(&mut self, name: HeaderName, value: HeaderValue) -> Result<()> {
                self.append_header(name, value).map(drop)
            }

            fn remove(&mut self, name: &HeaderName) {
                drop(self.remove_header(name));
            }
        }
    };
}

cased_fields!(RequestHeader);
cased_fields!(ResponseHeader);

/// Edits the fields of a request that goes to an origin.
///
/// # Errors
/// The errors of `edit`, and an invalid target, which the route stage excludes.
pub fn edit_request(
    request: &mut RequestHeader,
    case: HeaderCase,
    edit: impl FnOnce(&mut dyn FieldEdit) -> Result<()>,
) -> Result<()> {
    if case == HeaderCase::AsSent {
        return edit(request);
    }
    // A target that is no path is stored beside the URI, and would be lost with the names.
    let unusual = (!request.raw_path().starts_with(b"/")).then(|| request.raw_path().to_vec());
    let blank = RequestHeader::from(Request::new(()).into_parts().0);
    let mut parts = request::Parts::from(mem::replace(request, blank));
    parts.headers.reserve(MOSTLY_ADDED);
    edit(&mut parts.headers)?;
    *request = RequestHeader::from(parts);
    unusual.map_or(Ok(()), |target| request.set_raw_path(&target))
}

/// Edits the fields of a response that came from an origin.
///
/// # Errors
/// The errors of `edit`.
pub fn edit_response(
    response: &mut ResponseHeader,
    case: HeaderCase,
    edit: impl FnOnce(&mut dyn HeaderEdit) -> Result<()>,
) -> Result<()> {
    if case == HeaderCase::AsSent {
        return edit(response);
    }
    // A reason phrase of the origin's own is stored beside the status, and would be lost with the names.
    let own = |reason: &&str| Some(*reason) != response.status.canonical_reason();
    let reason = response.get_reason_phrase().filter(own).map(str::to_owned);
    let blank = ResponseHeader::from(Response::new(()).into_parts().0);
    let mut parts = response::Parts::from(mem::replace(response, blank));
    parts.headers.reserve(MOSTLY_ADDED);
    edit(&mut parts.headers)?;
    *response = ResponseHeader::from(parts);
    reason.map_or(Ok(()), |reason| response.set_reason_phrase(Some(&reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("x-added");
    const CASES: [HeaderCase; 2] = [HeaderCase::Lower, HeaderCase::AsSent];

    fn add<F: FieldEdit + ?Sized>(fields: &mut F) -> Result<()> {
        fields.insert(NAME, HeaderValue::from_static("1"))
    }

    fn wire(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        write(&mut bytes);
        String::from_utf8(bytes).expect("the fields are ASCII")
    }

    /// Goal: nothing but the case of names differs. Method: targets of every form, edited in both cases.
    #[test]
    fn an_edited_request_keeps_its_target_and_its_fields() {
        for target in ["/a?b=c", "*", "http://a.test/b"] {
            for case in CASES {
                let mut request =
                    RequestHeader::build("OPTIONS", target.as_bytes(), None).expect("a request");
                request.insert_header("X-Old", "2").expect("a field");
                edit_request(&mut request, case, |fields| add(fields)).expect("an edit");
                assert_eq!(request.raw_path(), target.as_bytes());
                assert_eq!(request.method.as_str(), "OPTIONS");
                let name = if case == HeaderCase::Lower {
                    "x-old"
                } else {
                    "X-Old"
                };
                let fields = wire(|bytes| request.header_to_h1_wire(bytes));
                assert_eq!(fields, format!("{name}: 2\r\nx-added: 1\r\n"));
            }
        }
    }

    /// Goal: nothing but the case of names differs in responses. Method: an unusual reason phrase, edited in both cases.
    #[test]
    fn an_edited_response_keeps_its_reason_and_its_fields() {
        for (reason, status) in [("Fine", 200), ("OK", 200), ("Hmm", 799)] {
            for case in CASES {
                let mut response = ResponseHeader::build(status, None).expect("a response");
                response.set_reason_phrase(Some(reason)).expect("a reason");
                response.insert_header("X-Old", "2").expect("a field");
                edit_response(&mut response, case, |fields| add(fields)).expect("an edit");
                assert_eq!(response.status.as_u16(), status);
                assert_eq!(response.get_reason_phrase(), Some(reason));
                let name = if case == HeaderCase::Lower {
                    "x-old"
                } else {
                    "X-Old"
                };
                let fields = wire(|bytes| response.header_to_h1_wire(bytes));
                assert_eq!(fields, format!("{name}: 2\r\nx-added: 1\r\n"));
            }
        }
    }
}
