//! Makes the head that the stages read from the parsed bytes of a request, or from the head of a stream.

use bytes::BytesMut;
use http::header::{CONTENT_LENGTH, EXPECT, HeaderName, TE, UPGRADE};
use http::uri::PathAndQuery;
use http::{Method, Version};
use sluicegate_base::bounds;
use sluicegate_base::received::{ReceivedFields, ReceivedHead};
use sluicegate_decide::response::HttpViolation;
use sluicegate_http1::{BodyFraming, ConnectionOptions, HttpVersion, RequestHead, RuleViolation};

use super::head_writer::ConnectionPersistence;
use crate::gateway::{http_versions, upgrade_header};
use sluicegate_config::rules::ClientRules;
use sluicegate_origin::{CDN_LOOP, named_by_connection};

/// A request whose head was received.
pub(super) struct ReceivedRequest {
    /// Its head, with the names of its fields in lower case.
    pub(super) head: ReceivedHead,
    /// The facts of its body and its connection.
    pub(super) wire: RequestWire,
    /// The options of its connection.
    options: ConnectionOptions,
    /// False if its target cannot be written as HTTP/1.1 has it.
    is_readable: bool,
}

/// The facts of a request's body and connection, from its head.
pub(super) struct RequestWire {
    /// The method that it was sent with: an answer to HEAD has no body.
    pub(super) method: Method,
    /// The framing of its body.
    pub(super) framing: BodyFraming,
    /// The persistence of the connection that its client asks for.
    pub(super) persistence: ConnectionPersistence,
    /// True if the client sends the body after `100 Continue`, RFC 9110 §10.1.1.
    pub(super) expects_continue: bool,
    /// True if the client asks for an upgrade to WebSocket.
    pub(super) is_upgrade: bool,
}

impl ReceivedRequest {
    /// Returns the request with this head, whose bytes are `read`; `None` where its method, its target or a name is longer than the
    /// http crate has them.
    pub(super) fn new(parsed: &RequestHead, read: BytesMut) -> Option<Box<Self>> {
        // The fields and the target are parts of the received bytes, not copies.
        let headers = ReceivedFields::in_bytes(read, parsed.fields().places())?;
        let read = headers.bytes();
        let options = ConnectionOptions::new(parsed.fields(), read);
        let target = read.slice_ref(parsed.target(read));
        let mut head = ReceivedHead {
            method: Method::from_bytes(parsed.method(read)).ok()?,
            uri: PathAndQuery::from_maybe_shared(target).ok()?.into(),
            version: match parsed.version() {
                HttpVersion::Http10 => Version::HTTP_10,
                HttpVersion::Http11 => Version::HTTP_11,
            },
            headers,
        };
        let wire = RequestWire {
            method: head.method.clone(),
            expects_continue: expects_continue(&head),
            is_upgrade: head.headers.contains_key(UPGRADE)
                && keeps_upgrade(parsed, options, &mut head),
            framing: parsed.framing(),
            persistence: if options.keeps_connection(parsed.version()) {
                ConnectionPersistence::Keep
            } else {
                ConnectionPersistence::Close
            },
        };
        // Boxed where it is made, so that it is not copied from stage to stage.
        Some(Box::new(Self {
            head,
            wire,
            options,
            is_readable: true,
        }))
    }

    /// Returns the request of a stream of HTTP/2, whose body is empty or follows.
    pub(super) fn of_stream(mut head: ReceivedHead, is_empty: bool) -> Box<Self> {
        // No field of a stream, but what stands for an extended CONNECT.
        let is_upgrade = head.headers.contains_key(UPGRADE);
        let announced = length(&head.headers);
        let framing = match announced {
            Some(0) if is_empty => BodyFraming::Length(0),
            // RFC 9110 §8.6: such a request states that it has no content; some servers answer 411 where it does not.
            None if is_empty && has_content_by_method(&head.method) => BodyFraming::Length(0),
            _ if is_empty || is_upgrade => BodyFraming::None,
            // A body that is announced as empty and may still come has no length yet: with one, an origin would take the request for
            // whole before bytes come that make it malformed (RFC 9113 §8.1.1).
            None | Some(0) => BodyFraming::UntilClose,
            Some(bytes) => BodyFraming::Length(bytes),
        };
        Box::new(Self {
            is_readable: http_versions::encode_query(&mut head).is_ok(),
            wire: RequestWire {
                method: head.method.clone(),
                framing,
                persistence: ConnectionPersistence::Keep,
                expects_continue: expects_continue(&head),
                is_upgrade,
            },
            head,
            options: ConnectionOptions::default(),
        })
    }

    /// Checks the rules that the parser of its version does not: no field of HTTP/2 looks like one that frames a message of HTTP/1.1;
    /// `Connection` names fields that may be removed, and few of them, since each is looked for in the whole head. Removes these fields: no
    /// key, route or stored response depends on what the origin does not get.
    ///
    /// # Errors
    /// The rule that the request breaks.
    pub(super) fn check(&mut self, client: &ClientRules) -> Result<(), HttpViolation> {
        if !self.is_readable {
            return Err(HttpViolation::Http2);
        }
        if http_versions::has_framing_name(&self.head) {
            return Err(RuleViolation::FramingName.into());
        }
        if self.options.others() == 0 {
            return Ok(());
        }
        if self.options.is_malformed() || self.options.others() > bounds::NOMINATED_FIELDS {
            return Err(HttpViolation::ConnectionOption);
        }
        let mut named: Vec<HeaderName> = named_by_connection(&self.head.headers).collect();
        if named.iter().any(|name| must_stay(name, client)) {
            return Err(HttpViolation::ConnectionOption);
        }
        // Whether trailers are accepted is written for the next hop, RFC 9113 §8.2.2. Nobody removes the hops of a request, RFC 8586 §2.
        named.retain(|name| *name != TE && *name != CDN_LOOP);
        self.head.headers.remove_all(named);
        Ok(())
    }
}

/// Returns whether the client asks for an upgrade to WebSocket, and removes the fields of any other upgrade.
fn keeps_upgrade(
    parsed: &RequestHead,
    options: ConnectionOptions,
    head: &mut ReceivedHead,
) -> bool {
    let has_body = !matches!(parsed.framing(), BodyFraming::None | BodyFraming::Length(0));
    let is_upgrade = parsed.version() == HttpVersion::Http11
        && options.has_upgrade()
        && upgrade_header::is_to_websocket(head, has_body);
    if !is_upgrade {
        upgrade_header::remove(head);
    }
    is_upgrade
}

/// Returns whether requests of this method usually have content: RFC 9110 §9.3.3, §9.3.4, RFC 5789 §2.
fn has_content_by_method(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// Returns whether the client sends the body after `100 Continue`, which HTTP/1.0 does not have.
fn expects_continue(head: &ReceivedHead) -> bool {
    let expected = head.headers.get(EXPECT);
    head.version != Version::HTTP_10
        && expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Returns whether the body of a stream is announced as empty, and its end may still come.
pub(super) fn awaits_empty_end(wire: &RequestWire, head: &ReceivedHead) -> bool {
    wire.framing == BodyFraming::UntilClose && length(&head.headers) == Some(0)
}

/// Returns the length of a body, where one valid field states it; locating the request rejects all others.
fn length(fields: &ReceivedFields) -> Option<u64> {
    let mut lengths = fields.get_all(CONTENT_LENGTH);
    let digits = lengths.next()?.to_str().ok()?;
    let is_alone = lengths.next().is_none() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_alone.then(|| digits.parse().ok()).flatten()
}

/// Returns whether a request without this field would come from another client, or mean something else to the origin.
fn must_stay(name: &HeaderName, client: &ClientRules) -> bool {
    matches!(
        name.as_str(),
        "host" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto"
    ) || name == client.client_ip_header.field_name()
}

#[cfg(test)]
mod tests {
    use sluicegate_http1::HeadLimits;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes: 1024,
        fields: 8,
        target: 64,
    };

    fn received(head: &[u8]) -> Option<Box<ReceivedRequest>> {
        let mut parsed = RequestHead::new();
        parsed.parse(head, &LIMITS).ok()?;
        ReceivedRequest::new(&parsed, BytesMut::from(head))
    }

    /// Goal: what the parser lets through is a name and a value of the http crate too, so that a copy for its maps cannot fail. Method:
    /// each byte in a name and in a value.
    #[test]
    fn what_is_parsed_fits_a_map() {
        const NAME: (&str, &str) = ("GET / HTTP/1.1\r\nHost: a\r\nx", "y: b\r\n\r\n");
        const VALUE: (&str, &str) = ("GET / HTTP/1.1\r\nHost: a\r\nx: y", "z\r\n\r\n");
        let mut read = 0;
        for byte in 0..=u8::MAX {
            for (before, behind) in [NAME, VALUE] {
                let head = [before.as_bytes(), &[byte], behind.as_bytes()].concat();
                if let Some(request) = received(&head) {
                    assert_eq!(request.head.headers.to_map().len(), 2, "{byte}");
                    read += 1;
                }
            }
        }
        assert!(read > 256);
    }

    /// Goal: target and values are as sent, names are in lower case. Method: a head in which all have letters of both cases.
    #[test]
    fn names_alone_become_lower_case() {
        let request =
            received(b"GET /A?B=c HTTP/1.0\r\nHOST: A.test\r\nX-Client-Name:\tB c \r\n\r\n");
        let head = request.expect("a request").head;
        assert_eq!(
            (head.raw_path(), head.version),
            (&b"/A?B=c"[..], Version::HTTP_10)
        );
        let fields: Vec<_> = head.headers.lines().collect();
        assert_eq!(fields[0].line, Some(&b"host: A.test\r\n"[..]));
        assert_eq!(fields[1].name.as_str(), "x-client-name");
        assert_eq!(
            (fields[1].value.as_bytes(), fields[1].line),
            (&b"B c"[..], None)
        );
    }
}
