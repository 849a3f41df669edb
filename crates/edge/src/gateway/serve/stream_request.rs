//! Makes the head of a request for an origin of HTTP/2, RFC 9113 §8.3.1.

use http::header::{HOST, HeaderValue, TE};
use http::uri::{Authority, PathAndQuery, Scheme};
use sluicegate_base::received::ReceivedFields;
use sluicegate_http1::BodyFraming;
use sluicegate_http2::RequestPseudoFields;

use super::head_writer::RequestParts;
use sluicegate_origin::FieldEdit;
use sluicegate_origin::request_failure::{ClientFailure, Result};

/// The only value of `TE` that HTTP/2 has, RFC 9113 §8.2.2. gRPC servers require it.
const TRAILERS: &[u8] = b"trailers";

/// The head of a request, whose fields are lent.
pub(super) struct StreamRequest<'a> {
    parts: RequestParts<'a>,
    scheme: Scheme,
    authority: Authority,
    target: PathAndQuery,
    /// `Content-Length`, where the length is known.
    length: Option<HeaderValue>,
    /// `TE`, where the client takes trailers.
    te: Option<&'static [u8]>,
}

impl<'a> StreamRequest<'a> {
    /// Returns the head of a request whose body has this framing. The fields about the connection and the framing of HTTP/1 are left out.
    ///
    /// # Errors
    /// `Host` or the target has a form that HTTP/2 cannot carry.
    pub(super) fn new(
        parts: RequestParts<'a>,
        received: &ReceivedFields,
        framing: BodyFraming,
        scheme: Scheme,
    ) -> Result<Self> {
        let host = parts.fields.get(&HOST);
        let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let target = PathAndQuery::try_from(parts.target).ok();
        let (Some(authority), Some(target)) = (authority, target) else {
            return Err(ClientFailure::NotForHttp2.into());
        };
        let length = match framing {
            BodyFraming::Length(bytes) => Some(HeaderValue::from(bytes)),
            BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        Ok(Self {
            parts,
            scheme,
            authority,
            target,
            length,
            te: takes_trailers(received).then_some(TRAILERS),
        })
    }

    /// Returns the pseudo-fields.
    pub(super) fn pseudo_fields(&self) -> RequestPseudoFields<'_> {
        RequestPseudoFields {
            method: self.parts.method.as_str().as_bytes(),
            scheme: Some(self.scheme.as_str().as_bytes()),
            authority: Some(self.authority.as_str().as_bytes()),
            path: Some(self.target.as_str().as_bytes()),
        }
    }

    /// Returns the names and values of the fields, names in lower case.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let left = self.parts.fields.left();
        let left = left.map(|field| (field.name.as_bytes(), field.value.as_bytes()));
        let added = self.parts.fields.added().iter();
        let added = added.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let passed = left.chain(added);
        let passed = passed.filter(|(name, _)| !is_of_connection(name));
        let length = self.length.as_ref().map(HeaderValue::as_bytes);
        let length = length.map(|length| (&b"content-length"[..], length));
        let te = self.te.map(|te| (&b"te"[..], te));
        passed.chain(length).chain(te)
    }
}

/// Returns whether a field of this name is about the connection or the framing of HTTP/1, or is made anew.
fn is_of_connection(name: &[u8]) -> bool {
    matches!(
        name,
        b"host" | b"content-length" | b"transfer-encoding" | b"connection" | b"te"
    )
}

/// Returns whether the client takes trailers, RFC 9110 §10.1.4.
fn takes_trailers(received: &ReceivedFields) -> bool {
    let values = received.get_all(TE);
    let mut codings = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
    use http::{HeaderMap, Method};
    use sluicegate_decide::response::GatewayProblem;

    use super::*;
    use sluicegate_origin::FieldChanges;

    const NAME: HeaderName = HeaderName::from_static("x-a");
    const ADDED: HeaderName = HeaderName::from_static("x-b");

    /// Returns the target and the fields of a request with these values.
    fn request(host: &'static str, target: &str, te: &'static str) -> Result<(String, HeaderMap)> {
        let received = ReceivedFields::from_iter([
            (HOST, HeaderValue::from_static(host)),
            (CONTENT_LENGTH, HeaderValue::from_static("7")),
            (CONNECTION, HeaderValue::from_static("x")),
            (TE, HeaderValue::from_static(te)),
            (NAME, HeaderValue::from_static("1")),
        ]);
        let mut changes = FieldChanges::new(&received);
        changes.append(ADDED, HeaderValue::from_static("2"));
        changes.append(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let parts = RequestParts {
            method: &Method::POST,
            target: target.as_bytes(),
            fields: &changes,
            is_upgrade: true,
        };
        let framing = BodyFraming::Length(5);
        let request = StreamRequest::new(parts, &received, framing, Scheme::HTTP)?;
        let pseudo = request.pseudo_fields();
        assert_eq!(pseudo.method, b"POST");
        let target = [pseudo.scheme, pseudo.authority, pseudo.path].map(Option::unwrap);
        let target = String::from_utf8(target.join(&b' ')).unwrap();
        let fields = request.fields().map(|(name, value)| {
            let name = HeaderName::from_lowercase(name).unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        });
        Ok((target, fields.collect()))
    }

    /// Goal: RFC 9113 §8.3.1 and §8.2.2, the host is the authority alone, no field is about a connection, the length is the decided one,
    /// and gRPC's `TE` stays. Method: a request with each of them, received or added.
    #[test]
    fn a_head_has_no_field_of_a_connection() {
        for (te, passed) in [("gzip, Trailers", Some("trailers")), ("gzip", None)] {
            let (target, fields) = request("a.test:81", "/b?c", te).unwrap();
            assert_eq!(target, "http a.test:81 /b?c");
            let expected = [
                ("x-a", Some("1")),
                ("x-b", Some("2")),
                ("content-length", Some("5")),
                ("te", passed),
            ];
            for (name, value) in expected {
                let found = fields.get(name).map(|value| value.to_str().unwrap());
                assert_eq!(found, value, "{name}");
            }
            assert_eq!(fields.len(), 3 + usize::from(passed.is_some()));
        }
    }

    /// Goal: a host or a target that HTTP/2 cannot carry is the client's mistake. Method: one of each.
    #[test]
    fn what_http2_cannot_carry_is_a_bad_request() {
        for (host, target) in [("a b", "/"), ("a.test", "/ b")] {
            let problem = request(host, target, "").unwrap_err().problem();
            assert!(
                matches!(problem, Some(GatewayProblem::BadRequest(_))),
                "{problem:?}"
            );
        }
    }
}
