//! Merges the limits' fields with those that an origin sends, so that the result is never looser than either.
//!
//! An origin may have limits of its own, and a client has to obey both. `RateLimit-Policy` and `RateLimit` are lists (RFC 9651
//! §3.1), so ours are further members. Where the origin has an item of the same name the tighter one is sent, in both fields. A
//! value that is no list, such as `limit=100, remaining=3` of older drafts, cannot take a member without becoming unreadable as
//! a whole, so it stays alone. `X-RateLimit` has room for one rate: the three fields of the side with less remaining are sent.
//!
//! Most origins send none of these fields; then there is nothing to merge and nothing is parsed.

use std::cmp::Reverse;

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Item, List, ListEntry, Parser, SerializeValue};

use super::fields::{LimitFields, RATE_LIMIT, RATE_LIMIT_POLICY};
use super::x_rate_limit::{X_RATE_LIMIT_REMAINING, XRateLimit};

/// The change to a list field of an origin's response.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeRule {
    /// It stays unchanged.
    Keep,
    /// This value is added after it.
    Append(HeaderValue),
    /// This value replaces it.
    Replace(HeaderValue),
}

/// The merged limit fields of an origin's response.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedField {
    /// The change to `RateLimit-Policy`.
    pub policy: MergeRule,
    /// The change to `RateLimit`.
    pub status: MergeRule,
    /// The `X-RateLimit` fields that take the place of the origin's; `None` leaves those.
    pub x: Option<XRateLimit>,
}

/// Merges `ours` into an answer with the fields `theirs`.
#[must_use]
pub fn merge(theirs: &HeaderMap, ours: LimitFields) -> MergedField {
    let x = ours.x.filter(|ours| !is_tighter(theirs, ours));
    let named = theirs.contains_key(&RATE_LIMIT) || theirs.contains_key(&RATE_LIMIT_POLICY);
    let append = |value: Option<HeaderValue>| value.map_or(MergeRule::Keep, MergeRule::Append);
    if !named || ours.status.is_none() {
        return MergedField {
            policy: append(ours.policy),
            status: append(ours.status),
            x,
        };
    }
    let statuses = ListField::new(theirs, &RATE_LIMIT, ours.status.as_ref());
    let policies = ListField::new(theirs, &RATE_LIMIT_POLICY, ours.policy.as_ref());
    let (Some(statuses), Some(policies)) = (statuses, policies) else {
        return MergedField {
            policy: MergeRule::Keep,
            status: MergeRule::Keep,
            x,
        };
    };
    // Both fields follow the same side, name by name, so that a state is never read against the other side's quota.
    let side = |name: &str| {
        statuses
            .tighter(name, |item| {
                (integer(item, "r"), Reverse(integer(item, "t")))
            })
            .or_else(|| policies.tighter(name, |item| integer(item, "q")))
    };
    MergedField {
        policy: policies.merge(side, ours.policy),
        status: statuses.merge(side, ours.status),
        x,
    }
}

/// Returns whether the origin's own `X-RateLimit-Remaining` leaves no more than ours. A value that is no number counts as tighter, since it
/// may be.
fn is_tighter(theirs: &HeaderMap, ours: &XRateLimit) -> bool {
    theirs.get(&X_RATE_LIMIT_REMAINING).is_some_and(|value| {
        let remaining = value
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse().ok());
        remaining.is_none_or(|remaining: u64| remaining <= ours.remaining)
    })
}

/// The author of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldAuthor {
    Theirs,
    Ours,
}

/// One field, as both sides write it.
struct ListField {
    theirs: List,
    ours: List,
}

impl ListField {
    /// Returns `None` when the origin's value is no list.
    fn new(fields: &HeaderMap, name: &HeaderName, ours: Option<&HeaderValue>) -> Option<Self> {
        // RFC 9651 §4.2: several lines are one list.
        let lines: Vec<&[u8]> = fields
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        Some(Self {
            theirs: Parser::parse_list(&lines.join(&b", "[..])).ok()?,
            ours: match ours {
                Some(ours) => Parser::parse_list(ours.as_bytes()).ok()?,
                None => List::new(),
            },
        })
    }

    /// Returns the author of the tighter item of this name: the side with the least `weight`, of equal ones the origin; `None` unless both
    /// have it.
    fn tighter<W: Ord>(&self, name: &str, weight: impl Fn(&Item) -> W) -> Option<FieldAuthor> {
        let least = |list: &List| named(list, name).map(&weight).min();
        let theirs = least(&self.theirs)?;
        let ours = least(&self.ours)?;
        Some(if theirs <= ours {
            FieldAuthor::Theirs
        } else {
            FieldAuthor::Ours
        })
    }

    fn merge(
        &self,
        side: impl Fn(&str) -> Option<FieldAuthor>,
        ours: Option<HeaderValue>,
    ) -> MergeRule {
        let Some(value) = ours else {
            return MergeRule::Keep;
        };
        let loses = |entry: &ListEntry, to: FieldAuthor| {
            name_of(entry)
                .and_then(&side)
                .is_some_and(|told| told == to)
        };
        let stays = !self
            .theirs
            .iter()
            .any(|entry| loses(entry, FieldAuthor::Ours));
        if stays
            && !self
                .ours
                .iter()
                .any(|entry| loses(entry, FieldAuthor::Theirs))
        {
            return MergeRule::Append(value);
        }
        let theirs = self
            .theirs
            .iter()
            .filter(|entry| !loses(entry, FieldAuthor::Ours));
        let ours = self
            .ours
            .iter()
            .filter(|entry| !loses(entry, FieldAuthor::Theirs));
        let list: List = theirs.chain(ours).cloned().collect();
        // A parsed list can be serialized, so the value is kept only where there is nothing left to write.
        let text = list.serialize_value().ok();
        let value = text.and_then(|text| HeaderValue::try_from(text).ok());
        value.map_or(MergeRule::Keep, MergeRule::Replace)
    }
}

fn named<'l>(list: &'l List, name: &str) -> impl Iterator<Item = &'l Item> {
    list.iter().filter_map(move |entry| match entry {
        ListEntry::Item(item) if name_of(entry) == Some(name) => Some(item),
        _ => None,
    })
}

/// The draft names policies by strings; some implementations use tokens.
fn name_of(entry: &ListEntry) -> Option<&str> {
    match entry {
        ListEntry::Item(item) => item
            .bare_item
            .as_str()
            .or_else(|| item.bare_item.as_token()),
        ListEntry::InnerList(_) => None,
    }
}

/// Returns an integer parameter; an absent one counts as the greatest, since it is no bound.
fn integer(item: &Item, parameter: &str) -> i64 {
    let value = item.params.get(parameter);
    value.and_then(sfv::BareItem::as_int).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Option<HeaderValue> {
        (!text.is_empty()).then(|| HeaderValue::from_str(text).expect("visible ASCII"))
    }

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, text) in lines {
            fields.append(*name, HeaderValue::from_str(text).expect("visible ASCII"));
        }
        fields
    }

    fn ours(policy: &str, status: &str) -> LimitFields {
        LimitFields {
            policy: value(policy),
            status: value(status),
            x: None,
        }
    }

    /// Returns the list field that the client receives.
    fn told(theirs: &HeaderMap, name: &HeaderName, merge: &MergeRule) -> String {
        let lines = theirs.get_all(name).iter();
        let mut lines: Vec<&str> = lines.map(|line| line.to_str().expect("ASCII")).collect();
        match merge {
            MergeRule::Keep => {}
            MergeRule::Append(value) => lines.push(value.to_str().expect("ASCII")),
            MergeRule::Replace(value) => lines = vec![value.to_str().expect("ASCII")],
        }
        lines.join(", ")
    }

    /// Goal: an origin without limits costs no parsing, and one with other names keeps them. Method: none, then another name.
    #[test]
    fn what_does_not_collide_is_appended() {
        let none = merge(&HeaderMap::new(), ours("\"a\";q=5;w=1", "\"a\";r=4;t=1"));
        assert_eq!(
            none.status,
            MergeRule::Append(HeaderValue::from_static("\"a\";r=4;t=1"))
        );
        let theirs = fields(&[
            ("ratelimit", "\"b\";r=0;t=9"),
            ("ratelimit-policy", "\"b\";q=1;w=9"),
        ]);
        let other = merge(&theirs, ours("\"a\";q=5;w=1", "\"a\";r=4;t=1"));
        assert_eq!(
            other.policy,
            MergeRule::Append(HeaderValue::from_static("\"a\";q=5;w=1"))
        );
        assert_eq!(
            told(&theirs, &RATE_LIMIT, &other.status),
            "\"b\";r=0;t=9, \"a\";r=4;t=1"
        );
    }

    /// Goal: of two items of one name the tighter is sent, in both fields. Method: the origin's is tighter, then ours.
    #[test]
    fn of_one_name_the_tighter_side_is_sent() {
        let mine = ours(
            "\"a\";q=5;w=1, \"c\";q=1;w=1",
            "\"a\";r=4;t=1, \"c\";r=1;t=1",
        );
        for (r, policy, status) in [
            (
                2,
                "\"a\";q=9;w=9, \"c\";q=1;w=1",
                "\"a\";r=2;t=9, \"c\";r=1;t=1",
            ),
            (
                7,
                "\"a\";q=5;w=1, \"c\";q=1;w=1",
                "\"a\";r=4;t=1, \"c\";r=1;t=1",
            ),
        ] {
            let theirs = fields(&[
                ("ratelimit", &format!("\"a\";r={r};t=9")),
                ("ratelimit-policy", "\"a\";q=9;w=9"),
            ]);
            let merged = merge(&theirs, mine.clone());
            assert_eq!(told(&theirs, &RATE_LIMIT_POLICY, &merged.policy), policy);
            assert_eq!(told(&theirs, &RATE_LIMIT, &merged.status), status);
        }
    }

    /// Goal: a value that is no list is not made unreadable. Method: the syntax of older drafts, and nonsense.
    #[test]
    fn what_is_no_list_stays_alone() {
        for line in ["limit=100, remaining=3, reset=7", "\"a", "5 per second"] {
            let theirs = fields(&[("ratelimit", line)]);
            let merged = merge(&theirs, ours("\"a\";q=5;w=1", "\"a\";r=4;t=1"));
            assert_eq!(
                (merged.policy, merged.status),
                (MergeRule::Keep, MergeRule::Keep),
                "{line}"
            );
        }
    }

    /// Goal: three fields of one side. Method: the origin's remainder below, at and above ours, unreadable, and absent.
    #[test]
    fn of_x_rate_limit_the_side_with_less_left_is_sent() {
        let x = XRateLimit {
            limit: 5,
            remaining: 3,
            reset: 9,
        };
        let told = |theirs: &HeaderMap| {
            let ours = LimitFields {
                x: Some(x),
                ..LimitFields::default()
            };
            merge(theirs, ours).x
        };
        for (line, expected) in [("2", None), ("3", None), (" 4 ", Some(x)), ("many", None)] {
            assert_eq!(
                told(&fields(&[("x-ratelimit-remaining", line)])),
                expected,
                "{line}"
            );
        }
        assert_eq!(told(&fields(&[("x-ratelimit-limit", "9")])), Some(x));
    }

    proptest! {
        /// Goal: nothing is ever loosened. Method: random items of few names on both sides; a client that obeys the least `r` of
        /// a name reads the smaller of both sides, every name of either side is still there, and no name comes from both.
        #[test]
        fn merging_never_loosens(
            theirs in prop::collection::btree_map("[abc]", (0..9_i64, 0..9_i64), 0..4),
            mine in prop::collection::btree_map("[abcd]", (0..9_i64, 0..9_i64), 1..4),
        ) {
            let list = |items: &std::collections::BTreeMap<String, (i64, i64)>| -> String {
                let items: Vec<_> = items.iter().map(|(name, (r, t))| format!("\"{name}\";r={r};t={t}")).collect();
                items.join(", ")
            };
            let text = list(&theirs);
            let lines = if theirs.is_empty() { vec![] } else { vec![("ratelimit", &*text)] };
            let origin = fields(&lines);
            let merged = merge(&origin, ours("", &list(&mine)));
            let told = told(&origin, &RATE_LIMIT, &merged.status);
            let told = Parser::parse_list(told.as_bytes()).expect("a list");
            for name in ["a", "b", "c", "d"] {
                let expected = [theirs.get(name), mine.get(name)].into_iter().flatten().map(|(r, _)| *r).min();
                let read: Vec<i64> = named(&told, name).map(|item| integer(item, "r")).collect();
                prop_assert_eq!(read, expected.into_iter().collect::<Vec<_>>(), "{}", name);
            }
        }

        /// Goal: no origin causes a panic. Method: any visible text in its fields.
        #[test]
        fn any_text_can_be_merged_with(line in "[ -~]{0,60}") {
            let origin = fields(&[("ratelimit", &line), ("ratelimit-policy", &line), ("x-ratelimit-remaining", &line)]);
            let merged = merge(&origin, ours("\"a\";q=5;w=1", "\"a\";r=4;t=1"));
            if Parser::parse_list(line.as_bytes()).is_err() {
                prop_assert_eq!(merged.status, MergeRule::Keep);
            }
        }
    }
}
