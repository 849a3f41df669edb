//! Owns the filter of the access log, `status >= 400 or duration >= 1s`: how it is written, and which lines it keeps.
//!
//! ```text
//! filter     = group { "or" group }
//! group      = comparison { "and" comparison }
//! comparison = "status" ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) code
//!            | "status" [ "not" ] "in" ( range | "[" range { "," range } "]" )
//!            | name ( "==" | "!=" ) text
//!            | name [ "not" ] "in" "[" text { "," text } "]"
//!            | "duration" ( "<" | "<=" | ">" | ">=" ) duration
//! name       = "outcome" | "method" | "route"
//! range      = code [ "..=" code ]
//! text       = word | '"' … '"' | "'" … "'"
//! ```
//!
//! `and` binds closer than `or`, as in every language that operators know, so that there is nothing to bracket. A line without a route
//! has no route's name: `route == …` drops it, `route != …` keeps it.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use super::field::{KeyField, quoted};
use super::lexer::{ComparisonOperator, ExpressionError, Token, TokenReader};
use super::{suggest, units};

/// Most comparisons of a filter, and most items of a list: far more than anybody reads at a glance.
const MOST: usize = 16;

/// The names of outcomes, which `RequestDisposition` of the crate `decide` gives to requests.
pub const OUTCOMES: [&str; 16] = [
    "forwarded",
    "cached",
    "responded",
    "allowed",
    "rate-limited",
    "challenged",
    "banned",
    "refused-concurrency",
    "blocked",
    "store-unavailable",
    "no-route",
    "rejected",
    "origin-failed",
    "client-gone",
    "internal",
    "cut-off",
];

/// A condition on the requests whose lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFilter {
    text: Box<str>,
    groups: Vec<Vec<LineComparison>>,
}

/// The facts of one request that a filter looks at.
#[derive(Clone, Copy, Debug)]
pub struct LineFacts<'a> {
    /// Status sent; 0 where the client left before any.
    pub status: u16,
    /// One of [`OUTCOMES`].
    pub outcome: &'a str,
    /// The method as it was sent; any bytes.
    pub method: &'a [u8],
    /// The route's name.
    pub route: Option<&'a str>,
    /// From the head read to the last byte sent.
    pub duration: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LineComparison {
    Status(ComparisonOperator, Vec<RangeInclusive<u16>>),
    Name(ComparedField, ComparisonOperator, Vec<Box<str>>),
    Duration(DurationOrder, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparedField {
    Outcome,
    Method,
    Route,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DurationOrder {
    Below,
    AtMost,
    AtLeast,
    Above,
}

impl LineFilter {
    /// Returns whether the line of a request is kept.
    #[must_use]
    pub fn keeps(&self, facts: &LineFacts<'_>) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.iter().all(|one| one.holds(facts)))
    }

    /// The routes that it names.
    pub(super) fn routes(&self) -> impl Iterator<Item = &str> {
        let comparisons = self.groups.iter().flatten();
        let names = comparisons.filter_map(|one| match one {
            LineComparison::Name(ComparedField::Route, _, names) => Some(names),
            _ => None,
        });
        names.flatten().map(|name| &**name)
    }
}

impl fmt::Display for LineFilter {
    /// Writes the filter like the configuration does.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(&self.text)
    }
}

impl LineComparison {
    fn holds(&self, facts: &LineFacts<'_>) -> bool {
        match self {
            Self::Status(operator, codes) => {
                let found = codes.iter().any(|range| range.contains(&facts.status));
                found == (*operator == ComparisonOperator::Equal)
            }
            Self::Name(subject, operator, names) => {
                let found = names.iter().any(|name| subject.is(name, facts));
                found == (*operator == ComparisonOperator::Equal)
            }
            Self::Duration(order, bound) => order.holds(&facts.duration, bound),
        }
    }
}

impl ComparedField {
    fn is(self, name: &str, facts: &LineFacts<'_>) -> bool {
        match self {
            Self::Outcome => facts.outcome == name,
            Self::Method => facts.method.eq_ignore_ascii_case(name.as_bytes()),
            Self::Route => facts.route == Some(name),
        }
    }
}

impl DurationOrder {
    fn holds<T: PartialOrd>(self, value: &T, bound: &T) -> bool {
        match self {
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
            Self::AtLeast => value >= bound,
            Self::Above => value > bound,
        }
    }

    fn from_token(token: Token<'_>) -> Option<Self> {
        Some(match token {
            Token::Sign("<") => Self::Below,
            Token::Sign("<=") => Self::AtMost,
            Token::Sign(">=") => Self::AtLeast,
            Token::Sign(">") => Self::Above,
            _ => return None,
        })
    }

    /// The statuses that hold, for a bound.
    fn statuses(self, bound: u16) -> RangeInclusive<u16> {
        match self {
            Self::Below if bound == 0 => RangeInclusive::new(1, 0),
            Self::Below => 0..=bound - 1,
            Self::AtMost => 0..=bound,
            Self::AtLeast => bound..=u16::MAX,
            Self::Above => bound.saturating_add(1)..=u16::MAX,
        }
    }
}

/// The filter that a field holds; a slip is reported where it is.
pub(super) fn line_filter(field: &KeyField<'_>) -> Option<LineFilter> {
    let text = field.text()?;
    match parse(text) {
        Ok(filter) => Some(filter),
        Err(slip) => slip.refuse(field, text),
    }
}

fn parse(text: &str) -> Result<LineFilter, ExpressionError> {
    let mut reader = TokenReader::from_text(text);
    let mut groups = vec![vec![comparison(&mut reader)?]];
    loop {
        let (token, at) = reader.next();
        if groups.iter().flatten().count() == MOST && token != Token::End {
            return Err(too_many(at, "comparisons"));
        }
        match token {
            Token::End => break,
            Token::Word("and") => {
                let next = comparison(&mut reader)?;
                if let Some(group) = groups.last_mut() {
                    group.push(next);
                }
            }
            Token::Word("or") => groups.push(vec![comparison(&mut reader)?]),
            other => return Err(unexpected(other, at, "`and`, `or` or the end")),
        }
    }
    Ok(LineFilter {
        text: text.trim().into(),
        groups,
    })
}

fn comparison(reader: &mut TokenReader<'_>) -> Result<LineComparison, ExpressionError> {
    let (token, at) = reader.next();
    let subjects = "status, outcome, method, route or duration";
    match token {
        Token::Word("status") => status(reader),
        Token::Word("outcome") => names(reader, ComparedField::Outcome),
        Token::Word("method") => names(reader, ComparedField::Method),
        Token::Word("route") => names(reader, ComparedField::Route),
        Token::Word("duration") => duration(reader),
        Token::Word(other) => Err(ExpressionError {
            at,
            message: format!("a line has no {} to choose by", quoted(other)),
            advice: match other.strip_prefix("response.") {
                Some("status") => "write status".to_owned(),
                _ => format!("compare {subjects}"),
            },
        }),
        other => Err(unexpected(other, at, subjects)),
    }
}

fn status(reader: &mut TokenReader<'_>) -> Result<LineComparison, ExpressionError> {
    let (token, at) = reader.next();
    if let Some(order) = DurationOrder::from_token(token) {
        let bound = code(reader)?;
        return Ok(LineComparison::Status(
            ComparisonOperator::Equal,
            vec![order.statuses(bound)],
        ));
    }
    let expected = "`==`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `not in`";
    match operator(reader, token, at, expected)? {
        (operator, ItemCount::One) => {
            let code = code(reader)?;
            Ok(LineComparison::Status(operator, vec![code..=code]))
        }
        (operator, ItemCount::Several) if reader.peek().0 == Token::Sign("[") => {
            Ok(LineComparison::Status(operator, list(reader, range)?))
        }
        (operator, ItemCount::Several) => {
            Ok(LineComparison::Status(operator, vec![range(reader)?]))
        }
    }
}

fn names(
    reader: &mut TokenReader<'_>,
    subject: ComparedField,
) -> Result<LineComparison, ExpressionError> {
    let (token, at) = reader.next();
    let read = |reader: &mut TokenReader<'_>| name(reader, subject);
    match operator(reader, token, at, "`==`, `!=`, `in` or `not in`")? {
        (operator, ItemCount::One) => {
            Ok(LineComparison::Name(subject, operator, vec![read(reader)?]))
        }
        (operator, ItemCount::Several) => {
            Ok(LineComparison::Name(subject, operator, list(reader, read)?))
        }
    }
}

fn duration(reader: &mut TokenReader<'_>) -> Result<LineComparison, ExpressionError> {
    let (token, at) = reader.next();
    let order = DurationOrder::from_token(token)
        .ok_or_else(|| unexpected(token, at, "`<`, `<=`, `>` or `>=`"))?;
    let (token, at) = reader.next();
    let written = match token {
        // `1h30m` is a number and what stands at it.
        Token::Number(number) => match reader.peek() {
            (Token::Word(unit), place) if place.start == at.end => {
                reader.next();
                format!("{number}{unit}")
            }
            _ => number.to_owned(),
        },
        Token::Text(text) => text.to_owned(),
        other => return Err(unexpected(other, at, "a duration such as 500ms")),
    };
    match units::duration(&written) {
        Ok(bound) => Ok(LineComparison::Duration(order, bound)),
        Err(mistake) => Err(ExpressionError {
            at: at.start..reader.at(),
            message: mistake.message,
            advice: mistake
                .advice
                .unwrap_or_else(|| format!("give its unit: {written}ms")),
        }),
    }
}

/// Says whether one item follows or a list of them.
enum ItemCount {
    One,
    Several,
}

/// Reads what stands between a subject and the items that it is compared with.
fn operator(
    reader: &mut TokenReader<'_>,
    token: Token<'_>,
    at: Range<usize>,
    expected: &str,
) -> Result<(ComparisonOperator, ItemCount), ExpressionError> {
    Ok(match token {
        Token::Sign("==") => (ComparisonOperator::Equal, ItemCount::One),
        Token::Sign("!=") => (ComparisonOperator::NotEqual, ItemCount::One),
        Token::Word("in") => (ComparisonOperator::Equal, ItemCount::Several),
        Token::Word("not") if reader.skip(Token::Word("in")) => {
            (ComparisonOperator::NotEqual, ItemCount::Several)
        }
        other => return Err(unexpected(other, at, expected)),
    })
}

fn list<'t, T>(
    reader: &mut TokenReader<'t>,
    mut item: impl FnMut(&mut TokenReader<'t>) -> Result<T, ExpressionError>,
) -> Result<Vec<T>, ExpressionError> {
    match reader.next() {
        (Token::Sign("["), _) => {}
        (other, at) => return Err(unexpected(other, at, "`[`")),
    }
    let mut items = Vec::new();
    loop {
        if items.len() == MOST {
            return Err(too_many(reader.peek().1, "items"));
        }
        items.push(item(reader)?);
        match reader.next() {
            (Token::Sign("]"), _) => return Ok(items),
            (Token::Sign(","), _) => {}
            (other, at) => return Err(unexpected(other, at, "`,` or `]`")),
        }
    }
}

/// Reads one code, or a range of them.
fn range(reader: &mut TokenReader<'_>) -> Result<RangeInclusive<u16>, ExpressionError> {
    reader.statuses(code)
}

fn code(reader: &mut TokenReader<'_>) -> Result<u16, ExpressionError> {
    let (token, at) = reader.next();
    let Token::Number(digits) = token else {
        return Err(unexpected(token, at, "a status such as 429"));
    };
    match digits.parse() {
        Ok(code @ (0 | 100..=599)) => Ok(code),
        _ => Err(ExpressionError {
            at,
            message: format!("no line has the status {}", quoted(digits)),
            advice: "write one of 100 to 599, or 0 for clients that left before an answer"
                .to_owned(),
        }),
    }
}

fn name(reader: &mut TokenReader<'_>, subject: ComparedField) -> Result<Box<str>, ExpressionError> {
    let (token, at) = reader.next();
    let text = match token {
        Token::Word(text) | Token::Text(text) => text,
        other => {
            return Err(unexpected(
                other,
                at,
                "a name, in quotes where it is more than a word",
            ));
        }
    };
    if subject == ComparedField::Outcome && !OUTCOMES.contains(&text) {
        return Err(ExpressionError {
            at,
            message: format!("no request ends as {}", quoted(text)),
            advice: match suggest::nearest(text, OUTCOMES) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("write one of {}", OUTCOMES.join(", ")),
            },
        });
    }
    Ok(text.into())
}

fn too_many(at: Range<usize>, what: &str) -> ExpressionError {
    ExpressionError {
        at,
        message: format!("there are more than {MOST} {what}"),
        advice: "write ranges, such as 500..=599, or lists".to_owned(),
    }
}

fn unexpected(token: Token<'_>, at: Range<usize>, expected: &str) -> ExpressionError {
    let advice = "write it as in \"status >= 400 and outcome != rate-limited or duration >= 1s\"";
    token.unexpected(at, expected, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: LineFacts<'_> = LineFacts {
        status: 429,
        outcome: "rate-limited",
        method: b"POST",
        route: Some("POST /auth/sendOTP"),
        duration: Duration::from_millis(700),
    };

    fn keeps(filter: &str, facts: &LineFacts<'_>) -> bool {
        parse(filter).expect(filter).keeps(facts)
    }

    /// Goal: each subject is compared in each way that it can be. Method: both sides of every edge.
    #[test]
    fn a_line_is_compared_by_what_it_has() {
        for (filter, kept) in [
            ("status >= 429", true),
            ("status > 429", false),
            ("status<430", true),
            ("status < 0", false),
            ("status <= 428", false),
            ("status == 429", true),
            ("status != 429", false),
            ("status in 400..=499", true),
            ("status not in [200, 500..=599]", true),
            ("outcome == rate-limited", true),
            ("outcome in [rate-limited, 'banned']", true),
            ("outcome != rate-limited", false),
            ("method == post", true),
            ("method not in [GET, HEAD]", true),
            ("route == 'POST /auth/sendOTP'", true),
            ("route != \"POST /auth/sendOTP\"", false),
            ("duration >= 700ms", true),
            ("duration > 700ms", false),
            ("duration < '1m30s'", true),
            ("duration <= 1m30s", true),
        ] {
            assert_eq!(keeps(filter, &FACTS), kept, "{filter}");
        }
        let unrouted = LineFacts {
            route: None,
            ..FACTS
        };
        assert!(!keeps("route == other", &unrouted) && keeps("route != other", &unrouted));
    }

    /// Goal: `and` binds closer than `or`. Method: filters whose two readings differ.
    #[test]
    fn groups_are_joined_by_or() {
        assert!(keeps(
            "status == 429 or status == 200 and method == GET",
            &FACTS
        ));
        assert!(!keeps(
            "status == 200 and method == GET or duration > 1s",
            &FACTS
        ));
        assert!(keeps(
            "status == 200 and method == GET or duration < 1s and method == POST",
            &FACTS
        ));
    }

    /// Goal: every slip is told where it is. Method: one of each kind, and the part of the text that is pointed at.
    #[test]
    fn a_slip_points_at_its_place() {
        for (text, part) in [
            ("", ""),
            ("statsu >= 400", "statsu"),
            ("response.status >= 400", "response.status"),
            ("status => 400", "="),
            ("status >= 4xx", "4"),
            ("status >= 4000", "4000"),
            ("status in 500..=400", "500..=400"),
            ("outcome == rate-limit", "rate-limit"),
            ("outcome >= rate-limited", ">="),
            ("method in GET", "GET"),
            ("method in [GET", ""),
            ("duration >= 5", "5"),
            ("duration >= 5 s", "5"),
            ("duration == 5s", "=="),
            ("status >= 400 && method == GET", "&"),
            ("status >= 400 (", "("),
        ] {
            let slip = parse(text).expect_err(text);
            assert_eq!(&text[slip.at.clone()], part, "{text}: {slip:?}");
        }
    }
}
