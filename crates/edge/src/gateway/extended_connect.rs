//! Makes a request for a WebSocket over HTTP/2, RFC 8441, one of HTTP/1.1, and its answer one of HTTP/2: rules judge a GET with `Upgrade`,
//! which origins answer with 101.
//!
//! HTTP/2 has no key and no proof that the server read it. So the gateway asks with a key of its own, and checks the proof.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::SEC_WEBSOCKET_KEY;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use sluicegate_base::received::ReceivedHead;
use sluicegate_http1::ResponseHead;
use sluicegate_http2::FieldLines;

use sluicegate_origin::request_failure::HeadFailure;

/// The name of the field with the key.
const KEY: &[u8] = b"sec-websocket-key";

/// The name of the field with the proof.
const ACCEPT: &[u8] = b"sec-websocket-accept";

/// The status of an answer that opens a WebSocket, RFC 8441 §4: nothing is upgraded, and any 2xx begins the other protocol.
pub(super) const OPENED: StatusCode = StatusCode::OK;

/// The text that a server adds to the key before it hashes it, RFC 6455 §1.3.
const PROOF_TEXT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Makes the fields of an extended CONNECT for a WebSocket those of a GET with `Upgrade`.
pub fn become_upgrade(fields: &mut FieldLines) {
    fields.remove(KEY);
    fields.append(b"upgrade", b"websocket");
    fields.append(KEY, new_key().as_bytes());
}

/// Returns a key, RFC 6455 §4.1.
fn new_key() -> String {
    let mut random = [0; 16];
    // Without randomness the key is the same each time. Nothing is secured by it: it tells a server of WebSocket from another one.
    let _ = getrandom::fill(&mut random);
    STANDARD.encode(random)
}

/// Checks that the server has read the key of the request, RFC 6455 §4.1.
///
/// # Errors
/// `Sec-WebSocket-Accept` is missing, or proves another key.
pub(super) fn check_accept(
    request: &ReceivedHead,
    head: &ResponseHead,
    read: &[u8],
) -> Result<(), HeadFailure> {
    let key = request.headers.get(SEC_WEBSOCKET_KEY);
    let expected = proof(key.map_or(&[], |key| key.as_bytes()));
    let mut fields = head.fields().iter(read);
    let accept = fields.find(|field| field.is(ACCEPT));
    match accept.is_some_and(|field| field.value == expected.as_bytes()) {
        true => Ok(()),
        false => Err(HeadFailure::WrongAccept),
    }
}

/// Returns the status of an answer that opens no WebSocket, RFC 8441 §4: one of 2xx would.
pub(super) fn unopened_status(status: StatusCode) -> StatusCode {
    match status.is_success() {
        true => StatusCode::NOT_IMPLEMENTED,
        false => status,
    }
}

/// Returns whether a field of this name is the proof that the key was read. A client of HTTP/2 sent none, RFC 8441 §5, and gets none.
pub(super) fn is_proof(name: &[u8]) -> bool {
    name == ACCEPT
}

/// Returns the proof that a key was read, RFC 6455 §4.2.2.
fn proof(key: &[u8]) -> String {
    let mut hashed = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hashed.update(key);
    hashed.update(PROOF_TEXT);
    STANDARD.encode(hashed.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the proof is that of RFC 6455. Method: the key of §1.3.
    #[test]
    fn the_proof_of_the_rfc_is_made() {
        let proof = proof(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    /// Goal: each key is another one of 16 bytes. Method: two.
    #[test]
    fn keys_differ() {
        let keys = [new_key(), new_key()];
        assert_ne!(keys[0], keys[1]);
        assert_eq!(STANDARD.decode(&keys[0]).unwrap().len(), 16);
    }

    /// Goal: the key is the gateway's own, whatever the client sent. Method: fields with a key and another field.
    #[test]
    fn a_key_of_the_client_is_replaced() {
        let mut fields = FieldLines::default();
        fields.append(KEY, b"a");
        fields.append(b"sec-websocket-version", b"13");
        become_upgrade(&mut fields);
        let [version, upgrade, key] = fields.iter().collect::<Vec<_>>()[..] else {
            panic!("three fields")
        };
        assert_eq!(version, (&b"sec-websocket-version"[..], &b"13"[..]));
        assert_eq!(upgrade, (&b"upgrade"[..], &b"websocket"[..]));
        assert_eq!((key.0, key.1.len()), (KEY, 24));
    }
}
