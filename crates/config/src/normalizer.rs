//! Owns how the normal form of a value is written: `lower`, `first 4`, `e164 DE`, one after the other with `|` between.

use std::num::NonZeroU16;
use std::sync::Arc;

use sluicegate_base::normal_form::{self, Normalizer};
use sluicegate_base::telephony::{self, PhoneRegion};

use super::field::quoted;
use super::problem::ParseError;
use super::suggest;

/// The steps in the words of the configuration, for advice.
const FORMS: &str = "lower, trim, fold, email, e164, e164 DE, integer, uuid, first 4, before \"@\", after \"@\", raw";

const NAMES: [&str; 11] = [
    "lower", "trim", "fold", "email", "e164", "integer", "uuid", "first", "before", "after", RAW,
];

/// The form of a value of which each spelling is a value of its own. It says so to readers and to `check`, and changes nothing.
const RAW: &str = "raw";

/// Most of one part: more say nothing that fewer could not.
const MOST: usize = 8;

/// Longest text of `before` and `after`, in bytes.
const LONGEST_MARK: usize = 32;

/// Returns whether the forms behind the first `|` of a part bring spellings of one value to one form, or say that each is its own.
pub(super) fn settles_spellings(text: &str) -> bool {
    pieces(text).contains(&RAW)
        || all(text).is_ok_and(|forms| forms.iter().any(Normalizer::merges_spellings))
}

/// Reads the steps behind the first `|` of a part.
pub(super) fn all(text: &str) -> Result<Vec<Normalizer>, ParseError> {
    let mut pieces = pieces(text);
    pieces.retain(|piece| *piece != RAW);
    if pieces.len() > MOST {
        return Err(ParseError::with_advice(
            format!("{} normal forms are too many for a value", pieces.len()),
            format!("keep at most {MOST}"),
        ));
    }
    pieces.into_iter().map(one).collect()
}

/// The texts between `|`, other than those in quotes.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut open = None;
    for (at, character) in text.char_indices() {
        match (character, open) {
            ('|', None) => {
                pieces.push(text[start..at].trim());
                start = at + 1;
            }
            ('"' | '\'', None) => open = Some(character),
            (character, Some(quote)) if character == quote => open = None,
            _ => {}
        }
    }
    pieces.push(text[start..].trim());
    pieces
}

fn one(text: &str) -> Result<Normalizer, ParseError> {
    let (name, argument) = match text.split_once(' ') {
        Some((name, argument)) => (name, argument.trim()),
        None => (text, ""),
    };
    let plain = |normalizer| {
        if argument.is_empty() {
            Ok(normalizer)
        } else {
            let message = format!("{name} takes nothing, and got {}", quoted(argument));
            Err(ParseError::with_advice(
                message,
                format!("write {name} alone"),
            ))
        }
    };
    match name {
        "lower" => plain(Normalizer::Lower),
        "trim" => plain(Normalizer::Trim),
        "fold" => {
            // The table of characters is made at its first use: now, rather than while a request waits.
            drop(normal_form::fold(""));
            plain(Normalizer::Fold)
        }
        "email" => plain(Normalizer::Email),
        "integer" => plain(Normalizer::Integer),
        "uuid" => plain(Normalizer::Uuid),
        "e164" => {
            let region = region(argument)?;
            // The numbering plan is compiled at its first use: now, rather than while a request waits.
            drop(telephony::e164("0", region));
            Ok(Normalizer::E164(region))
        }
        "first" => count(argument).map(Normalizer::First),
        "before" => mark(name, argument).map(Normalizer::Before),
        "after" => mark(name, argument).map(Normalizer::After),
        _ => Err(unknown(text, name)),
    }
}

fn unknown(text: &str, name: &str) -> ParseError {
    let message = format!("{} is not a normal form", quoted(text));
    let advice = match suggest::nearest(name, NAMES) {
        Some(meant) => format!("did you mean {meant}? write one of {FORMS}"),
        None => format!("write one of {FORMS}"),
    };
    ParseError::with_advice(message, advice)
}

/// The country of numbers that are written without one.
fn region(text: &str) -> Result<Option<PhoneRegion>, ParseError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not a country", quoted(text)),
            "write its two letters, as in \"e164 DE\", or \"e164\" alone for numbers that begin with +",
        )
    })
}

fn count(text: &str) -> Result<NonZeroU16, ParseError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().ok_or_else(|| {
        ParseError::with_advice(
            format!(
                "first takes a number of characters, and got {}",
                quoted(text)
            ),
            "write 1 to 65535, as in \"first 4\"",
        )
    })
}

/// A text in quotes of either kind, since a TOML string takes one of them.
fn mark(name: &str, text: &str) -> Result<Arc<str>, ParseError> {
    let within = |quote| {
        text.strip_prefix(quote)
            .and_then(|rest: &str| rest.strip_suffix(quote))
    };
    let mark = within('"').or_else(|| within('\''));
    match mark {
        Some(mark) if (1..=LONGEST_MARK).contains(&mark.len()) && !mark.contains(['"', '\'']) => {
            Ok(Arc::from(mark))
        }
        _ => Err(ParseError::with_advice(
            format!("{name} takes a text in quotes, and got {}", quoted(text)),
            format!("write 1 to {LONGEST_MARK} bytes, as in {name} '@'"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a mark may be what separates. Method: a bar in quotes of both kinds.
    #[test]
    fn a_bar_in_quotes_separates_nothing() {
        assert_eq!(
            all(" before \"|\" | lower"),
            Ok(vec![Normalizer::Before("|".into()), Normalizer::Lower])
        );
        assert_eq!(all("after '|'"), Ok(vec![Normalizer::After("|".into())]));
    }

    /// Goal: `raw` says that spellings are meant, and changes nothing. Method: it alone and beside others, and forms that settle what is
    /// one value, or leave it open.
    #[test]
    fn raw_changes_nothing_but_says_so() {
        let first = Normalizer::First(4.try_into().unwrap());
        assert_eq!(all("raw"), Ok(Vec::new()));
        assert_eq!(all("raw | first 4"), Ok(vec![first]));
        assert!(all("rwa").unwrap_err().advice.unwrap().contains("raw"));
        for (text, settles) in [
            ("raw", true),
            ("trim | raw", true),
            ("integer", true),
            ("before '@' | fold", true),
            ("trim", false),
            ("first 4", false),
            ("before 'raw'", false),
        ] {
            assert_eq!(settles_spellings(text), settles, "{text}");
        }
    }

    /// Goal: an unknown form is answered with those that exist. Method: slips of several kinds, each with a part of its advice.
    #[test]
    fn what_is_no_normal_form_is_answered_with_what_to_write() {
        for (wrong, advice) in [
            ("lowre", "did you mean lower? write one of lower, trim"),
            ("sha256", "write one of lower, trim"),
            ("", "write one of lower, trim"),
            ("lower de", "write lower alone"),
            ("e164 Germany", "write its two letters"),
            ("first", "write 1 to 65535"),
            ("first 0", "write 1 to 65535"),
            ("first -1", "write 1 to 65535"),
            ("before @", "as in before '@'"),
            ("after \"\"", "as in after '@'"),
            ("before \"", "as in before '@'"),
        ] {
            let told = all(wrong).unwrap_err().advice.unwrap();
            assert!(told.contains(advice), "{wrong}: {told}");
        }
        assert!(all(&"lower|".repeat(9)).is_err());
    }
}
