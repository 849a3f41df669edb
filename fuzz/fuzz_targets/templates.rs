//! Fuzzes keys of heads: a request in another spelling takes the same route, and what one spent the other cannot spend again.
//!
//! A mask says where the second spelling escapes, doubles slashes, adds dots and parameters of segments, quotes cookies, repeats values,
//! writes numbers with blanks and addresses with tags. Each is something that origins, or the normalizers, take for the same.
//!
//! A case is text: a route's pattern, `METHOD target`, the mask, then one header field a line.
#![no_main]

use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderName, HeaderValue, Method};
use libfuzzer_sys::{Corpus, fuzz_target};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config as config;
use sluicegate_decide::admission::{
    Admission, ChargeTiming, KeySeed, KnownBody, RouteLimits, evaluate,
};
use sluicegate_decide::client::ConnectionPeer;
use sluicegate_decide::compiled_rules::CompiledRules;
use sluicegate_decide::locate::{LocatedRequest, locate};
use sluicegate_decide::rejection::{MissingKeys, Rejection, RejectionReason};
use sluicegate_decide::request_head::RequestHead;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_decide::route;
use sluicegate_limiter::{Seed, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fuzz_target!(|text: &str| -> Corpus { run(text).map_or(Corpus::Reject, |()| Corpus::Keep) });

fn run(text: &str) -> Option<()> {
    let mut lines = text.split('\n');
    let compiled = compiled(lines.next()?)?;
    let (method, target) = lines.next()?.split_once(' ')?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let mut mask = Mask(lines.next()?.bytes());
    let (mut headers, mut other_headers) = (ReceivedFields::new(), ReceivedFields::new());
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::try_from(name).ok()?;
        // Copies of a field must be the same to the byte, in whatever form they are counted; only cookies are compared as decoded.
        if headers.contains_key(&name) && name != COOKIE {
            return None;
        }
        headers.append(&name, HeaderValue::from_str(value.trim()).ok()?);
        for other in mask.field(name.as_str(), value.trim()) {
            other_headers.append(&name, HeaderValue::from_str(&other).ok()?);
        }
    }
    // Only a path has other spellings.
    let other_target = match target.starts_with('/') {
        true => mask.target(target),
        false => target.to_owned(),
    };
    let locate = |target, headers| {
        let head = RequestHead {
            method: &method,
            target,
            authority: Some("example.com"),
            headers,
        };
        locate(
            &compiled,
            ConnectionPeer::plain([192, 0, 2, 1].into()),
            &head,
            NOW,
        )
    };
    match (
        locate(target, &headers),
        locate(&other_target, &other_headers),
    ) {
        (Ok(one), Ok(other)) => {
            assert!(
                Arc::ptr_eq(one.route, other.route),
                "{other_target:?} takes another route"
            );
            counted_together(&one, &other);
        }
        // A spelling that origins read in two ways is rejected, and spends nothing.
        (Err(GatewayProblem::AmbiguousPath), _) | (_, Err(GatewayProblem::AmbiguousPath)) => {}
        (Err(one), Err(other)) => assert_eq!(one, other, "{other_target:?}"),
        (one, other) => panic!("{:?}, but {other_target:?}: {:?}", one.err(), other.err()),
    }
    Some(())
}

/// Each limit admits one request a day, so it must refuse the second spelling if it has one counter for both.
fn counted_together(one: &LocatedRequest<'_>, other: &LocatedRequest<'_>) {
    let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
    for limit in one.limits().iter() {
        let alone = RouteLimits::new(vec![Arc::clone(limit)], |_| None);
        let asked = |located: &LocatedRequest<'_>| {
            let mut gaps = MissingKeys::default();
            let facts = located.facts(KnownBody::Unread, NOW);
            let progress = evaluate(&alone, &facts, &seed, ChargeTiming::AtOnce, &mut gaps);
            (progress.without_store(NOW), gaps)
        };
        let ((first, gaps), (second, other_gaps)) = (asked(one), asked(other));
        let sound = match first {
            Admission::Admitted(..) => matches!(
                second,
                Admission::Rejected(Rejection::ByLimit(by), _)
                    if matches!(by.reason, RejectionReason::RateLimited(_))
            ),
            Admission::Rejected(Rejection::KeyMissing, _) => gaps == other_gaps,
            // No limit here bans, bounds what is in flight, names keys of its own or asks a store.
            Admission::Rejected(..) => false,
        };
        assert!(
            sound,
            "{}: {gaps:?}, then {second:?}, {other_gaps:?}",
            limit.name
        );
    }
}

/// Two routes by the pattern, of which one asks for a parameter of the query, before one for all the rest.
fn compiled(pattern: &str) -> Option<CompiledRules> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/{}*._-~%".contains(c);
    let pattern: String = pattern
        .chars()
        .map(|c| {
            if plain(c) {
                c.to_string()
            } else {
                format!("\\U{:08X}", u32::from(c))
            }
        })
        .collect();
    let mut limits = String::new();
    let mut text = String::new();
    let id = pattern
        .contains("{id}")
        .then_some(("id", "path.id | lower"));
    let keys = [
        ("path", "path"),
        ("query", "query.q"),
        ("cookie", "cookie.sid"),
        ("phone", "header.x-phone | e164 DE"),
        ("mail", "header.x-mail | email"),
        ("name", "header.x-name | lower | trim | first 8"),
    ];
    for (name, key) in keys.into_iter().chain(id) {
        let certain = key.starts_with("path");
        let on_missing = if certain {
            ""
        } else {
            "on_missing = \"refuse\"\n"
        };
        text += &format!(
            "[limit.{name}]\nkey = '{key}'\nrates = [\"1 per 1d\"]\ncapacity = 64\n{on_missing}"
        );
        limits += &format!("\"{name}\",");
    }
    for (path, more) in [
        (
            &*pattern,
            "query = { v = \"a b\" }\n".to_owned() + &format!("limits = [{limits}]\n"),
        ),
        (&*pattern, format!("limits = [{limits}]\n")),
        ("/*", String::new()),
    ] {
        text += &format!("[[route]]\npath = \"{path}\"\nrespond = {{ status = 204 }}\n{more}");
    }
    text += "[[listener]]\naddress = \"127.0.0.1:8080\"\n[server]\nmax_header_bytes = 1048576\n";
    let rules = config::parse("gateway.toml", &text, route::review)
        .ok()?
        .rules;
    let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
    Some(CompiledRules::alone(rules, &seed, NOW))
}

/// Where the second spelling differs from the first: bit after bit, and nowhere when it is spent.
struct Mask<'a>(std::str::Bytes<'a>);

impl Mask<'_> {
    /// What to do next, as one of `choices`.
    fn next(&mut self, choices: u8) -> u8 {
        self.0.next().map_or(0, |byte| byte % choices)
    }

    fn target(&mut self, target: &str) -> String {
        let end = target.find(['?', '#']).unwrap_or(target.len());
        let (path, rest) = target.split_at(end);
        let mut other = self.path(path);
        if let Some(query) = rest.strip_prefix('?') {
            let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
            other.push('?');
            other += &self.escape(query, "&=;+");
            if self.next(2) == 1 {
                other.push('&');
                other += &self.escape(query, "&=;+");
            }
            other += fragment;
        } else {
            other += rest;
        }
        other
    }

    /// Dots, slashes and parameters that vanish, and escapes.
    fn path(&mut self, path: &str) -> String {
        let mut segments = path.split('/');
        let mut other = self.escape(segments.next().unwrap_or_default(), ";");
        for segment in segments {
            other += ["/", "//", "/./", "/%2e/", "/;x/", "/.;y=z/"][usize::from(self.next(6))];
            other += &self.escape(segment, ";");
            if !segment.is_empty() {
                other += ["", ";", ";x=y"][usize::from(self.next(3))];
            }
        }
        other
    }

    /// Escapes what is not in `kept`, and keeps what looks like an escape but for its case.
    fn escape(&mut self, text: &str, kept: &str) -> String {
        let mut other = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let escape = rest.get(..3).filter(|escape| {
                first == '%' && escape[1..].bytes().all(|digit| digit.is_ascii_hexdigit())
            });
            let width = escape.map_or(first.len_utf8(), str::len);
            let (unit, behind) = rest.split_at(width);
            rest = behind;
            match self.next(3) {
                0 => other += unit,
                1 if escape.is_some() => other += &unit.to_ascii_uppercase(),
                _ if escape.is_some() => other += &unit.to_ascii_lowercase(),
                _ if first == '%' || kept.contains(first) => other += unit,
                1 => other.extend(unit.bytes().map(|byte| format!("%{byte:02X}"))),
                _ => other.extend(unit.bytes().map(|byte| format!("%{byte:02x}"))),
            }
        }
        other
    }

    /// The fields that say the same as one of this name and value.
    fn field(&mut self, name: &str, value: &str) -> Vec<String> {
        match name {
            "cookie" => self.cookies(value),
            "x-phone" => vec![self.phone(value)],
            "x-mail" => vec![self.mail(value)],
            "x-name" => vec![self.letters(value)],
            _ => vec![value.to_owned()],
        }
    }

    fn cookies(&mut self, field: &str) -> Vec<String> {
        let mut fields = vec![String::new()];
        for (at, pair) in field.split(';').enumerate() {
            let other = match pair.split_once('=') {
                Some((name, value)) => {
                    let value = value.trim_ascii();
                    let quoted = value.starts_with('"') && value.ends_with('"');
                    let escaped = self.escape(value, "\" \t");
                    match self.next(2) {
                        1 if !quoted => format!("{name}=\"{escaped}\""),
                        _ => format!("{name}={escaped}"),
                    }
                }
                None => pair.to_owned(),
            };
            match (at, self.next(3)) {
                (0, _) => fields[0] = other,
                (_, 1) => fields.push(other),
                _ => fields[0] += &format!(";{other}"),
            }
        }
        fields
    }

    fn phone(&mut self, number: &str) -> String {
        let shape = |c: char| c.is_ascii_digit() || "+ -./()".contains(c);
        if !number.chars().all(shape) {
            return number.to_owned();
        }
        let apart = |c: char, between: u8| match between {
            1 => format!("{c} "),
            2 => format!("{c}-"),
            _ => c.to_string(),
        };
        let other: String = number.chars().map(|c| apart(c, self.next(3))).collect();
        // A number with more than this between its digits is none.
        if other.trim().len() > 40 {
            number.to_owned()
        } else {
            other.trim().to_owned()
        }
    }

    fn mail(&mut self, address: &str) -> String {
        let other = self.letters(address);
        match other.rsplit_once('@') {
            Some((local, domain)) if self.next(2) == 1 => format!("{local}+tag@{domain}"),
            _ => other,
        }
    }

    fn letters(&mut self, text: &str) -> String {
        let turned = |c: char, turn: u8| match turn {
            1 => c.to_ascii_uppercase(),
            2 => c.to_ascii_lowercase(),
            _ => c,
        };
        text.chars().map(|c| turned(c, self.next(3))).collect()
    }
}
