//! Owns how two refusals beside the rates are written: `ban`, which outlasts them, and `concurrency`, which does not know them.
//!
//! Both need a limit that refuses. Beside `action = "mark"` they would do nothing, so they are an error there; beside
//! `action = "shadow"` they do nothing until the limit is enforced, so they are a warning.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluicegate_config_derive::Table;
use sluicegate_limiter::{BanFactor, BanRules, Concurrency};
use toml::de::DeValue;

use super::action::Action;
use super::declaration::{DurationIn, ReadBy};
use super::field::{KeyField, describe};
use super::form::ValueKind;
use super::rules::{KeyPart, KeyTemplate};
use super::section::TableSection;

/// Shortest and longest ban; a shorter one is a rate.
const LENGTHS: RangeInclusive<Duration> = Duration::from_secs(1)..=BanRules::MAX_BAN;

/// The keys that refuse beside the rates.
pub(super) struct BanKeys<'d> {
    ban: Option<KeyField<'d>>,
    concurrency: Option<KeyField<'d>>,
}

/// The settings that the keys of a limit give.
#[derive(Clone, Copy)]
pub(super) struct BanSettings {
    pub(super) ban: Option<BanRules>,
    pub(super) concurrency: Option<Concurrency>,
}

impl<'d> BanKeys<'d> {
    /// The keys of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            ban: section.field("ban", "{ for = \"10m\" }"),
            concurrency: section.field("concurrency", "10"),
        }
    }

    /// Returns the settings of a limit with this key and action, as far as these are known; `None` when something is wrong, which was
    /// reported then.
    pub(super) fn read(
        &self,
        key: Option<&KeyTemplate>,
        action: Option<&Action>,
    ) -> Option<BanSettings> {
        let ban = self.ban.as_ref().map(ban);
        let concurrency = self.concurrency.as_ref().map(concurrency);
        if let Some(key) = key {
            self.check_key(key);
        }
        if let Some(action) = action {
            self.check_beside(action)?;
        }
        Some(BanSettings {
            ban: ban.map_or(Some(None), |ban| ban.map(Some))?,
            concurrency: concurrency.map_or(Some(None), |most| most.map(Some))?,
        })
    }

    /// Warns of a ban that one client can bring upon all.
    fn check_key(&self, key: &KeyTemplate) {
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
    fn check_beside(&self, action: &Action) -> Option<()> {
        let mut right = Some(());
        if let (Some(field), Action::Challenge { .. }) = (&self.ban, action) {
            right = field.refuse(
                "a ban would reject the key before a browser can solve the challenge",
                "write it in the limit that `unsolved` names, which bans those that solve none",
            );
        }
        for field in [&self.ban, &self.concurrency].into_iter().flatten() {
            if *action == Action::Shadow {
                let message = match field.key {
                    "ban" => "a limit in shadow bans no key",
                    _ => "a limit in shadow does not bound requests in flight",
                };
                field.warn(
                    message,
                    "leave it out until the limit rejects, or write it in one that does",
                );
            }
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

/// The ban of a key that exceeded the limit: it is rejected for a time, whatever the rates admit. Up to `capacity` bans are kept, at 31
/// bytes each, with the persistence of the counters; requests during a ban do not prolong it. Default: none.
#[derive(Table)]
#[table(path = "limit.NAME.ban", check = check_longest)]
pub(super) struct BanTable {
    /// Required. The duration of the first ban, 1s to 366d.
    #[key(example = "\"10m\"", reader = DurationIn(LENGTHS))]
    r#for: Duration,
    /// The factor by which each further ban is longer than the previous one, 1 to 100, at most two decimals. Default: 1.
    #[key(
        example = "2",
        default = BanFactor::ONE,
        reader = ReadBy(factor, &[ValueKind::Integer, ValueKind::Number])
    )]
    factor: BanFactor,
    /// The maximum duration, `for` to 366d; required with a factor. After each such time without a ban one previous ban is forgotten.
    #[key(example = "\"1d\"", reader = DurationIn(LENGTHS))]
    max: Option<Duration>,
}

fn check_longest(keys: &BanTableKeys, section: &TableSection<'_>) -> Option<()> {
    match (keys.max, keys.r#for, keys.factor) {
        (Some(Some(max)), Some(first), _) if max < first => section.refuse(
            "max",
            "the longest ban is shorter than the first",
            "write a longer one, or leave it out",
        ),
        (Some(Some(_)), Some(_), Some(BanFactor::ONE)) => section.refuse(
            "max",
            "every ban is as long as the first, so there is no longest",
            "write factor = 2, or leave it out",
        ),
        (Some(None), _, Some(factor)) if factor > BanFactor::ONE => {
            section.report.error(
                &section.place,
                "with a factor bans grow, and nothing says how far",
                "write max = \"1d\"",
            );
            None
        }
        _ => Some(()),
    }
}

fn ban(field: &KeyField<'_>) -> Option<BanRules> {
    let table = BanTable::read(field.section()?)?;
    let first = table.r#for;
    let longest = table.max;
    match BanRules::new(first, table.factor, longest.unwrap_or(first)) {
        Ok(rules) => Some(rules),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}

/// A number of hundredths, written as a whole number or with a point.
fn factor(field: &KeyField<'_>) -> Option<BanFactor> {
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

fn concurrency(field: &KeyField<'_>) -> Option<Concurrency> {
    let most = field.integer(1..=u64::from(Concurrency::MAX.get()))?;
    match Concurrency::new(u32::try_from(most).ok()?) {
        Ok(most) => Some(most),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}
