//! Makes the head that the stages read from that of a stream.

use http::uri::{Authority, Parts, PathAndQuery, Scheme, Uri};
use http::{Method, Version};
use sluicegate_base::received::{ReceivedFields, ReceivedHead};
use sluicegate_http1::FieldPlaces;
use sluicegate_http2::RequestHead;

use crate::gateway::become_upgrade;

/// The only protocol that an extended CONNECT may ask for, RFC 8441 §5.
const WEBSOCKET: &[u8] = b"websocket";

/// Returns the head, whose fields and target are parts of the bytes in which they were decoded; `None` where the http crate has no such
/// method, authority or target, or where it asks for another protocol than WebSocket.
pub(crate) fn received_head(head: RequestHead, version: Version) -> Option<ReceivedHead> {
    let is_websocket = head.protocol().map(|protocol| protocol == WEBSOCKET);
    let (mut fields, pseudo) = head.into_parts();
    match is_websocket {
        None => {}
        // Before the bytes are shared, so that they need no copy.
        Some(true) => become_upgrade(&mut fields),
        Some(false) => return None,
    }
    let (bytes, places) = fields.into_parts();
    let places = places.into_iter().map(|places| FieldPlaces {
        name: places.name,
        value: places.value,
        is_usual: true,
    });
    let headers = ReceivedFields::in_bytes(bytes, places)?;
    let bytes = headers.bytes();
    let method = match is_websocket {
        None => Method::from_bytes(bytes.get(pseudo.method?)?).ok()?,
        Some(_) => Method::GET,
    };
    let mut uri = Parts::default();
    if let Some(place) = pseudo.path {
        let target = PathAndQuery::from_maybe_shared(bytes.slice(place));
        uri.path_and_query = Some(target.ok()?);
    }
    if let Some(place) = pseudo.authority {
        let authority = Authority::from_maybe_shared(bytes.slice(place));
        uri.authority = Some(authority.ok()?);
        // The http crate demands one. That of a request is the scheme of its connection, whatever `:scheme` says.
        uri.scheme = uri.path_and_query.as_ref().map(|_| Scheme::HTTP);
    }
    Some(ReceivedHead {
        method,
        uri: Uri::from_parts(uri).ok()?,
        version,
        headers,
    })
}
