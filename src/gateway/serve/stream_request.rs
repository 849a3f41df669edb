//! Makes the head of a request for an origin of HTTP/2, RFC 9113 §8.3.1.

use http::header::{CONTENT_LENGTH, HOST, HeaderValue, TE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};
use sluicegate_base::received::ReceivedFields;
use sluicegate_http1::BodyFraming;

use super::head_writer::RequestParts;
use crate::failure::{ClientFailure, RequestFailure, Result};
use crate::origin::FieldEdit;

/// The only value of `TE` that HTTP/2 has, RFC 9113 §8.2.2. gRPC servers require it.
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Returns the head of a request whose body has this framing. The fields about the connection and the framing of HTTP/1 are left out.
///
/// # Errors
/// `Host` or the target has a form that HTTP/2 cannot carry.
pub(super) fn stream_request(
    parts: RequestParts<'_>,
    received: &ReceivedFields,
    framing: BodyFraming,
    scheme: Scheme,
) -> Result<Request<()>> {
    let host = parts.fields.get(&HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let target = PathAndQuery::try_from(parts.target).ok();
    let (Some(authority), Some(target)) = (authority, target) else {
        return Err(ClientFailure::NotForHttp2.into());
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query(target)
        .build();
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = uri.map_err(RequestFailure::internal)?;
    let fields = request.headers_mut();
    for field in parts.fields.left() {
        if !is_of_connection(field.name.as_bytes()) {
            let name = field.name.to_header_name();
            let value = field.value.to_header_value();
            fields.append(name, value);
        }
    }
    for (name, value) in parts.fields.added() {
        if !is_of_connection(name.as_str().as_bytes()) {
            fields.append(name.clone(), value.clone());
        }
    }
    if let BodyFraming::Length(bytes) = framing {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    if takes_trailers(received) {
        fields.insert(TE, TRAILERS);
    }
    Ok(request)
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
    use http::header::{CONNECTION, HeaderName, TRANSFER_ENCODING, UPGRADE};
    use http::{Method, Version};
    use sluicegate_decide::response::GatewayProblem;

    use super::*;
    use crate::origin::FieldChanges;

    const NAME: HeaderName = HeaderName::from_static("x-a");
    const ADDED: HeaderName = HeaderName::from_static("x-b");

    fn request(host: &'static str, target: &str, te: &'static str) -> Result<Request<()>> {
        let received = ReceivedFields::from_iter([
            (HOST, HeaderValue::from_static(host)),
            (CONTENT_LENGTH, HeaderValue::from_static("7")),
            (CONNECTION, HeaderValue::from_static("x")),
            (TE, HeaderValue::from_static(te)),
            (NAME, HeaderValue::from_static("1")),
        ]);
        let mut changes = FieldChanges::of(&received);
        changes.append(ADDED, HeaderValue::from_static("2"));
        changes.append(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let parts = RequestParts {
            method: &Method::POST,
            target: target.as_bytes(),
            fields: &changes,
            is_upgrade: true,
        };
        stream_request(parts, &received, BodyFraming::Length(5), Scheme::HTTP)
    }

    /// Goal: RFC 9113 §8.3.1 and §8.2.2, the host is the authority alone, no field is about a connection, the length is the decided one,
    /// and gRPC's `TE` stays. Method: a request with each of them, received or added.
    #[test]
    fn a_head_has_no_field_of_a_connection() {
        for (te, passed) in [("gzip, Trailers", Some("trailers")), ("gzip", None)] {
            let request = request("a.test:81", "/b?c", te).unwrap();
            assert_eq!(request.uri(), "http://a.test:81/b?c");
            let fields = request.headers();
            assert_eq!(fields[CONTENT_LENGTH], "5");
            assert_eq!(fields[NAME], "1");
            assert_eq!(fields[ADDED], "2");
            assert!(
                [HOST, CONNECTION, TRANSFER_ENCODING, UPGRADE]
                    .iter()
                    .all(|name| !fields.contains_key(name))
            );
            let te = fields.get(TE).map(|te| te.to_str().unwrap());
            assert_eq!((te, request.version()), (passed, Version::HTTP_11));
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
