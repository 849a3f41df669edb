//! Owns how a limit counts networks beside addresses: `prefixes`, wider prefix lengths of its `client.ip`, each with rates of its own.
//!
//! A level becomes a limit of its own, with the key at those lengths and everything else as the limit has it. Whatever names the limit in a
//! route names its levels too: they are charged together with it or not at all, and each has counters, capacity, metrics and response
//! fields under a name of its own, `otp.24-56`.
//!
//! What is about single keys stays with the limit itself: a ban or a bound of requests in flight. What says which requests have other
//! rates, or what happens to those beyond them, would need a second setting for each level, and is refused.

use std::cmp::Reverse;
use std::ops::Range;

use sluicegate_base::bounds;
use sluicegate_limiter::{Policy, Rate};
use toml::Spanned;
use toml::de::DeValue;

use super::action::Action;
use super::field::{KeyField, all, quoted};
use super::key;
use super::problem::ParseError;
use super::rates;
use super::report::KeyPlace;
use super::rules::{CostRules, KeyPart, LimitRules};
use super::section::{TableSection, step};

const EXAMPLE: &str = "{ \"/24,/56\" = [\"50 per 10s\"], \"/16,/48\" = [\"500 per 10s\"] }";

/// One level of a limit.
pub(super) struct PrefixLevel {
    /// The part of its name behind that of the limit: `.24-56`.
    pub(super) suffix: String,
    pub(super) place: KeyPlace,
    pub(super) rules: LimitRules,
}

/// The prefix lengths of a level.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PrefixLengths {
    v4: u8,
    v6: u8,
}

/// The key of a limit that has levels.
pub(super) struct PrefixKeys<'d> {
    prefixes: Option<KeyField<'d>>,
}

impl<'d> PrefixKeys<'d> {
    /// The key of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            prefixes: section.field("prefixes", EXAMPLE),
        }
    }

    /// Returns the levels of the limit, from the narrowest to the widest; none where nothing is written. `None` where they are wrong, which
    /// was reported then.
    pub(super) fn levels(&self, limit: &LimitRules) -> Option<Vec<PrefixLevel>> {
        let Some(field) = &self.prefixes else {
            return Some(Vec::new());
        };
        let section = field.section()?;
        let entries = section.entries();
        if entries.is_empty() {
            return field.refuse("there is no prefix", field.advice());
        }
        if entries.len() > bounds::PREFIX_LEVELS {
            let message = format!("{} levels are too many", entries.len());
            return field.refuse(message, format!("keep at most {}", bounds::PREFIX_LEVELS));
        }
        check_single(field, limit)?;
        let own = limit.key.0.iter().find_map(PrefixLengths::from_part);
        let Some(own) = own else {
            return field.refuse(
                format!("the key of this limit has no address: \"{}\"", limit.key),
                "write \"client.ip\" in the key, or leave prefixes out",
            );
        };
        let read = entries.into_iter();
        let mut levels = all(read.map(|entry| level(field, entry, (own, limit))))?;
        levels.sort_by_key(|(lengths, _)| (Reverse(lengths.v4), Reverse(lengths.v6)));
        check_nested(field, (own, limit), &levels)?;
        Some(levels.into_iter().map(|(_, level)| level).collect())
    }
}

impl PrefixLengths {
    /// The lengths at which a part of a key counts the client's address.
    fn from_part(part: &KeyPart) -> Option<Self> {
        match part {
            KeyPart::ClientIp { v4, v6 } => Some(Self { v4: *v4, v6: *v6 }),
            _ => None,
        }
    }

    /// The lengths that `/24,/56` names.
    fn parse(text: &str) -> Result<Self, ParseError> {
        let lengths = match text.starts_with('/') {
            true => Self::from_part(&key::part(&format!("client.ip{text}"))?),
            false => None,
        };
        lengths.ok_or_else(|| {
            ParseError::with_advice(
                format!("{} has no two prefix lengths", quoted(text)),
                "write those of IPv4 and IPv6: \"/24,/56\"",
            )
        })
    }

    /// Returns whether every network of these lengths holds networks of the `narrow` ones, in both families.
    fn is_wider_than(self, narrow: Self) -> bool {
        self.v4 <= narrow.v4 && self.v6 <= narrow.v6 && self != narrow
    }
}

/// Reads one level: its lengths, and its rates.
fn level<'d>(
    of: &KeyField<'d>,
    (name, span, value): (&'d str, Range<usize>, &'d Spanned<DeValue<'d>>),
    (own, limit): (PrefixLengths, &LimitRules),
) -> Option<(PrefixLengths, PrefixLevel)> {
    let field = of.entry(name, value);
    let at = of.place.inside(&step(name), Some(span));
    let lengths = PrefixLengths::parse(name)
        .and_then(|lengths| match lengths.is_wider_than(own) {
            true => Ok(lengths),
            false => Err(ParseError::with_advice(
                format!(
                    "{} is not wider than the {}, {} that the key counts by",
                    quoted(name),
                    slashed(own.v4),
                    slashed(own.v6)
                ),
                "write fewer bits in one family, and no more in the other",
            )),
        })
        .map_err(|error| {
            of.report
                .error(&at, error.message, error.advice.unwrap_or_default());
        });
    let policy = rates::rates(&field).and_then(|rates| {
        let policy = Policy::new(limit.policy.algorithm().clone(), rates);
        policy
            .map_err(|error| field.refuse::<()>(error.to_string(), field.advice()))
            .ok()
    });
    let lengths = lengths.ok()?;
    let policy = policy?;
    let mut key = limit.key.clone();
    for part in &mut key.0 {
        if let KeyPart::ClientIp { v4, v6 } = part {
            (*v4, *v6) = (lengths.v4, lengths.v6);
        }
    }
    let rules = LimitRules {
        key,
        policy,
        ban: None,
        concurrency: None,
        ..limit.clone()
    };
    let level = PrefixLevel {
        suffix: format!(".{}-{}", lengths.v4, lengths.v6),
        place: at,
        rules,
    };
    Some((lengths, level))
}

fn slashed(bits: u8) -> String {
    format!("/{bits}")
}

/// Refuses what would need a second setting for each level.
fn check_single(field: &KeyField<'_>, limit: &LimitRules) -> Option<()> {
    let foreign = [
        (limit.overrides.is_some(), "overrides"),
        (limit.tier.is_some(), "tiers"),
        (limit.shadow_rates.is_some(), "shadow_rates"),
        (
            !matches!(limit.action, Action::Reject | Action::Shadow),
            "an action other than \"reject\" and \"shadow\"",
        ),
    ];
    match foreign.into_iter().find(|(is_there, _)| *is_there) {
        None => Some(()),
        Some((_, what)) => field.refuse(
            format!("a limit with {what} has no further prefixes"),
            "write each level as a limit of its own, with key = \"client.ip/24,/56\", and name all of them in the route",
        ),
    }
}

/// Checks that each level is wider than the one before it and can reject what that admits; `levels` are in order.
fn check_nested(
    field: &KeyField<'_>,
    (own, limit): (PrefixLengths, &LimitRules),
    levels: &[(PrefixLengths, PrefixLevel)],
) -> Option<()> {
    let mut sound = Some(());
    let mut narrow = (own, limit);
    for (lengths, level) in levels {
        if !lengths.is_wider_than(narrow.0) {
            field.report.error(
                &level.place,
                "of two levels one must be wider in both families".to_owned(),
                "write fewer bits in both, as in \"/24,/56\" and \"/16,/48\"",
            );
            sound = None;
        }
        check_rates(field, narrow.1, level);
        if let CostRules::Fixed(cost) = &limit.cost
            && let Some(rate) = level
                .rules
                .policy
                .rates()
                .iter()
                .find(|rate| rate.count() < cost.get())
        {
            field.report.error(
                &level.place,
                format!(
                    "a request costs {}, which {} never admits",
                    cost.get(),
                    rates::show(rate)
                ),
                "write a larger count",
            );
            sound = None;
        }
        narrow = (*lengths, &level.rules);
    }
    sound
}

/// Warns of rates of a wider level that admit no more than one of its networks may have.
fn check_rates(field: &KeyField<'_>, narrow: &LimitRules, level: &PrefixLevel) {
    for rate in level.rules.policy.rates() {
        let same = |other: &&Rate| other.period() == rate.period();
        if let Some(other) = narrow.policy.rates().iter().find(same)
            && rate.count() <= other.count()
        {
            field.report.warning(
                &level.place,
                format!(
                    "{} of the wider network leaves no room for a second client beside {} of the narrower one",
                    rates::show(rate),
                    rates::show(other)
                ),
                "write a larger count here, or leave the narrower level out",
            );
        }
    }
}
