//! Owns how tiers are written: `tier`, what names the tier of a request, and `tiers`, what each of them may do.
//!
//! A tier is a plan that somebody has paid for, so only who may be believed can name it: the issuer of a verified token, a trusted
//! hop in a header field, or the databases of places. Everything else that clients send would be a plan for free, and is refused here.

use std::ops::Range;

use sluicegate_base::bounds;
use toml::Spanned;
use toml::de::DeValue;

use super::activation::ActivationKeys;
use super::field::{KeyField, all, quoted};
use super::key;
use super::load_condition::LoadCondition;
use super::overrides::{self, OverriddenLimit};
use super::problem::ParseError;
use super::report::PlacedValue;
use super::rules::{KeyPart, Name, NamedTier, Tier, TierRules, TierSource, ValueSource};
use super::section::{TableSection, step};
use super::suggest;
use super::tables::geo;

/// The tiers of a limit, and the conditions of some of them.
pub(super) type ParsedTiers = (Option<TierRules>, Vec<PlacedValue<LoadCondition>>);

const EXAMPLE: &str = "{ pro = [\"600 per 1m\"] }";

/// The keys of a limit that are about tiers.
pub(super) struct TierKeys<'d> {
    tier: Option<KeyField<'d>>,
    tiers: Option<KeyField<'d>>,
}

impl<'d> TierKeys<'d> {
    /// The keys of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            tier: section.field("tier", "\"jwt.plan\""),
            tiers: section.field("tiers", EXAMPLE),
        }
    }

    /// Returns the tiers of the limit that `about` is; `None` inside where nothing is written, outside where it is wrong or cannot be
    /// judged.
    pub(super) fn read(&self, about: Option<&OverriddenLimit<'_>>) -> Option<ParsedTiers> {
        match (&self.tier, &self.tiers) {
            (None, None) => Some((None, Vec::new())),
            (Some(tier), None) => tier.refuse(
                "nothing says what the tiers may do",
                format!("write tiers = {EXAMPLE}, or leave tier out"),
            ),
            (None, Some(tiers)) => tiers.refuse(
                "nothing says what names the tier of a request",
                "write tier = \"jwt.plan\", or leave tiers out",
            ),
            (Some(tier), Some(tiers)) => {
                let named_by = named_by(tier);
                let (tiers, conditions) = all_of(tiers, named_by.as_ref(), about)?;
                let rules = TierRules {
                    named_by: named_by?,
                    tiers,
                };
                Some((Some(rules), conditions))
            }
        }
    }
}

/// Reads the part of a request that names its tier.
fn named_by(field: &KeyField<'_>) -> Option<TierSource> {
    match field.parsed(key::part)? {
        KeyPart::Value(value)
            if matches!(value.source, ValueSource::Claim(_) | ValueSource::Header(_)) =>
        {
            Some(TierSource::Value(value))
        }
        KeyPart::Place(place) => Some(TierSource::Place(place)),
        other => field.refuse(
            format!(
                "\"{other}\" cannot name a tier, only a verified token, a trusted proxy or a database of places can"
            ),
            "write a claim, \"jwt.plan\", a field that the proxy writes, \"header.x-plan\", or \"client.country\"",
        ),
    }
}

/// Returns the bytes of a value of `part` that is written as `name`.
///
/// # Errors
/// What to write instead of a value that no request has.
fn said(part: &TierSource, name: &str) -> Result<Vec<u8>, ParseError> {
    match part {
        TierSource::Place(place) => geo::counted_by(name, *place),
        TierSource::Value(value) => value
            .counted_text(name)
            .filter(|said| !said.is_empty())
            .ok_or_else(|| {
                ParseError::with_advice(
                    format!("\"{part}\" is never {}", quoted(name)),
                    "write what requests say of their tier, as in pro",
                )
            }),
    }
}

/// Every tier of `[limit.NAME.tiers]`.
fn all_of(
    field: &KeyField<'_>,
    named_by: Option<&TierSource>,
    about: Option<&OverriddenLimit<'_>>,
) -> Option<(Vec<NamedTier>, Vec<PlacedValue<LoadCondition>>)> {
    let section = field.section()?;
    let entries = section.entries();
    if entries.is_empty() {
        return field.refuse("there is no tier", field.advice());
    }
    if entries.len() > bounds::OVERRIDE_TIERS {
        let message = format!("{} tiers are too many", entries.len());
        return field.refuse(message, format!("keep {}", bounds::OVERRIDE_TIERS));
    }
    let mut tiers: Vec<NamedTier> = Vec::new();
    let mut conditions = Vec::new();
    let read = entries.into_iter().map(|entry| {
        let (tier, own) = one(field, entry, named_by, about)?;
        conditions.extend(own);
        if let Some(twin) = tiers.iter().find(|other| other.said == tier.value.said) {
            let message = format!(
                "{} and {} are the same tier in their normal form",
                quoted(&twin.name),
                quoted(&tier.value.name)
            );
            field.report.error(&tier.place, message, "write it once");
            return None;
        }
        tiers.push(tier.value);
        Some(())
    });
    all(read)?;
    Some((tiers, conditions))
}

/// One tier: its name, and its rates, `"unlimited"` or `"blocked"`, alone or in a table that says when it applies.
fn one<'d>(
    of: &KeyField<'d>,
    (name, span, value): (&'d str, Range<usize>, &'d Spanned<DeValue<'d>>),
    named_by: Option<&TierSource>,
    about: Option<&OverriddenLimit<'_>>,
) -> Option<(PlacedValue<NamedTier>, Vec<PlacedValue<LoadCondition>>)> {
    let field = of.entry(name, value);
    let said = named_by.map(|part| {
        let said = said(part, name);
        said.map_err(|error| {
            let place = of.place.inside(&step(name), Some(span));
            of.report
                .error(&place, error.message, error.advice.unwrap_or_default());
        })
        .ok()
    });
    let (tier, activation) = match field.value {
        DeValue::Table(table) => {
            // Its keys are those of a limit, and mean the same.
            let limit = "limit.NAME".to_owned();
            let section = TableSection::new(field.report, field.place.clone(), limit, Some(table));
            let rates = section.required("rates", "[\"60 per 1m\"]");
            let tier = rates.and_then(|rates| tier(&rates, about));
            let activation = ActivationKeys::from_section(&section).read();
            section.finish();
            (tier, activation)
        }
        _ => (tier(&field, about), Some(None)),
    };
    let (rules, conditions) = match activation? {
        Some(read) => (Some(read.rules), read.conditions),
        None => (None, Vec::new()),
    };
    let named = field.placed(NamedTier {
        name: Name::from(name),
        said: said??,
        tier: tier?,
        activation: rules,
    });
    Some((named, conditions))
}

fn tier(field: &KeyField<'_>, about: Option<&OverriddenLimit<'_>>) -> Option<Tier> {
    let written = match field.value {
        DeValue::String(text) => text.to_string(),
        DeValue::Array(_) => {
            let texts = field.list()?;
            let texts = all(texts.iter().map(KeyField::text))?;
            texts.join(";")
        }
        _ => return field.unexpected("rates, \"unlimited\" or \"blocked\""),
    };
    match overrides::tier(&written, about?) {
        Ok(tier) => Some(tier),
        Err(mistake) => match suggest::nearest(&written, ["unlimited", "blocked"]) {
            Some(meant) => field.refuse(mistake.message, format!("did you mean \"{meant}\"?")),
            None => field.mistaken(mistake),
        },
    }
}
