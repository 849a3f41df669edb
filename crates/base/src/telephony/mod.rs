//! Owns the numbering plans of all countries, and converts texts to telephone numbers.
//!
//! The steps are those of Google's libphonenumber, whose metadata this uses: the international prefix, the country code, then
//! the national prefix, which is dropped only if the rest is a number. The purpose differs. A counter needs one form for all
//! spellings of a number, and a number that is not in the metadata, because its plan has changed since, must still have a form:
//! so a number of plausible length is accepted, and digits after the longest number of a plan, which networks ignore, are
//! ignored here too.
//!
//! # Invariants
//! 1. The form of a form is the form itself.
//!
//! # Limits
//! A text has at most [`TELEPHONE_BYTES`](bounds::TELEPHONE_BYTES). A plan's expressions are compiled at its first use and kept.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::bounds;

/// Written by `tests/telephony/plans.py`.
const PLANS: &str = include_str!("plans.tsv");

/// Fewest digits of a number without its country code, and most digits with it (ITU-T E.164 §6.2).
const LEAST_DIGITS: usize = 4;
const MOST_DIGITS: usize = 15;

/// Maximum number of national prefixes that are dropped: people write `+49 (0) 151`, and not more.
const PREFIXES: usize = 4;

/// A country or territory with a numbering plan, by its two letters (ISO 3166-1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PhoneRegion(&'static str);

/// The numbering plan of a region.
struct NumberingPlan {
    region: &'static str,
    code: &'static str,
    /// True if numbers written with the country code follow this plan rather than another one with the same code.
    is_main: bool,
    lengths: (usize, usize),
    international_prefix: Option<LazyRegex>,
    national_prefix: Option<LazyRegex>,
    rule: &'static str,
    numbers: LazyRegex,
}

/// An expression that is compiled when it is first needed.
type LazyRegex = LazyLock<Option<Regex>, Box<dyn FnOnce() -> Option<Regex> + Send>>;

static ALL: LazyLock<Vec<NumberingPlan>> =
    LazyLock::new(|| PLANS.lines().filter_map(plan).collect());

fn plan(line: &'static str) -> Option<NumberingPlan> {
    let mut fields = line.split('\t');
    let region = fields.next().filter(|region| !region.starts_with('#'))?;
    let code = fields.next()?;
    let is_main = fields.next()? == "main";
    let (least, most) = fields.next()?.split_once('-')?;
    let international = fields.next()?;
    let national = fields.next()?;
    let rule = fields.next()?;
    let numbers = fields.next()?;
    Some(NumberingPlan {
        region,
        code,
        is_main,
        lengths: (least.parse().ok()?, most.parse().ok()?),
        international_prefix: at_start(international),
        national_prefix: at_start(national),
        rule,
        numbers: lazily(format!("^(?:{numbers})$")),
    })
}

fn at_start(expression: &'static str) -> Option<LazyRegex> {
    (!expression.is_empty()).then(|| lazily(format!("^(?:{expression})")))
}

/// Compiles an expression when needed. The expressions are ours, and a test compiles them all.
fn lazily(expression: String) -> LazyRegex {
    LazyLock::new(Box::new(move || {
        RegexBuilder::new(&expression).unicode(false).build().ok()
    }))
}

/// The error of `FromStr`: no region has these letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRegion;

impl FromStr for PhoneRegion {
    type Err = UnknownRegion;

    fn from_str(text: &str) -> Result<Self, UnknownRegion> {
        let plan = ALL
            .iter()
            .find(|plan| plan.region == text && plan.region.len() == 2);
        plan.map(|plan| Self(plan.region)).ok_or(UnknownRegion)
    }
}

impl fmt::Display for PhoneRegion {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(self.0)
    }
}

impl fmt::Debug for PhoneRegion {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, into)
    }
}

/// Returns the number in `text`, as `+4915112345678`; `None` where it cannot be a number. Numbers without a country code belong
/// to `region`.
///
/// Only digits and marks between them are accepted: some origins read an extension, letters, or a URI as one number and others
/// as another.
#[must_use]
pub fn e164(text: &str, region: Option<PhoneRegion>) -> Option<String> {
    if text.len() > bounds::TELEPHONE_BYTES {
        return None;
    }
    let text = text.trim();
    let (is_international, text) = match text.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut digits = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '0'..='9' => digits.push(letter),
            // The dashes and spaces of other scripts that NFKC leaves.
            ' ' | '-' | '.' | '/' | '(' | ')' | '\u{2010}'..='\u{2015}' | '\u{2212}' => {}
            // `(+49) 151`: only brackets stood before it.
            '+' if digits.is_empty() && !is_international => return plus_in_brackets(text),
            _ => return None,
        }
    }
    if is_international {
        return international(&digits);
    }
    let home = region.and_then(|region| ALL.iter().find(|plan| plan.region == region.0))?;
    from_home(&digits, home)
}

fn plus_in_brackets(text: &str) -> Option<String> {
    let (before, behind) = text.split_once('+')?;
    let is_bracket = before.chars().all(|letter| matches!(letter, ' ' | '('));
    (is_bracket && !behind.contains('+'))
        .then(|| e164(&format!("+{behind}"), None))
        .flatten()
}

/// Returns the number behind digits without `+`, as dialled in a country.
fn from_home(digits: &str, home: &NumberingPlan) -> Option<String> {
    if let Some(rest) = behind_international_prefix(digits, home) {
        return international(rest);
    }
    let national = without_prefix(digits.to_owned(), home);
    // `4915112345678`: digits that begin with the country's own code, and with no national prefix where there is one.
    let has_prefix = home.national_prefix.is_some() && national != digits;
    let with_code = digits.strip_prefix(home.code).filter(|rest| {
        let is_longer = digits.len() > home.lengths.1;
        let rest = without_prefix((*rest).to_owned(), home);
        home.has(&rest) && (home.national_prefix.is_some() || !home.has(digits)) || is_longer
    });
    if with_code.is_some() && !has_prefix {
        return international(digits);
    }
    if home.has(&national) {
        return international(&format!("{}{national}", home.code));
    }
    // Prefixes of other countries: `0049`, `01149`.
    for prefix in ["00", "011"] {
        let number = digits.strip_prefix(prefix).and_then(international);
        if number.is_some() {
            return number;
        }
    }
    international(&format!("{}{national}", home.code))
}

/// Returns the digits after the international prefix; a country code does not begin with a zero.
fn behind_international_prefix<'d>(digits: &'d str, home: &NumberingPlan) -> Option<&'d str> {
    let prefix = home.international_prefix.as_ref()?;
    let found = LazyLock::force(prefix).as_ref()?.find(digits)?;
    let rest = &digits[found.end()..];
    (!rest.starts_with('0') && plan_of(rest).is_some()).then_some(rest)
}

/// Returns the main plan whose country code `digits` begin with. No code is a prefix of another.
fn plan_of(digits: &str) -> Option<&'static NumberingPlan> {
    ALL.iter()
        .find(|plan| plan.is_main && digits.starts_with(plan.code))
}

/// Returns a number with its country code.
fn international(digits: &str) -> Option<String> {
    let plan = plan_of(digits)?;
    let mut national = without_prefix(digits[plan.code.len()..].to_owned(), plan);
    let most = MOST_DIGITS - plan.code.len();
    if !plan.has(&national) {
        national.truncate(plan.lengths.1.min(most));
    }
    let least = plan.lengths.0.min(LEAST_DIGITS);
    (national.len() >= least).then(|| format!("+{}{national}", plan.code))
}

/// Removes the national prefix, which some write after a country code too: `+49 (0) 151`.
fn without_prefix(mut national: String, plan: &NumberingPlan) -> String {
    for _ in 0..PREFIXES {
        match plan.without_one_prefix(&national) {
            Some(shorter) if shorter != national => national = shorter,
            _ => break,
        }
    }
    national
}

impl NumberingPlan {
    /// Returns whether this is a number of the plan.
    fn has(&self, national: &str) -> bool {
        let numbers = LazyLock::force(&self.numbers).as_ref();
        numbers.is_some_and(|numbers| numbers.is_match(national))
    }

    /// Drops a prefix, or replaces it, as libphonenumber does: never so that a valid number becomes invalid.
    fn without_one_prefix(&self, national: &str) -> Option<String> {
        let prefix = LazyLock::force(self.national_prefix.as_ref()?).as_ref()?;
        let found = prefix.captures(national)?;
        let end = found.get(0)?.end();
        let last = found.len() - 1;
        let shorter = if self.rule.is_empty() || found.get(last).is_none() {
            national[end..].to_owned()
        } else {
            let mut replaced = String::new();
            found.expand(self.rule, &mut replaced);
            replaced + &national[end..]
        };
        (!self.has(national) || self.has(&shorter)).then_some(shorter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NUMBERS: &str = include_str!("../../../../tests/telephony/numbers.tsv");

    fn from(region: &str, text: &str) -> Option<String> {
        e164(text, region.parse().ok())
    }

    /// Goal: the table is complete. Method: every line is a plan, whose expressions compile.
    #[test]
    fn every_plan_compiles() {
        let lines = PLANS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((ALL.len(), lines), (lines, 254));
        for plan in ALL.iter() {
            assert!(LazyLock::force(&plan.numbers).is_some(), "{}", plan.region);
            for prefix in [&plan.international_prefix, &plan.national_prefix] {
                assert!(
                    prefix
                        .as_ref()
                        .is_none_or(|prefix| LazyLock::force(prefix).is_some())
                );
            }
            assert!(plan_of(plan.code).is_some(), "{}", plan.code);
        }
    }

    /// Goal: numbers of every country are accepted, and their spellings are one. Method: libphonenumber's example numbers of all
    /// kinds and regions, as people there write them, abroad and with prefixes of other countries.
    #[test]
    fn numbers_of_all_countries_have_their_form() {
        let mut wrong = Vec::new();
        for line in NUMBERS.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [region, kind, text, expected] = fields[..] else {
                panic!("{line}");
            };
            let digits = &expected[1..];
            let code = plan_of(digits).map_or("", |plan| plan.code);
            let others = [
                text.to_owned(),
                format!("(+{code}) {}", &digits[code.len()..]),
                expected.replace('+', "+ "),
            ];
            for text in &others {
                if from(region, text).as_deref() != Some(expected) {
                    wrong.push(format!(
                        "{region} {kind} {text}: {:?}, not {expected}",
                        from(region, text)
                    ));
                }
            }
            for (home, prefix) in [("DE", "00"), ("US", "011")] {
                let text = format!("{prefix}{digits}");
                if from(home, &text).as_deref() != Some(expected) {
                    wrong.push(format!(
                        "{home} {text}: {:?}, not {expected}",
                        from(home, &text)
                    ));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(40)]
        );
    }

    /// Goal: spellings of one number are one, and a text that cannot be a number has no form. Method: spellings that people and
    /// attackers use.
    #[test]
    fn spellings_of_a_number_are_one() {
        for (region, text, expected) in [
            ("DE", "+49 (0) 151 12345678", "+4915112345678"),
            ("DE", "4915112345678", "+4915112345678"),
            ("DE", "0049 0151/12345678", "+4915112345678"),
            ("DE", "01149 151 12345678", "+4915112345678"),
            ("DE", "(+49) 151-12345678", "+4915112345678"),
            ("DE", "151 12345678", "+4915112345678"),
            ("CI", "01 02 03 04 05", "+2250102030405"),
            ("CG", "06 612 3456", "+242066123456"),
            ("IT", "06 1234 5678", "+390612345678"),
            ("IT", "+39 06 1234 5678", "+390612345678"),
            ("BJ", "01 95 12 34 56", "+2290195123456"),
            ("US", "1 650 253 0000", "+16502530000"),
            ("US", "(650) 253‑0000", "+16502530000"),
            ("MX", "+52 1 55 1234 5678", "+525512345678"),
            // Digits after the longest number of a plan do not count.
            ("US", "+1 650 253 0000 1", "+16502530000"),
            ("CI", "+225 0102030405 9", "+2250102030405"),
        ] {
            assert_eq!(
                from(region, text).as_deref(),
                Some(expected),
                "{region} {text}"
            );
        }
        for text in [
            "",
            "+",
            "1",
            "+49",
            "+4",
            "+999123456",
            "+0491511234567",
            "++49151",
            "0151 +12345678",
            "x",
            "0151x2",
        ] {
            assert_eq!(from("DE", text), None, "{text}");
        }
        assert_eq!(e164("015112345678", None), None);
        assert_eq!("de".parse::<PhoneRegion>(), Err(UnknownRegion));
        assert_eq!("001".parse::<PhoneRegion>(), Err(UnknownRegion));
    }

    proptest! {
        /// Goal: invariant 1, and no text of a client stops the process. Method: digits and marks, of several regions.
        #[test]
        fn a_form_is_its_own_form(text in "(\\+|00|011)?[0-9 ()/.-]{0,20}", home in 0usize..245) {
            let home = PhoneRegion(ALL[home].region);
            if let Some(form) = e164(&text, Some(home)) {
                prop_assert_eq!(e164(&form, Some(home)), Some(form.clone()));
                prop_assert_eq!(e164(&form, None), Some(form));
            }
        }
    }
}
