//! Makes the head of a request for an origin of HTTP/2, RFC 9113 §8.3.1.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, TE, TRANSFER_ENCODING,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};
use pingora::{OrErr, Result};
use sluicegate_http1::BodyFraming;

use super::head_writer::RequestParts;
use crate::gateway::error::error_for;
use crate::origin::FieldEdit;
use crate::response::GatewayProblem;

/// The only value of `TE` that HTTP/2 has, RFC 9113 §8.2.2. gRPC servers require it.
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Returns the head of a request whose body has this framing. The fields about the connection and the framing of HTTP/1 are left out.
///
/// # Errors
/// `Host` or the target has a form that HTTP/2 cannot carry.
pub(super) fn stream_request(
    parts: RequestParts<'_>,
    received: &HeaderMap,
    framing: BodyFraming,
    scheme: Scheme,
) -> Result<Request<()>> {
    let host = parts.fields.get(&HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let target = PathAndQuery::try_from(parts.target).ok();
    let (Some(authority), Some(target)) = (authority, target) else {
        return Err(error_for(GatewayProblem::BadGateway));
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query(target)
        .build();
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = uri.or_err(pingora::ErrorType::InternalError, "a target of HTTP/2")?;
    let fields = request.headers_mut();
    for (name, value) in parts.fields.iter() {
        if ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, TE].contains(name) {
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

/// Returns whether the client takes trailers, RFC 9110 §10.1.4.
fn takes_trailers(received: &HeaderMap) -> bool {
    let values = received.get_all(TE).iter();
    let mut codings = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}
