//! Owns the conditions that a response is judged by, `response.status in [401, 403]`: how they are written, and when they hold.
//!
//! The language is small and total: one or more comparisons, all joined by `and` or all by `or`, so that there is nothing to
//! bracket and nothing to evaluate twice. A condition always holds or does not; there is no third answer.
//!
//! ```text
//! condition  = comparison { "and" comparison } | comparison { "or" comparison }
//! comparison = "response.status" ( "==" | "!=" ) code
//!            | "response.status" [ "not" ] "in" ( range | "[" item { "," item } "]" )
//!            | "response.header." name ( "==" | "!=" ) string
//! item       = code | range
//! range      = code "..=" code
//! ```
//!
//! `==` on a field holds when one of its lines has exactly this value, `!=` when none has, so also when the field is absent.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, StatusCode};

use super::field::{KeyField, quoted};
use super::lexer::{
    ComparisonOperator, ExpressionError, JointForm, LogicalOperator, Token, TokenReader,
};

/// Most comparisons of a condition, and most items of a list: far more than anybody reads at a glance.
const MOST: usize = 16;

/// The example in errors.
const EXAMPLE: &str = "write it as in \"response.status in [401, 403, 500..=599]\"";

/// A condition on responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: Arc<str>,
    joint: LogicalOperator,
    comparisons: Vec<ResponseComparison>,
}

#[derive(Clone, Debug, PartialEq)]
enum ResponseComparison {
    Status(ComparisonOperator, Vec<RangeInclusive<u16>>),
    Field(ComparisonOperator, HeaderName, Box<str>),
}

impl Condition {
    /// Returns whether a response with this status and these fields meets the condition.
    #[must_use]
    pub fn holds(&self, status: StatusCode, fields: &HeaderMap) -> bool {
        let mut each = self.comparisons.iter().map(|one| one.holds(status, fields));
        match self.joint {
            LogicalOperator::And => each.all(|holds| holds),
            LogicalOperator::Or => each.any(|holds| holds),
        }
    }

    /// Returns the fields of the response that it reads.
    pub fn fields(&self) -> impl Iterator<Item = &HeaderName> {
        self.comparisons
            .iter()
            .filter_map(|comparison| match comparison {
                ResponseComparison::Field(_, name, _) => Some(name),
                ResponseComparison::Status(..) => None,
            })
    }
}

impl ResponseComparison {
    fn holds(&self, status: StatusCode, fields: &HeaderMap) -> bool {
        let (operator, found) = match self {
            Self::Status(operator, codes) => {
                let named = |range: &RangeInclusive<u16>| range.contains(&status.as_u16());
                (operator, codes.iter().any(named))
            }
            Self::Field(operator, name, value) => {
                let mut lines = fields.get_all(name).iter();
                (
                    operator,
                    lines.any(|line| line.as_bytes() == value.as_bytes()),
                )
            }
        };
        found == (*operator == ComparisonOperator::Equal)
    }
}

impl fmt::Display for Condition {
    /// Writes the condition like the configuration does.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(&self.text)
    }
}

/// The condition that a field holds; a slip is reported where it is.
pub(super) fn condition(field: &KeyField<'_>) -> Option<Condition> {
    let text = field.text()?;
    match parse(text) {
        Ok(condition) => Some(condition),
        Err(slip) => slip.refuse(field, text),
    }
}

/// The form of joined comparisons.
const JOINED: JointForm = JointForm {
    most: MOST,
    example: EXAMPLE,
    shorter: "write ranges, such as 500..=599, or two limits",
};

fn parse(text: &str) -> Result<Condition, ExpressionError> {
    let mut reader = TokenReader::from_text(text);
    let (joint, comparisons) = reader.joined(&JOINED, comparison)?;
    Ok(Condition {
        text: Arc::from(text.trim()),
        joint,
        comparisons,
    })
}

fn comparison(reader: &mut TokenReader<'_>) -> Result<ResponseComparison, ExpressionError> {
    let (token, at) = reader.next();
    let subject = match token {
        Token::Word(subject) => subject,
        other => {
            return Err(unexpected(
                other,
                at,
                "response.status or response.header.NAME",
            ));
        }
    };
    if subject == "response.status" {
        return status(reader);
    }
    let Some(name) = subject.strip_prefix("response.header.") else {
        return Err(ExpressionError {
            at,
            message: format!("there is no {}", quoted(subject)),
            advice: "compare response.status, or a field such as response.header.x-failed"
                .to_owned(),
        });
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| ExpressionError {
        at,
        message: format!("{} names no field", quoted(subject)),
        advice: "write response.header. and the name of a field of the response".to_owned(),
    })?;
    let (token, at) = reader.next();
    let operator = match token {
        Token::Sign("==") => ComparisonOperator::Equal,
        Token::Sign("!=") => ComparisonOperator::NotEqual,
        other => return Err(unexpected(other, at, "`==` or `!=`")),
    };
    match reader.next() {
        (Token::Text(value), _) => Ok(ResponseComparison::Field(operator, name, value.into())),
        (other, at) => Err(unexpected(other, at, "a value in quotes")),
    }
}

fn status(reader: &mut TokenReader<'_>) -> Result<ResponseComparison, ExpressionError> {
    let (token, at) = reader.next();
    let operator = match token {
        Token::Sign(sign @ ("==" | "!=")) => {
            let code = code(reader)?;
            let operator = if sign == "==" {
                ComparisonOperator::Equal
            } else {
                ComparisonOperator::NotEqual
            };
            return Ok(ResponseComparison::Status(operator, vec![code..=code]));
        }
        Token::Word("in") => ComparisonOperator::Equal,
        Token::Word("not") if reader.skip(Token::Word("in")) => ComparisonOperator::NotEqual,
        other => return Err(unexpected(other, at, "`in`, `not in`, `==` or `!=`")),
    };
    if !reader.skip(Token::Sign("[")) {
        return Ok(ResponseComparison::Status(operator, vec![item(reader)?]));
    }
    let mut codes = Vec::new();
    loop {
        if codes.len() == MOST {
            return Err(too_many_items(reader.peek().1));
        }
        codes.push(item(reader)?);
        match reader.next() {
            (Token::Sign("]"), _) => return Ok(ResponseComparison::Status(operator, codes)),
            (Token::Sign(","), _) => {}
            (other, at) => return Err(unexpected(other, at, "`,` or `]`")),
        }
    }
}

/// Reads one code, or a range of them.
fn item(reader: &mut TokenReader<'_>) -> Result<RangeInclusive<u16>, ExpressionError> {
    reader.statuses(code)
}

fn code(reader: &mut TokenReader<'_>) -> Result<u16, ExpressionError> {
    let (token, at) = reader.next();
    let Token::Number(digits) = token else {
        return Err(unexpected(token, at, "a status such as 401"));
    };
    // RFC 9110 §15: an answer ends with a final status. Of the interim ones only 101 ends the exchange.
    match digits.parse() {
        Ok(code @ (101 | 200..=599)) => Ok(code),
        _ => Err(ExpressionError {
            at,
            message: format!("no answer ends with the status {}", quoted(digits)),
            advice: "write 101 or one of 200 to 599".to_owned(),
        }),
    }
}

fn too_many_items(at: Range<usize>) -> ExpressionError {
    ExpressionError {
        at,
        message: format!("there are more than {MOST} items"),
        advice: JOINED.shorter.to_owned(),
    }
}

fn unexpected(token: Token<'_>, at: Range<usize>, expected: &str) -> ExpressionError {
    token.unexpected(at, expected, EXAMPLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn holds(condition: &str, status: u16, fields: &[(&'static str, &'static str)]) -> bool {
        let fields = fields.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name, value);
        }
        let status = StatusCode::from_u16(status).expect("a status");
        parse(condition).expect(condition).holds(status, &map)
    }

    /// Goal: sets and ranges of statuses, and their opposites. Method: both sides of every edge.
    #[test]
    fn a_status_is_in_a_set_or_is_not() {
        for (condition, inside, outside) in [
            ("response.status in [401, 403]", 403, 402),
            ("response.status in 500..=599", 599, 499),
            ("response.status in [401,500..=502]", 500, 503),
            ("response.status not in [200]", 201, 200),
            ("response.status == 401", 401, 400),
            ("response.status!=401", 400, 401),
        ] {
            assert!(holds(condition, inside, &[]), "{condition}");
            assert!(!holds(condition, outside, &[]), "{condition}");
        }
    }

    /// Goal: a field is compared by its lines, and absence is no value. Method: absent, once, twice.
    #[test]
    fn a_field_has_a_value_or_none_of_its_lines_has() {
        let is = "response.header.X-Failed == \"1\"";
        let is_not = "response.header.x-failed != '1'";
        for (fields, found) in [
            (&[][..], false),
            (&[("x-failed", "1")], true),
            (&[("x-failed", "0"), ("x-failed", "1")], true),
            (&[("x-failed", "10")], false),
        ] {
            assert_eq!(holds(is, 200, fields), found);
            assert_eq!(holds(is_not, 200, fields), !found);
        }
    }

    /// Goal: `and` asks for all, `or` for any. Method: one of two holds.
    #[test]
    fn comparisons_are_joined_by_one_word() {
        let failed = [("x-failed", "1")];
        let with =
            |word: &str| format!("response.status == 401 {word} response.header.x-failed == '1'");
        assert!(holds(&with("or"), 200, &failed) && !holds(&with("and"), 200, &failed));
        assert!(holds(&with("and"), 401, &failed));
    }

    /// Goal: every slip is told where it is. Method: one of each kind, and the part of the text that is pointed at.
    #[test]
    fn a_slip_points_at_its_place() {
        for (text, part) in [
            ("", ""),
            ("status == 1", "status"),
            ("response.status in [401 403]", "403"),
            ("response.status in [401", ""),
            ("response.status in [600]", "600"),
            ("response.status in [503..=500]", "503..=500"),
            ("response.status is 401", "is"),
            ("response.status == 401 or response.status == 1e3", "1"),
            (
                "response.status == 401 and response.status == 403 or response.status == 404",
                "or",
            ),
            ("response.header.x == 1", "1"),
            ("response.header. == '1'", "response.header."),
            ("response.header.x == 'a", "'a"),
            ("response.status == 401 && response.status == 1", "&"),
        ] {
            let slip = parse(text).expect_err(text);
            assert_eq!(&text[slip.at.clone()], part, "{slip:?}");
        }
    }
}
