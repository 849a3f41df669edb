//! Parses lines of JSON whose members have the names of a server or a service: Envoy, Traefik, Cloudflare, Fastly.
//!
//! Such a format is a table of names and meanings. Operators choose which members are logged, so none but a client, a time and a place for
//! the path is needed.

use crate::json::{self, JsonValue};
use crate::line::{FieldKind, LineError, ParsedLine};
use crate::skipped::SkippedKind;
use crate::text::RawText;
use crate::values::{DurationUnit, LineValues, RequestEdge, ValueMeaning};

/// Bytes of the longest name of Envoy's that has a meaning.
const LONGEST_NAME: usize = 48;

/// The members of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberNames {
    /// Those of Istio, Contour, Envoy Gateway, and of the examples of Envoy.
    Envoy,
    /// Those of Traefik's access log.
    Traefik,
    /// Those of the data set of HTTP requests of Cloudflare's Logpush.
    Cloudflare,
    /// Those that Fastly recommends.
    Fastly,
}

impl MemberNames {
    /// Returns the name of the format.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy-json",
            Self::Traefik => "traefik",
            Self::Cloudflare => "cloudflare",
            Self::Fastly => "fastly",
        }
    }

    /// Parses a line.
    pub(crate) fn parse<'a>(
        self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        let mut fields = None;
        let mut is_message = false;
        let mut values = LineValues::new(into);
        json::members(line, |name, value| {
            let name = name.raw();
            match (name, value) {
                // Custom fields of Cloudflare.
                (b"RequestHeaders", JsonValue::Nested(nested)) => fields = Some(nested),
                (b"msg" | b"message", _) => is_message = true,
                _ => {}
            }
            values.set(self.meaning(name), name, value.text().unwrap_or_default())
        })?;
        if !values.names_target() {
            // Servers write their messages with a text in the same member.
            return Err(match is_message {
                true => LineError::NoRequest(SkippedKind::Message),
                false => LineError::Malformed("there is no member with the path of a request"),
            });
        }
        if !values.has_target() {
            return Err(LineError::NoRequest(SkippedKind::Connection));
        }
        values.finish();
        if let Some(fields) = fields {
            json::members(fields, |name, value| {
                let value: RawText<'a> = value.text().unwrap_or_default();
                into.add(FieldKind::RequestField, name, value);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Returns the meaning of a member.
    pub(crate) fn meaning(self, name: &[u8]) -> ValueMeaning {
        match self {
            Self::Envoy => envoy(normalized(name, &mut [0; LONGEST_NAME])),
            Self::Traefik => traefik(name),
            Self::Cloudflare => cloudflare(name),
            Self::Fastly => fastly(name),
        }
    }
}

/// Returns a name in lower case, with an underscore for each dash and without a colon before it; operators write Envoy's in all of these
/// ways. Longer names have no meaning.
fn normalized<'n>(name: &[u8], into: &'n mut [u8; LONGEST_NAME]) -> &'n [u8] {
    let name = name.strip_prefix(b":").unwrap_or(name);
    let Some(into) = into.get_mut(..name.len()) else {
        return b"";
    };
    for (into, byte) in into.iter_mut().zip(name) {
        *into = match byte {
            b'-' | b'.' => b'_',
            _ => byte.to_ascii_lowercase(),
        };
    }
    into
}

/// Envoy logs the begin of a request; the path that the client sent is in a field of its own where Envoy rewrote it.
fn envoy(name: &[u8]) -> ValueMeaning {
    match name {
        b"start_time" | b"@timestamp" | b"timestamp" | b"time" | b"starttime" => {
            ValueMeaning::Time(RequestEdge::Begin)
        }
        b"method" | b"request_method" | b"req_method" | b"http_method" | b"httpmethod" => {
            ValueMeaning::Method
        }
        b"x_envoy_original_path"
        | b"x_envoy_origin_path"
        | b"original_path"
        | b"origin_path"
        | b"request_uri"
        | b"req_uri"
        | b"uri"
        | b"url" => ValueMeaning::Target,
        b"path" | b"request_path" | b"req_path" | b"uri_path" | b"url_path" => ValueMeaning::Path,
        b"query" | b"query_string" | b"uri_query" => ValueMeaning::Query,
        b"authority" | b"host" | b"request_authority" | b"req_authority" => ValueMeaning::Host,
        b"response_code" | b"responsecode" | b"response_status" | b"status_code" | b"status" => {
            ValueMeaning::Status
        }
        b"bytes_sent" => ValueMeaning::Bytes,
        b"duration" | b"duration_ms" | b"clientduration" => {
            ValueMeaning::Duration(DurationUnit::Millis)
        }
        b"response_duration" => ValueMeaning::FirstByte(DurationUnit::Millis),
        b"request_id" | b"x_request_id" | b"req_id" | b"requestid" => ValueMeaning::Id,
        b"user_agent" => ValueMeaning::Field(b"user-agent"),
        b"referer" => ValueMeaning::Field(b"referer"),
        b"x_forwarded_for" | b"forwarded_for" => ValueMeaning::ForwardedFor,
        b"downstream_remote_address"
        | b"downstream_remote_address_without_port"
        | b"downstream_remote_addr"
        | b"remote_address" => ValueMeaning::Client,
        b"downstream_direct_remote_address" | b"downstream_direct_remote_address_without_port" => {
            ValueMeaning::Peer
        }
        _ => ValueMeaning::Other,
    }
}

/// Traefik's names (doc.traefik.io, "Access logs"); durations are in nanoseconds, kept request fields have `request_` before their name.
fn traefik(name: &[u8]) -> ValueMeaning {
    const REQUEST_FIELD: &[u8] = b"request_";
    match name {
        b"StartUTC" | b"StartLocal" => ValueMeaning::Time(RequestEdge::Begin),
        b"time" => ValueMeaning::Time(RequestEdge::End),
        b"ClientHost" | b"ClientAddr" => ValueMeaning::Client,
        b"RequestMethod" => ValueMeaning::Method,
        b"RequestHost" | b"RequestAddr" => ValueMeaning::Host,
        b"RequestPath" => ValueMeaning::Target,
        b"DownstreamStatus" => ValueMeaning::Status,
        b"DownstreamContentSize" => ValueMeaning::Bytes,
        b"Duration" => ValueMeaning::Duration(DurationUnit::Nanos),
        b"request_X-Request-Id" => ValueMeaning::Id,
        name if name.starts_with(REQUEST_FIELD) => ValueMeaning::FieldBehind(REQUEST_FIELD.len()),
        _ => ValueMeaning::Other,
    }
}

/// Cloudflare's names (developers.cloudflare.com, "HTTP requests").
fn cloudflare(name: &[u8]) -> ValueMeaning {
    match name {
        b"EdgeStartTimestamp" => ValueMeaning::Time(RequestEdge::Begin),
        b"EdgeEndTimestamp" => ValueMeaning::Time(RequestEdge::End),
        b"ClientIP" => ValueMeaning::Client,
        b"ClientRequestMethod" => ValueMeaning::Method,
        b"ClientRequestHost" => ValueMeaning::Host,
        b"ClientRequestURI" => ValueMeaning::Target,
        b"ClientRequestPath" => ValueMeaning::Path,
        b"ClientRequestUserAgent" => ValueMeaning::Field(b"user-agent"),
        b"ClientRequestReferer" => ValueMeaning::Field(b"referer"),
        b"ClientXRequestedWith" => ValueMeaning::Field(b"x-requested-with"),
        b"EdgeResponseStatus" => ValueMeaning::Status,
        b"EdgeResponseBytes" => ValueMeaning::Bytes,
        b"EdgeTimeToFirstByteMs" => ValueMeaning::FirstByte(DurationUnit::Millis),
        b"CacheCacheStatus" => ValueMeaning::CacheResult,
        b"RayID" => ValueMeaning::Id,
        _ => ValueMeaning::Other,
    }
}

/// Fastly's names (docs.fastly.com, "Log streaming", and the formats of its endpoints); the time is that of the begin.
fn fastly(name: &[u8]) -> ValueMeaning {
    match name {
        b"timestamp" | b"time" | b"time_start" | b"start_time" => {
            ValueMeaning::Time(RequestEdge::Begin)
        }
        b"time_end" | b"end_time" => ValueMeaning::Time(RequestEdge::End),
        b"client_ip" | b"fastly_client_ip" => ValueMeaning::Client,
        b"request_method" | b"req_method" | b"method" => ValueMeaning::Method,
        b"request" => ValueMeaning::RequestLine,
        b"host" | b"req_host" | b"request_host" => ValueMeaning::Host,
        b"url" | b"req_url" | b"req_uri" | b"request_url" => ValueMeaning::Target,
        b"request_referer" | b"req_referer" | b"referer" => ValueMeaning::Field(b"referer"),
        b"request_user_agent" | b"req_user_agent" | b"user_agent" => {
            ValueMeaning::Field(b"user-agent")
        }
        b"response_status" | b"resp_status" | b"status" => ValueMeaning::Status,
        b"response_body_size" | b"resp_body_size" | b"bytes" => ValueMeaning::Bytes,
        b"time_elapsed" | b"elapsed_usec" => ValueMeaning::Duration(DurationUnit::Micros),
        b"response_state" | b"cache_status" | b"fastly_info_state" => ValueMeaning::CacheResult,
        _ => ValueMeaning::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::LoggedTreatment;
    use crate::text::value;

    fn parsed<'a>(names: MemberNames, line: &'a str) -> Result<ParsedLine<'a>, LineError> {
        let mut into = ParsedLine::default();
        names.parse(line.trim_ascii_end().as_bytes(), &mut into)?;
        Ok(into)
    }

    /// Goal: the line of Istio's documentation is read. Method: that line (istio.io, "Envoy access logs", JSON), shortened.
    #[test]
    fn the_line_of_istios_documentation_is_read() {
        let line = include_str!("samples/istio.log");
        let into = parsed(MemberNames::Envoy, line).unwrap();
        assert_eq!(into.client, Some("10.44.1.27".parse().unwrap()));
        assert_eq!((into.status, into.duration), (418, Some(18_000_000)));
        assert_eq!(
            (into.host.raw(), into.target.raw()),
            (&b"httpbin:8000"[..], &b"/status/418"[..])
        );
    }

    /// Goal: the path is found by each name that it has in formats of Envoy, and it is the one that the client sent. Method: Envoy
    /// Gateway's default line with the member renamed, and with both paths, in either order.
    #[test]
    fn the_path_of_a_client_has_several_names() {
        let line = include_str!("samples/envoy-gateway.log");
        let target = |path: &str| {
            let text = line.replace("\"x-envoy-origin-path\":\"/get?a=b\"", path);
            let into = parsed(MemberNames::Envoy, &text)?;
            Ok((
                value(into.target),
                value(into.host),
                into.client.map(|client| client.to_string()),
            ))
        };
        let read = |path: &str| {
            Ok((
                path.to_owned(),
                "a.test".to_owned(),
                Some("203.0.113.4".to_owned()),
            ))
        };
        for path in [
            "\"x-envoy-origin-path\":\"/get?a=b\"",
            "\"x-envoy-original-path\":\"/get?a=b\"",
            "\"X_ENVOY_ORIGINAL_PATH\":\"/get?a=b\"",
            "\":path\":\"/get?a=b\"",
            "\"request_uri\":\"/get?a=b\"",
            "\"x-envoy-original-path\":null,\"path\":\"/get?a=b\"",
            "\"path\":\"/rewritten\",\"x-envoy-original-path\":\"/get?a=b\"",
            "\"x-envoy-original-path\":\"/get?a=b\",\"path\":\"/rewritten\"",
        ] {
            assert_eq!(target(path), read("/get?a=b"), "{path}");
        }
        let other: Result<_, LineError> = target("\"route\":\"a\"");
        assert!(matches!(other, Err(LineError::Malformed(_))), "{other:?}");
        let connection = target("\"x-envoy-origin-path\":null");
        assert_eq!(
            connection,
            Err(LineError::NoRequest(SkippedKind::Connection))
        );
    }

    /// Goal: Traefik's lines are read, and its messages are none. Method: a line of its documented members, and a message of its own log.
    #[test]
    fn lines_of_traefik_are_read() {
        let into = parsed(MemberNames::Traefik, include_str!("samples/traefik.log")).unwrap();
        assert_eq!(into.time, 1_795_245_038_042_000_000);
        assert_eq!(into.client, Some("203.0.113.7".parse().unwrap()));
        assert_eq!(
            (into.status, into.bytes, into.duration),
            (404, Some(19), Some(1_500_000))
        );
        assert_eq!(
            (value(into.host), value(into.target)),
            ("shop.test".to_owned(), "/a?b=c".to_owned())
        );
        let fields: Vec<_> = into
            .fields
            .iter()
            .map(|field| (value(field.name), value(field.value)))
            .collect();
        assert_eq!(fields, [("User-Agent".to_owned(), "curl/8".to_owned())]);
        let message = r#"{"level":"error","time":"2026-11-21T07:10:38Z","message":"no route"}"#;
        assert_eq!(
            parsed(MemberNames::Traefik, message).err(),
            Some(LineError::NoRequest(SkippedKind::Message))
        );
    }

    /// Goal: a chain of Traefik's is read, and a malformed time costs no request that has another. Method: the line with `ClientHost` as
    /// behind a proxy, and with a time without a zone.
    #[test]
    fn lines_of_traefik_behind_a_proxy_are_read() {
        let line = include_str!("samples/traefik.log");
        let line = line.replace(
            "\"ClientHost\":\"203.0.113.7\"",
            "\"ClientHost\":\"203.0.113.7,192.0.2.1\"",
        );
        let line = line.replace(
            "\"time\":\"2026-11-21T07:10:38Z\"",
            "\"time\":\"2026-11-21T07:10:38\"",
        );
        let into = parsed(MemberNames::Traefik, &line).unwrap();
        assert_eq!(into.client, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(into.time, 1_795_245_038_042_000_000);
        let chains = into
            .fields
            .iter()
            .filter(|field| field.name.raw() == b"x-forwarded-for");
        let chains: Vec<_> = chains.map(|field| value(field.value)).collect();
        assert_eq!(chains, ["203.0.113.7,192.0.2.1"]);
    }

    /// Goal: Cloudflare's lines are read with each form of times that it offers, and with custom fields. Method: one line in three forms.
    #[test]
    fn lines_of_cloudflare_are_read() {
        let line = include_str!("samples/cloudflare.log");
        for (begin, end) in [
            ("\"2026-11-21T07:10:38Z\"", "\"2026-11-21T07:10:39Z\""),
            ("1795245038", "1795245039"),
            ("1795245038000000000", "1795245039000000000"),
        ] {
            let text = line
                .replace("\"2026-11-21T07:10:38Z\"", begin)
                .replace("\"2026-11-21T07:10:39Z\"", end);
            let into = parsed(MemberNames::Cloudflare, &text).unwrap();
            assert_eq!(
                (into.time, into.duration),
                (1_795_245_038_000_000_000, Some(1_000_000_000))
            );
            assert_eq!(into.client, Some("2001:db8::7".parse().unwrap()));
            assert_eq!(
                (into.status, into.treatment),
                (200, LoggedTreatment::Cached)
            );
            assert_eq!(value(into.target), "/a?b=c");
            let fields: Vec<_> = into.fields.iter().map(|field| value(field.name)).collect();
            assert_eq!(fields, ["user-agent", "x-api-key"]);
        }
    }

    /// Goal: Fastly's lines are read. Method: the members that it recommends, and the older ones, whose request is the method.
    #[test]
    fn lines_of_fastly_are_read() {
        let line = include_str!("samples/fastly.log");
        let older = line
            .replace("\"request_method\"", "\"request\"")
            .replace("\"response_status\"", "\"status\"");
        for text in [line, &older] {
            let into = parsed(MemberNames::Fastly, text).unwrap();
            assert_eq!(into.time, 1_795_245_038_000_000_000);
            assert_eq!(into.client, Some("203.0.113.7".parse().unwrap()));
            assert_eq!(
                (value(into.method), value(into.target)),
                ("POST".to_owned(), "/a?b=c".to_owned())
            );
            assert_eq!((into.status, into.bytes), (503, Some(345)));
            assert_eq!(into.treatment, LoggedTreatment::Answered);
        }
    }
}
