//! Owns the conditions over the gateway's own figures, `origin.app.p99 > 500ms`: how they are written, and when they hold.
//!
//! The language is that of conditions on responses ([`super::condition`]): comparisons, all joined by `and` or all by `or`.
//!
//! ```text
//! condition  = comparison { "and" comparison } | comparison { "or" comparison }
//! comparison = figure ( ">" | ">=" | "<" | "<=" ) value
//! figure     = "limit." name ( ".used" | ".rejected" )
//!            | "origin." name ( ".p50" | ".p90" | ".p99" | ".errors" | ".pending" | ".in_flight" )
//!            | "connections"
//! value      = percent | duration | number, as the figure has it
//! ```
//!
//! A figure is a whole number of its unit, or unknown; a comparison with an unknown figure does not hold.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::action::any_share;
use super::field::{KeyField, quoted};
use super::lexer::{ExpressionError, JointForm, LogicalOperator, Token, TokenReader};
use super::rules::Name;
use super::suggest;
use super::units::{self, ShownDuration};

/// The form of joined comparisons.
const JOINED: JointForm = JointForm {
    most: 8,
    example: "write it as in \"origin.app.p99 > 500ms\"",
    shorter: "write two limits",
};

/// Longest duration that a figure is compared with, in milliseconds: the largest that percentiles measure.
const LONGEST_MILLIS: u64 = 120_000;

/// Largest number that a figure is compared with.
const LARGEST: u64 = 1_000_000_000;

/// A condition over the gateway's own figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadCondition {
    text: Arc<str>,
    joint: LogicalOperator,
    comparisons: Vec<LoadComparison>,
}

/// A comparison of a figure with a threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LoadComparison {
    figure: LoadFigure,
    operator: ThresholdOperator,
    threshold: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThresholdOperator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A figure of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadFigure {
    /// `limit.NAME.used` and `limit.NAME.rejected`.
    Limit(Name, LimitFigure),
    /// `origin.NAME.p99` and the others of an origin.
    Origin(Name, OriginFigure),
    /// `connections`: those of clients.
    Connections,
}

/// A figure of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitFigure {
    /// The used share of the fullest rate of the limit's only key.
    Used,
    /// Rejections per second, of all keys.
    Rejected,
}

/// A figure of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginFigure {
    /// The time to the head of a response that half of the requests do not exceed.
    P50,
    /// The time that nine of ten requests do not exceed.
    P90,
    /// The time that 99 of a hundred requests do not exceed.
    P99,
    /// The share of attempts that failed or were answered with 5xx.
    Errors,
    /// Requests that wait for a place at a server.
    Pending,
    /// Attempts in flight.
    InFlight,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FigureUnit {
    /// Hundredths of a percent.
    Share,
    /// Microseconds.
    Time,
    /// A plain number.
    Count,
}

/// The distance from the threshold at which a comparison ends to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HysteresisMargin {
    /// None: the comparison as it is written.
    None,
    /// A tenth of the threshold, so that a figure near it does not end what it has begun.
    Tenth,
}

impl OriginFigure {
    const ALL: [(&'static str, Self); 6] = [
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p99", Self::P99),
        ("errors", Self::Errors),
        ("pending", Self::Pending),
        ("in_flight", Self::InFlight),
    ];

    /// Returns the share of requests that the percentile is over, in percent; `None` for figures that are none.
    #[must_use]
    pub fn percentile(self) -> Option<u8> {
        match self {
            Self::P50 => Some(50),
            Self::P90 => Some(90),
            Self::P99 => Some(99),
            Self::Errors | Self::Pending | Self::InFlight => None,
        }
    }
}

impl LimitFigure {
    const ALL: [(&'static str, Self); 2] = [("used", Self::Used), ("rejected", Self::Rejected)];
}

/// Returns the word of a figure.
fn word_of<T: Copy + PartialEq>(all: &[(&'static str, T)], figure: T) -> &'static str {
    let mut words = all.iter().filter(|(_, known)| *known == figure);
    words.next().map_or("", |(word, _)| word)
}

impl LoadFigure {
    fn unit(&self) -> FigureUnit {
        match self {
            Self::Limit(_, LimitFigure::Used) | Self::Origin(_, OriginFigure::Errors) => {
                FigureUnit::Share
            }
            Self::Origin(_, figure) if figure.percentile().is_some() => FigureUnit::Time,
            Self::Limit(_, LimitFigure::Rejected) | Self::Origin(..) | Self::Connections => {
                FigureUnit::Count
            }
        }
    }

    /// Returns a value of the figure as a person reads it.
    #[must_use]
    pub fn shown(&self, value: u64) -> String {
        match self.unit() {
            FigureUnit::Share if value.is_multiple_of(100) => format!("{}%", value / 100),
            FigureUnit::Share => format!("{}.{:02}%", value / 100, value % 100),
            FigureUnit::Time if value.is_multiple_of(1_000) => format!("{}ms", value / 1_000),
            FigureUnit::Time => format!("{}.{:03}ms", value / 1_000, value % 1_000),
            FigureUnit::Count => value.to_string(),
        }
    }
}

impl fmt::Display for LoadFigure {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(name, figure) => {
                write!(into, "limit.{name}.{}", word_of(&LimitFigure::ALL, *figure))
            }
            Self::Origin(name, figure) => {
                let word = word_of(&OriginFigure::ALL, *figure);
                write!(into, "origin.{name}.{word}")
            }
            Self::Connections => into.write_str("connections"),
        }
    }
}

impl LoadComparison {
    /// Returns whether a value of the figure meets the comparison, or is within `margin` of that.
    fn holds(&self, value: u64, margin: HysteresisMargin) -> bool {
        let value = u128::from(value);
        let threshold = u128::from(self.threshold);
        let is_over = matches!(
            self.operator,
            ThresholdOperator::Above | ThresholdOperator::AtLeast
        );
        let (value, threshold) = match margin {
            HysteresisMargin::None => (value, threshold),
            HysteresisMargin::Tenth if is_over => (value * 10, threshold * 9),
            HysteresisMargin::Tenth => (value * 10, threshold * 11),
        };
        match self.operator {
            ThresholdOperator::Above => value > threshold,
            ThresholdOperator::AtLeast => value >= threshold,
            ThresholdOperator::Below => value < threshold,
            ThresholdOperator::AtMost => value <= threshold,
        }
    }

    /// Returns the comparison as it is with a margin of a tenth, for people: `limit.site.used > 72%`.
    fn with_margin(&self) -> String {
        let is_over = matches!(
            self.operator,
            ThresholdOperator::Above | ThresholdOperator::AtLeast
        );
        let tenths = if is_over { 9 } else { 11 };
        let threshold = self.threshold.saturating_mul(tenths) / 10;
        let shown = self.figure.shown(threshold);
        format!("{} {} {shown}", self.figure, self.operator.as_str())
    }
}

impl ThresholdOperator {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}

impl LoadCondition {
    /// Returns whether the condition holds by these figures, of which some may be unknown.
    pub fn holds(
        &self,
        figures: impl Fn(&LoadFigure) -> Option<u64>,
        margin: HysteresisMargin,
    ) -> bool {
        self.judge(|comparison| {
            let value = figures(&comparison.figure);
            value.is_some_and(|value| comparison.holds(value, margin))
        })
    }

    /// Returns whether the condition holds by these figures, where each comparison with an unknown one counts as met.
    pub fn holds_or_is_unknown(&self, figures: impl Fn(&LoadFigure) -> Option<u64>) -> bool {
        self.judge(|comparison| {
            let value = figures(&comparison.figure);
            value.is_none_or(|value| comparison.holds(value, HysteresisMargin::None))
        })
    }

    fn judge(&self, is_met: impl Fn(&LoadComparison) -> bool) -> bool {
        let mut each = self.comparisons.iter().map(is_met);
        match self.joint {
            LogicalOperator::And => each.all(|holds| holds),
            LogicalOperator::Or => each.any(|holds| holds),
        }
    }

    /// Returns its figures, each once.
    #[must_use]
    pub fn figures(&self) -> BTreeSet<&LoadFigure> {
        let comparisons = self.comparisons.iter();
        comparisons.map(|comparison| &comparison.figure).collect()
    }

    /// Returns the condition with a margin of a tenth, for people.
    #[must_use]
    pub fn with_margin(&self) -> String {
        let comparisons = self.comparisons.iter().map(LoadComparison::with_margin);
        let joint = match self.joint {
            LogicalOperator::And => " and ",
            LogicalOperator::Or => " or ",
        };
        comparisons.collect::<Vec<_>>().join(joint)
    }
}

impl fmt::Display for LoadCondition {
    /// Writes the condition like the configuration does.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(&self.text)
    }
}

/// Reads the condition that a field holds; an error is reported where it is.
pub(super) fn load_condition(field: &KeyField<'_>) -> Option<LoadCondition> {
    let text = field.text()?;
    match parse(text) {
        Ok(condition) => Some(condition),
        Err(error) => error.refuse(field, text),
    }
}

fn parse(text: &str) -> Result<LoadCondition, ExpressionError> {
    let mut reader = TokenReader::from_text(text);
    let (joint, comparisons) = reader.joined(&JOINED, comparison)?;
    Ok(LoadCondition {
        text: Arc::from(text.trim()),
        joint,
        comparisons,
    })
}

fn comparison(reader: &mut TokenReader<'_>) -> Result<LoadComparison, ExpressionError> {
    let figure = match reader.next() {
        (Token::Word(text), at) => figure(text, at)?,
        (other, at) => return Err(unexpected(other, at, "a figure")),
    };
    let operator = match reader.next() {
        (Token::Sign(">"), _) => ThresholdOperator::Above,
        (Token::Sign(">="), _) => ThresholdOperator::AtLeast,
        (Token::Sign("<"), _) => ThresholdOperator::Below,
        (Token::Sign("<="), _) => ThresholdOperator::AtMost,
        (other, at) => return Err(unexpected(other, at, "`>`, `>=`, `<` or `<=`")),
    };
    let (text, at) = reader.run();
    if text.is_empty() {
        return Err(unexpected(Token::End, at, "a value"));
    }
    let threshold = value(text, &figure).map_err(|(message, advice)| ExpressionError {
        at,
        message,
        advice,
    })?;
    Ok(LoadComparison {
        figure,
        operator,
        threshold,
    })
}

/// Reads a figure. Names may have dots, so the kind is what stands before the first and the figure what stands behind the last.
fn figure(text: &str, at: Range<usize>) -> Result<LoadFigure, ExpressionError> {
    let error = |message, advice| ExpressionError {
        at: at.clone(),
        message,
        advice,
    };
    if text == "connections" {
        return Ok(LoadFigure::Connections);
    }
    let parts = text.split_once('.').and_then(|(kind, rest)| {
        let (name, figure) = rest.rsplit_once('.')?;
        (!name.is_empty()).then_some((kind, name, figure))
    });
    let example =
        "compare limit.NAME.used, origin.NAME.p99 or connections, as in \"origin.app.p99 > 500ms\"";
    let unknown = || {
        error(
            format!("there is no figure {}", quoted(text)),
            example.to_owned(),
        )
    };
    let (kind, name, word) = parts.ok_or_else(unknown)?;
    let name = Name::from(name);
    let no_such = |words: &mut dyn Iterator<Item = &'static str>| {
        let words: Vec<&str> = words.collect();
        let advice = match suggest::nearest(word, words.iter().copied()) {
            Some(meant) => format!("did you mean \"{kind}.{name}.{meant}\"?"),
            None => format!("write one of {}", words.join(", ")),
        };
        error(format!("{kind}s have no figure {}", quoted(word)), advice)
    };
    match kind {
        "limit" => {
            let mut known = LimitFigure::ALL.iter();
            let found = known.find(|(known, _)| *known == word);
            let found = found.map(|(_, figure)| LoadFigure::Limit(name.clone(), *figure));
            found.ok_or_else(|| no_such(&mut LimitFigure::ALL.iter().map(|(word, _)| *word)))
        }
        "origin" => {
            let mut known = OriginFigure::ALL.iter();
            let found = known.find(|(known, _)| *known == word);
            let found = found.map(|(_, figure)| LoadFigure::Origin(name.clone(), *figure));
            found.ok_or_else(|| no_such(&mut OriginFigure::ALL.iter().map(|(word, _)| *word)))
        }
        _ => Err(unknown()),
    }
}

/// Reads a value of the figure's unit.
fn value(text: &str, figure: &LoadFigure) -> Result<u64, (String, String)> {
    let wrong = |what: &str, advice: &str| {
        let message = format!("{figure} is {what}, and {} is none", quoted(text));
        (message, advice.to_owned())
    };
    match figure.unit() {
        FigureUnit::Share => any_share(text)
            .map(|share| u64::from(share.ten_thousandths()))
            .map_err(|_| wrong("a share", "write 0% to 100%, as in 80%")),
        FigureUnit::Time => {
            let read = units::duration(text);
            let millis = read
                .ok()
                .and_then(|time| u64::try_from(time.as_millis()).ok());
            match millis {
                Some(millis @ 1..=LONGEST_MILLIS) => Ok(millis * 1_000),
                Some(_) => Err((
                    format!("{} is out of range", quoted(text)),
                    format!(
                        "write 1ms to {}",
                        ShownDuration(std::time::Duration::from_millis(LONGEST_MILLIS))
                    ),
                )),
                None => Err(wrong("a time", "write it with its unit, as in 500ms or 2s")),
            }
        }
        FigureUnit::Count => match text.parse() {
            Ok(count @ 0..=LARGEST) => Ok(count),
            _ => Err(wrong("a number", "write a whole number, as in 100")),
        },
    }
}

fn unexpected(token: Token<'_>, at: Range<usize>, expected: &str) -> ExpressionError {
    token.unexpected(at, expected, JOINED.example)
}

#[cfg(test)]
#[path = "load_condition_tests.rs"]
mod tests;
