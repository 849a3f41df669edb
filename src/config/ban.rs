//! Owns how two refusals beside the rates are written: `ban`, which outlasts them, and `concurrency`, which does not know them.
//!
//! Both need a limit that refuses. Beside `action = "mark"` they would do nothing, so they are an error there; beside
//! `action = "shadow"` they wait for the day on which the limit is enforced.

use std::time::Duration;

use sluicegate_limiter::{BanFactor, BanRules, Concurrency};
use toml::de::DeValue;

use super::action::Action;
use super::field::{Field, describe};
use super::rules::{KeyPart, KeyTemplate};
use super::section::Section;

/// Shortest ban; a shorter one is a rate.
const SHORTEST: Duration = Duration::from_secs(1);

/// The keys that refuse beside the rates.
pub(super) struct BanKeys<'d> {
    ban: Option<Field<'d>>,
    concurrency: Option<Field<'d>>,
}

/// The settings that the keys of a limit give.
#[derive(Clone, Copy)]
pub(super) struct BanSettings {
    pub(super) ban: Option<BanRules>,
    pub(super) concurrency: Option<Concurrency>,
}

impl<'d> BanKeys<'d> {
    /// The keys of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn of(section: &Section<'d>) -> Self {
        Self {
            ban: section.field("ban", "{ for = \"10m\" }"),
            concurrency: section.field("concurrency", "10"),
        }
    }

    /// Returns the settings of a limit; `None` when something is wrong, which was reported then.
    pub(super) fn read(&self) -> Option<BanSettings> {
        let ban = self.ban.as_ref().map(ban);
        let concurrency = self.concurrency.as_ref().map(concurrency);
        Some(BanSettings {
            ban: ban.map_or(Some(None), |ban| ban.map(Some))?,
            concurrency: concurrency.map_or(Some(None), |most| most.map(Some))?,
        })
    }

    /// Warns of a ban that one client can bring upon all.
    pub(super) fn check_key(&self, key: &KeyTemplate) {
        if let Some(field) = &self.ban
            && key.0 == [KeyPart::Global]
        {
            field.report.warning(
                &field.place,
                "all clients share the key \"global\", so whoever exceeds the limit gets everybody banned",
                "write the ban in a limit that counts by client, or leave it out",
            );
        }
    }

    /// Reports what would do nothing beside `action`.
    pub(super) fn check_beside(&self, action: &Action) -> Option<()> {
        let mut right = Some(());
        for field in [&self.ban, &self.concurrency].into_iter().flatten() {
            if matches!(action, Action::Mark { .. }) {
                right = field.refuse(
                    format!(
                        "{} refuses, and a limit with action = \"mark\" does not",
                        field.key
                    ),
                    "write it in the limit that `fallback_limit` names, or in one of its own",
                );
            }
        }
        right
    }
}

fn ban(field: &Field<'_>) -> Option<BanRules> {
    let section = field.section()?;
    let lengths = SHORTEST..=BanRules::MAX_BAN;
    let first = section
        .required("for", "\"10m\"")
        .and_then(|field| field.duration(lengths.clone()));
    let factor = section.or("factor", "2", BanFactor::ONE, factor);
    let longest = section.field("max", "\"1d\"");
    let max = match (&longest, first, factor) {
        (Some(field), ..) => field.duration(lengths).and_then(|max| match first {
            Some(first) if max < first => field.refuse(
                "the longest ban is shorter than the first",
                "write a longer one, or leave it out",
            ),
            Some(_) if factor == Some(BanFactor::ONE) => field.refuse(
                "every ban is as long as the first, so there is no longest",
                "write factor = 2, or leave it out",
            ),
            _ => Some(max),
        }),
        (None, _, Some(factor)) if factor > BanFactor::ONE => {
            section.report.error(
                &section.place,
                "with a factor bans grow, and nothing says how far",
                "write max = \"1d\"",
            );
            None
        }
        (None, first, _) => first,
    };
    section.finish();
    match BanRules::new(first?, factor?, max?) {
        Ok(rules) => Some(rules),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}

/// A number of hundredths, written as a whole number or with a point.
fn factor(field: &Field<'_>) -> Option<BanFactor> {
    let hundredths = match field.value {
        DeValue::Integer(_) => field.integer(1..=100)? * 100,
        DeValue::Float(float) => {
            let written = float.as_str().replace('_', "");
            let factor: f64 = written.parse().unwrap_or(f64::NAN);
            // Saturates; what is not a number becomes 0.
            let hundredths = (factor * 100.0).round() as u64;
            if (factor * 100.0 - hundredths as f64).abs() > 1e-6 {
                let got = describe(field.value);
                return field.refuse(
                    format!("expected a factor of 1 to 100 with at most two decimals, got {got}"),
                    field.advice(),
                );
            }
            hundredths
        }
        _ => return field.unexpected("a number"),
    };
    let factor = u32::try_from(hundredths)
        .ok()
        .map(BanFactor::from_hundredths);
    match factor {
        Some(Ok(factor)) => Some(factor),
        Some(Err(error)) => field.refuse(error.to_string(), field.advice()),
        None => field.refuse("the factor is out of range", "the most is 100"),
    }
}

fn concurrency(field: &Field<'_>) -> Option<Concurrency> {
    let most = field.integer(1..=u64::from(Concurrency::MAX.get()))?;
    match Concurrency::new(u32::try_from(most).ok()?) {
        Ok(most) => Some(most),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}
