//! Chooses among several bodies by what the client's `Accept` prefers, RFC 9110 §12.5.1.
//!
//! The first candidate is the default: it is sent where nothing is asked for, everything is accepted, or nothing that exists is
//! acceptable, since a rejection in another type is more useful than an empty one. Among types that a client prefers equally,
//! one that it names precedes one that a wildcard covers: browsers name `text/html` and accept `*/*`. Parameters other than `q`
//! are not compared.
//!
//! # Limits
//! At most [`ACCEPT_RANGES`](bounds::ACCEPT_RANGES) ranges are read.

use std::cmp::Reverse;

use http::header::ACCEPT;
use sluicegate_base::bounds;
use sluicegate_base::received::ReceivedFields;

/// Returns the index of the candidate to send; `candidates` are media types, the default first. 0 where there are none.
pub(super) fn choose<'a>(
    headers: &ReceivedFields,
    candidates: impl IntoIterator<Item = &'a str>,
) -> usize {
    let ranges = || {
        let lines = headers.get_all(ACCEPT);
        let lines = lines.filter_map(|line| line.to_str().ok());
        lines
            .flat_map(|line| line.split(','))
            .filter_map(MediaRange::parse)
            .take(bounds::ACCEPT_RANGES)
    };
    let candidates = candidates.into_iter().enumerate();
    let liked = candidates.filter_map(|(index, media_type)| {
        // The most specific matching range decides, of equal ones the first.
        let fit = ranges()
            .filter_map(|range| Some((range.fits(media_type)?, Reverse(range.quality))))
            .min()?;
        let (specificity, Reverse(quality)) = fit;
        (quality > 0).then_some((Reverse(quality), specificity, index))
    });
    liked.min().map_or(0, |(_, _, index)| index)
}

/// One media range with its weight.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// Thousandths.
    quality: u16,
}

/// The specificity of a range: the least value is the most specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RangeSpecificity {
    Type,
    Kind,
    Anything,
}

impl<'a> MediaRange<'a> {
    /// Parses a range; `None` for an invalid one, which is ignored.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parameters = text.split(';').map(str::trim);
        let (kind, subtype) = parameters.next()?.split_once('/')?;
        let weight = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("q")
                .then_some(value.trim())
        });
        Some(Self {
            kind,
            subtype,
            quality: weight.map_or(Some(1_000), thousandths)?,
        })
    }

    fn fits(&self, media_type: &str) -> Option<RangeSpecificity> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let (kind, subtype) = essence.split_once('/')?;
        match (self.kind, self.subtype) {
            ("*", "*") => Some(RangeSpecificity::Anything),
            (own, "*") => own
                .eq_ignore_ascii_case(kind)
                .then_some(RangeSpecificity::Kind),
            (own, own_subtype) => (own.eq_ignore_ascii_case(kind)
                && own_subtype.eq_ignore_ascii_case(subtype))
            .then_some(RangeSpecificity::Type),
        }
    }
}

/// Parses a weight, RFC 9110 §12.4.2: `0`, `0.`, up to three decimals, and no more than 1.
pub(super) fn thousandths(weight: &str) -> Option<u16> {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u16 = match whole {
        "0" => 0,
        "1" => 1_000,
        _ => return None,
    };
    let decimals: u16 = format!("{decimals:0<3}").parse().ok()?;
    Some(whole + decimals).filter(|weight| *weight <= 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    const CANDIDATES: [&str; 4] = [
        "application/problem+json",
        "application/json",
        "text/html; charset=utf-8",
        "text/plain; charset=utf-8",
    ];

    fn chosen(accept: &[&str]) -> &'static str {
        let mut headers = ReceivedFields::new();
        for line in accept {
            headers.append(ACCEPT, HeaderValue::from_str(line).expect("a value"));
        }
        CANDIDATES[choose(&headers, CANDIDATES)]
            .split(';')
            .next()
            .expect("a type")
    }

    /// Goal: clients in use get the type that they expect. Method: values of browsers, curl and libraries.
    #[test]
    fn browsers_get_html_and_programs_the_default() {
        let chrome =
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
        assert_eq!(chosen(&[chrome]), "text/html");
        assert_eq!(chosen(&[]), "application/problem+json");
        assert_eq!(chosen(&["*/*"]), "application/problem+json");
        assert_eq!(
            chosen(&["application/json, text/plain, */*"]),
            "application/json"
        );
        assert_eq!(chosen(&["application/json"]), "application/json");
        assert_eq!(chosen(&["text/*"]), "text/html");
    }

    /// Goal: weights decide as the RFC says. Method: equal, lower, zero, malformed, over several lines, and in upper case.
    #[test]
    fn weights_decide_and_named_types_go_first() {
        assert_eq!(
            chosen(&["text/html;q=0.5, text/plain;q=0.501"]),
            "text/plain"
        );
        assert_eq!(chosen(&["*/*, text/html"]), "text/html");
        assert_eq!(chosen(&["text/*, text/html;q=0"]), "text/plain");
        assert_eq!(
            chosen(&["*/*;q=0.1, application/problem+json;q=0"]),
            "application/json"
        );
        assert_eq!(chosen(&["text/html;q=0"]), "application/problem+json");
        assert_eq!(chosen(&["image/png"]), "application/problem+json");
        assert_eq!(chosen(&["text/html;q=2, TEXT/Plain; Q=0.1"]), "text/plain");
        assert_eq!(
            chosen(&["text/html;q=0.2", "text/plain;q=0.3"]),
            "text/plain"
        );
    }

    proptest! {
        /// Goal: no client causes a panic. Method: any visible text, and lists longer than the bound.
        #[test]
        fn any_accept_has_an_answer(line in "[ -~]{0,80}", times in 1..40_usize) {
            let mut headers = ReceivedFields::new();
            let line = vec![line; times].join(",");
            headers.append(ACCEPT, HeaderValue::from_str(&line).expect("a value"));
            prop_assert!(choose(&headers, CANDIDATES) < CANDIDATES.len());
            prop_assert_eq!(choose(&headers, []), 0);
        }
    }
}
