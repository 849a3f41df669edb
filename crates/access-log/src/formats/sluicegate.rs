//! Parses Sluicegate's own lines of JSON.
//!
//! `decided_ns`, `key_hashes` and `reserves` are there with `[log] replay = true`: the time at which the limits decided, the keys by which
//! they count, and the costs that requests announced, whose values are in no log.

use crate::address::address;
use crate::json::{self, JsonValue};
use crate::line::{FieldKind, LineError, LoggedTreatment, ParsedLine};
use crate::member_order::MemberOrder;
use crate::minute_cache::MinuteCache;
use crate::text::RawText;
use crate::time;

/// The meaning of a member of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineMember {
    Time,
    DecidedTime,
    Id,
    Client,
    Peer,
    Method,
    Host,
    Target,
    Status,
    BytesOut,
    Duration,
    FirstByte,
    Delay,
    Hits,
    Crawler,
    CrawlerProof,
    LeftOut,
    Route,
    Outcome,
    Fields,
    KeyHashes,
    Cost,
    Refunded,
    Reserves,
    /// Nothing that is read.
    Other,
}

impl LineMember {
    /// Returns the meaning of the member with this name.
    fn named(name: &[u8]) -> Self {
        match name {
            b"time" => Self::Time,
            b"decided_ns" => Self::DecidedTime,
            b"id" => Self::Id,
            b"client" => Self::Client,
            b"peer" => Self::Peer,
            b"method" => Self::Method,
            b"host" => Self::Host,
            b"target" => Self::Target,
            b"status" => Self::Status,
            b"bytes_out" => Self::BytesOut,
            b"duration_ms" => Self::Duration,
            b"origin_ttfb_ms" => Self::FirstByte,
            b"delay_ms" => Self::Delay,
            b"hits" => Self::Hits,
            b"crawler" => Self::Crawler,
            b"crawler_proof" => Self::CrawlerProof,
            b"left_out" => Self::LeftOut,
            b"route" => Self::Route,
            b"outcome" => Self::Outcome,
            b"fields" => Self::Fields,
            b"key_hashes" => Self::KeyHashes,
            b"cost" => Self::Cost,
            b"refunded" => Self::Refunded,
            b"reserves" => Self::Reserves,
            _ => Self::Other,
        }
    }
}

/// Parses a line, with the order of members and the minute of the lines before it.
pub(crate) fn parse<'a>(
    line: &'a [u8],
    members: &mut MemberOrder<LineMember>,
    minute: &mut MinuteCache,
    into: &mut ParsedLine<'a>,
) -> Result<(), LineError> {
    let mut has_outcome = false;
    let mut has_route = false;
    let mut delay = 0;
    let mut decided = None;
    json::members_in_order(line, members, LineMember::named, |member, value| {
        let raw = value.raw();
        match member {
            LineMember::Time => into.time = minute.rfc3339(raw).unwrap_or(0),
            LineMember::DecidedTime => decided = time::number(raw),
            LineMember::Id => into.id = value.text().unwrap_or_default(),
            LineMember::Client => into.client = address(raw),
            LineMember::Peer => into.peer = address(raw),
            LineMember::Method => into.method = value.text().unwrap_or_default(),
            LineMember::Host => into.host = value.text().unwrap_or_default(),
            LineMember::Target => into.target = value.text().unwrap_or_default(),
            LineMember::Status => into.status = status(raw),
            LineMember::BytesOut => into.bytes = time::number(raw),
            LineMember::Duration => into.duration = time::millis(raw),
            LineMember::FirstByte => into.first_byte = time::millis(raw),
            LineMember::Delay => delay = time::millis(raw).unwrap_or(0),
            LineMember::Hits => {
                into.hits = time::number(raw).and_then(|hits| u32::try_from(hits).ok());
            }
            LineMember::Crawler => crawler(b"crawler", value, into),
            LineMember::CrawlerProof => crawler(b"crawler_proof", value, into),
            LineMember::LeftOut => into.left_out = time::number(raw).unwrap_or(0),
            LineMember::Route => has_route = true,
            LineMember::Outcome => {
                has_outcome = true;
                into.treatment = treatment(raw);
            }
            LineMember::Fields => nested(value, FieldKind::RequestField, into)?,
            LineMember::KeyHashes => nested(value, FieldKind::KeyHash, into)?,
            LineMember::Cost => nested(value, FieldKind::Cost, into)?,
            LineMember::Refunded => refunds(value, into)?,
            LineMember::Reserves => nested(value, FieldKind::Reserve, into)?,
            LineMember::Other => {}
        }
        Ok(())
    })?;
    if !has_outcome {
        return Err(LineError::Malformed("there is no \"outcome\""));
    }
    if into.treatment == LoggedTreatment::Malformed && has_route {
        into.treatment = LoggedTreatment::Answered;
    }
    // A request waits for its turn before it is served; replay adds the wait that it finds.
    into.duration = into.duration.map(|duration| duration.saturating_sub(delay));
    into.time = decided.unwrap_or(into.time);
    Ok(())
}

fn status(digits: &[u8]) -> u16 {
    let status = time::number(digits).and_then(|status| u16::try_from(status).ok());
    status.unwrap_or(0)
}

fn treatment(outcome: &[u8]) -> LoggedTreatment {
    match outcome {
        b"cached" => LoggedTreatment::Cached,
        b"allowed" => LoggedTreatment::Allowed,
        b"rate-limited"
        | b"challenged"
        | b"banned"
        | b"refused-concurrency"
        | b"store-unavailable" => LoggedTreatment::Limited,
        b"rejected" => LoggedTreatment::Malformed,
        _ => LoggedTreatment::Answered,
    }
}

/// Adds a value about the crawler of the client.
fn crawler<'a>(name: &'static [u8], value: JsonValue<'a>, into: &mut ParsedLine<'a>) {
    let value = value.text().unwrap_or_default();
    into.add(FieldKind::Crawler, RawText::plain(name), value);
}

fn nested<'a>(
    object: JsonValue<'a>,
    kind: FieldKind,
    into: &mut ParsedLine<'a>,
) -> Result<(), LineError> {
    let JsonValue::Nested(object) = object else {
        return Ok(());
    };
    json::members(object, |name, value| {
        let value: RawText<'a> = value.text().unwrap_or_default();
        into.add(kind, name, value);
        Ok(())
    })
}

/// Adds a cost of 0 for each limit of a list of those whose charge was given back.
fn refunds<'a>(limits: JsonValue<'a>, into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    let JsonValue::Nested(array) = limits else {
        return Ok(());
    };
    json::strings(array, |name| {
        into.add(FieldKind::Cost, name, RawText::plain(b"0"));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<ParsedLine<'_>, LineError> {
        let mut into = ParsedLine::default();
        let (mut members, mut minute) = (MemberOrder::default(), MinuteCache::default());
        parse(line.as_bytes(), &mut members, &mut minute, &mut into)?;
        Ok(into)
    }

    /// Goal: everything that decides is read. Method: a line with all of it.
    #[test]
    fn a_whole_line_is_read() {
        let line = parsed(include_str!("samples/sluicegate.log").trim_end()).unwrap();
        assert_eq!(line.time, 1_795_245_038_042_123_456);
        assert_eq!(line.client, Some("203.0.113.7".parse().unwrap()));
        assert_eq!(line.peer, Some("10.0.0.1".parse().unwrap()));
        assert_eq!(
            (line.status, line.bytes, line.left_out),
            (200, Some(345), 9)
        );
        assert_eq!(line.hits, Some(3));
        assert_eq!(line.duration, Some(12_500_000));
        assert_eq!(line.first_byte, Some(3_042_000));
        let kinds: Vec<_> = line
            .fields
            .iter()
            .map(|field| (field.kind, field.name.raw(), field.value.raw()))
            .collect();
        assert_eq!(
            kinds,
            [
                (FieldKind::RequestField, &b"x-plan"[..], &b"free"[..]),
                (FieldKind::Cost, b"otp", b"7"),
                (FieldKind::KeyHash, b"header.x-plan", b"00000000000000aa"),
            ]
        );
    }

    /// Goal: what replay holds and settles is read: announced reserves, costs, and charges that were given back. Method: a line with each.
    #[test]
    fn reserves_costs_and_refunds_are_read() {
        let line = parsed(
            r#"{"time":"2026-11-21T07:10:38Z","outcome":"forwarded","refunded":["a", "b"],"cost":{"c":7},"reserves":{"c":9,"d":1}}"#,
        )
        .unwrap();
        let fields: Vec<_> = (line.fields.iter())
            .map(|field| (field.kind, field.name.raw(), field.value.raw()))
            .collect();
        assert_eq!(
            fields,
            [
                (FieldKind::Cost, &b"a"[..], &b"0"[..]),
                (FieldKind::Cost, b"b", b"0"),
                (FieldKind::Cost, b"c", b"7"),
                (FieldKind::Reserve, b"c", b"9"),
                (FieldKind::Reserve, b"d", b"1"),
            ]
        );
        let empty = r#"{"time":"2026-11-21T07:10:38.042Z","outcome":"forwarded","refunded":[]}"#;
        assert!(parsed(empty).unwrap().fields.is_empty());
    }

    /// Goal: requests that met no limit are told apart from those that broke a rule behind it. Method: outcomes with a route and without.
    #[test]
    fn the_outcome_says_what_became_of_a_request() {
        let treatment = |outcome: &str, route: &str| {
            let text = format!(
                r#"{{"time":"2026-11-21T07:10:38.042Z","client":"::1",{route}"outcome":"{outcome}"}}"#
            );
            parsed(&text).map(|line| line.treatment)
        };
        let route = "\"route\":\"a\",";
        assert_eq!(treatment("rejected", ""), Ok(LoggedTreatment::Malformed));
        assert_eq!(treatment("rejected", route), Ok(LoggedTreatment::Answered));
        assert_eq!(treatment("banned", route), Ok(LoggedTreatment::Limited));
        assert_eq!(treatment("cached", route), Ok(LoggedTreatment::Cached));
        assert_eq!(treatment("allowed", route), Ok(LoggedTreatment::Allowed));
        assert_eq!(
            parsed("{\"time\":\"x\"}").err(),
            Some(LineError::Malformed("there is no \"outcome\""))
        );
    }
}
