//! Tells the cookies of challenges from those of the site.
//!
//! A cookie is of a challenge only if it is written exactly as the gateway or its page writes it: between boundaries that all parsers of
//! cookies have, with the name of a challenge that exists, and a value that no parser ends early. Everything else is the site's, so no
//! session hides behind the name of a challenge. What is of a challenge goes to no origin.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{COOKIE, HeaderValue};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::Name;

use super::solution::COUNTER_DIGITS;
use super::token::TEXT_LENGTH;

/// The beginning of the cookie that the script of a page writes.
pub(super) const WORK: &str = "sluicegate-work-";
/// The beginning of the cookie that comes with a page.
pub(super) const WAIT: &str = "sluicegate-wait-";

/// The cookies of all challenges of a configuration.
#[derive(Debug, Default)]
pub struct ChallengeCookies(Box<[Name]>);

/// The fields `Cookie` of a request, without the cookies of challenges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiteCookies {
    /// They are as they came.
    AsSent,
    /// The values of those that are left, each as it came but for the cookies that were taken out.
    Others(Vec<Vec<u8>>),
}

impl ChallengeCookies {
    /// Returns the cookies of the challenges of these limits.
    #[must_use]
    pub fn new(limits: impl Iterator<Item = Name>) -> Self {
        Self(limits.collect())
    }

    /// Returns whether a request with these fields carries cookies of the site.
    #[must_use]
    pub fn leave_any(&self, headers: &ReceivedFields) -> bool {
        match self.site_cookies(headers) {
            SiteCookies::AsSent => {
                let mut fields = headers.get_all(COOKIE);
                fields.any(|field| !field.as_bytes().trim_ascii().is_empty())
            }
            SiteCookies::Others(fields) => !fields.is_empty(),
        }
    }

    /// Returns the cookies of the site in these fields.
    #[must_use]
    pub fn site_cookies(&self, headers: &ReceivedFields) -> SiteCookies {
        if self.0.is_empty() || !headers.contains_key(COOKIE) {
            return SiteCookies::AsSent;
        }
        let mut others = Vec::new();
        let mut is_changed = false;
        let mut quotes = QuoteState::Outside;
        for field in headers.get_all(COOKIE) {
            let kept = self.without_own(field.as_bytes(), &mut quotes);
            is_changed |= kept.is_some();
            let kept = kept.unwrap_or_else(|| field.as_bytes().to_vec());
            if !kept.is_empty() {
                others.push(kept);
            }
        }
        if is_changed {
            SiteCookies::Others(others)
        } else {
            SiteCookies::AsSent
        }
    }

    /// Returns the fields on which a response of the origin may depend: these, without the cookies of challenges.
    #[must_use]
    pub fn site_fields<'f>(&self, fields: &'f ReceivedFields) -> Cow<'f, ReceivedFields> {
        let SiteCookies::Others(cookies) = self.site_cookies(fields) else {
            return Cow::Borrowed(fields);
        };
        let cookies: Result<Vec<_>, _> = (cookies.into_iter())
            .map(|cookie| HeaderValue::from_maybe_shared(Bytes::from(cookie)))
            .collect();
        // A part of a value is a value. Were it none, the response would depend on all that came.
        let Ok(cookies) = cookies else {
            return Cow::Borrowed(fields);
        };
        let others =
            (fields.iter()).map(|(name, value)| (name.to_header_name(), value.to_header_value()));
        let others = others.filter(|(name, _)| *name != COOKIE);
        let cookies = cookies.into_iter().map(|cookie| (COOKIE, cookie));
        Cow::Owned(others.chain(cookies).collect())
    }

    /// Returns a field without the cookies of challenges; `None` where it has none.
    fn without_own(&self, field: &[u8], quotes: &mut QuoteState) -> Option<Vec<u8>> {
        let mut kept: Vec<&[u8]> = Vec::new();
        let mut is_changed = false;
        for (at, pair) in field.split(|byte| *byte == b';').enumerate() {
            // RFC 6265 §4.2.1: a semicolon and a space precede each cookie but the first.
            let cookie = match at {
                0 => pair,
                _ => pair.strip_prefix(b" ").unwrap_or(pair),
            };
            if *quotes == QuoteState::Outside && self.has(cookie) {
                is_changed = true;
            } else {
                // A cookie that becomes the first has no space before it.
                kept.push(if kept.is_empty() { cookie } else { pair });
            }
            quotes.pass(pair);
        }
        is_changed.then(|| kept.join(&b';'))
    }

    /// Returns whether a name and its value are written as those of a challenge are.
    fn has(&self, cookie: &[u8]) -> bool {
        let Some((kind, rest)) = [WORK, WAIT].into_iter().find_map(|kind| {
            let rest = cookie.strip_prefix(kind.as_bytes())?;
            Some((kind, rest))
        }) else {
            return false;
        };
        let mut limits = self.0.iter();
        limits.any(|limit| {
            let slot = rest.strip_prefix(limit.as_bytes());
            match slot.and_then(|slot| slot.strip_prefix(b"-")) {
                Some([b'0'..=b'9' | b'a'..=b'f', b'=', value @ ..]) => is_value(kind, value),
                _ => false,
            }
        })
    }
}

/// The position of a parser that knows quoted values, which may have a semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuoteState {
    Outside,
    Inside,
}

impl QuoteState {
    fn pass(&mut self, pair: &[u8]) {
        let quotes = pair.iter().filter(|byte| **byte == b'"').count();
        if quotes % 2 == 1 {
            *self = match self {
                Self::Outside => Self::Inside,
                Self::Inside => Self::Outside,
            };
        }
    }
}

/// Returns whether a value has the form of those of this kind: a text of base64url, and for a solution a counter.
fn is_value(kind: &str, value: &[u8]) -> bool {
    let Some((text, behind)) = value.split_at_checked(TEXT_LENGTH) else {
        return false;
    };
    let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_end = match behind {
        [] => kind == WAIT,
        [b'.', counter @ ..] => {
            kind == WORK
                && (1..=COUNTER_DIGITS).contains(&counter.len())
                && counter.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    text.iter().all(is_text) && is_end
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT_LANGUAGE;
    use proptest::prelude::*;

    use super::*;

    fn own() -> ChallengeCookies {
        ChallengeCookies::new(["pages", "a-b.c"].into_iter().map(Name::from))
    }

    fn fields(lines: &[&str]) -> ReceivedFields {
        let mut headers = ReceivedFields::new();
        for line in lines {
            let value = HeaderValue::from_bytes(line.as_bytes()).expect("a value");
            headers.append(COOKIE, value);
        }
        headers
    }

    /// Returns the values that are left; those that came, where nothing is taken out.
    fn left(lines: &[&str]) -> Vec<String> {
        match own().site_cookies(&fields(lines)) {
            SiteCookies::AsSent => lines.iter().map(|line| (*line).to_owned()).collect(),
            SiteCookies::Others(left) => left
                .into_iter()
                .map(|value| String::from_utf8(value).expect("text"))
                .collect(),
        }
    }

    fn work(limit: &str) -> String {
        format!("sluicegate-work-{limit}-a={}.17", "aZ9_-bcd".repeat(8))
    }

    fn wait(limit: &str) -> String {
        format!("sluicegate-wait-{limit}-0={}", "aZ9_-bcd".repeat(8))
    }

    /// Goal: the cookies of challenges are taken out, and the rest stays byte for byte. Method: fields with both, at each place.
    #[test]
    fn cookies_of_challenges_are_taken_out() {
        let other = work("a-b.c");
        let work = work("pages");
        let wait = wait("pages");
        for (line, kept) in [
            (work.clone(), ""),
            (format!("{work}; {wait}; {other}"), ""),
            (format!("{work};{wait}"), ""),
            (format!("{work}; a=1"), "a=1"),
            (format!("a=1; {work}"), "a=1"),
            (format!("a=1; {work};  b=\"2\";;c"), "a=1;  b=\"2\";;c"),
            (format!("a=1;{wait};b=2"), "a=1;b=2"),
            (format!("{work}; {wait};a=1; "), "a=1; "),
        ] {
            let kept: &[&str] = if kept.is_empty() { &[] } else { &[kept] };
            assert_eq!(left(&[&line]), kept, "{line}");
            assert_eq!(own().leave_any(&fields(&[&line])), !kept.is_empty());
        }
        assert_eq!(left(&["a=1", &work, "b=2"]), ["a=1", "b=2"]);
        assert!(!own().leave_any(&fields(&[""])));
        assert!(!own().leave_any(&fields(&[])));
    }

    /// Goal: a response depends on the cookies of the site only, and on all other fields. Method: fields with cookies of challenges and of
    /// the site, beside the same without the former.
    #[test]
    fn fields_of_the_site_have_no_cookies_of_challenges() {
        let work = work("pages");
        let beside = format!("a=1; {work}");
        let with_language = |cookies: &[&str]| {
            let mut all = fields(cookies);
            all.append(ACCEPT_LANGUAGE, HeaderValue::from_static("de"));
            all
        };
        let cases: [(&[&str], &[&str]); 4] = [
            (&[&work], &[]),
            (&[&beside, &work, "b=2"], &["a=1", "b=2"]),
            (&["a=1; b=2"], &["a=1; b=2"]),
            (&[], &[]),
        ];
        for (cookies, kept) in cases {
            let received = with_language(cookies);
            let site = own().site_fields(&received).to_map();
            assert_eq!(site, with_language(kept).to_map(), "{cookies:?}");
        }
    }

    /// Goal: no session hides behind the name of a challenge. Method: what only some parser takes for the cookie of a challenge.
    #[test]
    fn everything_else_is_the_sites() {
        let work = work("pages");
        let wait = wait("pages");
        for line in [
            "sluicegate-work-a=b sid=EVIL".to_owned(),
            "sluicegate-work-pages-a=b".to_owned(),
            "sluicegate-server=1".to_owned(),
            format!("{work} sid=EVIL"),
            format!("{work},sid=EVIL"),
            format!("{work}\tsid=EVIL"),
            format!("{work}\"sid=EVIL"),
            format!("{work}\u{e9}"),
            format!("{work}0123456789abcdef"),
            format!("x={work}"),
            format!("x {work}"),
            format!("a=1;  {work}"),
            format!("a=1;\t{work}"),
            format!("a=\"x; {work}; y\""),
            work.to_uppercase(),
            work.replace("pages-a", "pages-A"),
            work.replace("pages-a", "pages"),
            work.replace("pages-a", "pages-aa"),
            work.replace("-a=", "-a ="),
            work.replace("-a=", "-a= "),
            work.replace("pages", "others"),
            work.replace(".17", ""),
            work.replace(".17", "."),
            work.replace(".17", ".1x"),
            work.replace(".17", ".12345678901234567"),
            format!("{wait}.1"),
            format!("{wait}a"),
        ] {
            assert_eq!(left(&[&line]), [&*line], "{line}");
            assert!(own().leave_any(&fields(&[&line])), "{line}");
        }
        let quoted = ["a=\"x", &work, "y\""];
        assert_eq!(left(&quoted), quoted);
        let none = ChallengeCookies::default();
        assert!(none.leave_any(&fields(&[&work])));
    }

    proptest! {
        /// Goal: what is taken out is a cookie of a challenge, and nothing else. Method: any pieces around one; without it they are left.
        #[test]
        fn what_is_taken_out_is_what_a_challenge_wrote(
            before in prop::collection::vec("[a-z=\", ]{0,6}", 0..4),
            behind in prop::collection::vec("[a-z=\", ]{0,6}", 0..4),
        ) {
            let own = work("pages");
            let mut pairs: Vec<&str> = before.iter().map(String::as_str).collect();
            pairs.push(&own);
            pairs.extend(behind.iter().map(String::as_str));
            let line = pairs.join("; ");
            let open = before.concat().matches('"').count() % 2 == 1;
            pairs.remove(before.len());
            let rest = pairs.join("; ");
            let expected = match (open, pairs.is_empty()) {
                (true, _) => vec![line.clone()],
                (false, true) => Vec::new(),
                (false, false) => vec![rest],
            };
            let expected: Vec<_> = expected.into_iter().filter(|value| !value.is_empty()).collect();
            prop_assert_eq!(left(&[&line]), expected);
        }
    }
}
