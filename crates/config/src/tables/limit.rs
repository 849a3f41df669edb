//! `[limit.NAME]`: how much may pass.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluicegate_limiter::Capacity;

use crate::action::{self, Action};
use crate::activation::{ActivationKeys, ParsedActivation};
use crate::algorithm;
use crate::ban;
use crate::condition;
use crate::cost;
use crate::field::KeyField;
use crate::key;
use crate::load_condition::LoadCondition;
use crate::overrides::{self, OverriddenLimit};
use crate::prefixes::{PrefixKeys, PrefixLevel};
use crate::rates;
use crate::refusal;
use crate::report::{KeyPlace, PlacedValue, ProblemReport};
use crate::rules::{FieldStyle, KeyPart, KeyTemplate, LimitRules, Name};
use crate::section::TableSection;
use crate::shared;
use crate::spellings;
use crate::tier;

use super::cache;

/// Shortest and longest jitter of `Retry-After`, which has whole seconds.
const RETRY_JITTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// Bytes beyond which the memory of a limit is worth a warning.
const LARGE: u64 = 3 << 30;

pub(crate) const EXAMPLE: &str = "with key = \"client.ip\" and rates = [\"5 per 10s\"]";

/// A limit, and the places where it names what others must define.
pub(crate) struct ParsedLimit {
    pub(crate) rules: LimitRules,
    /// A second limit.
    pub(crate) then: Option<PlacedValue<Name>>,
    /// That it counts in the store.
    pub(crate) shared: Option<KeyPlace>,
    /// The limits of wider networks that its `prefixes` make.
    pub(crate) levels: Vec<PrefixLevel>,
    /// Its conditions, and those of its tiers.
    pub(crate) conditions: Vec<PlacedValue<LoadCondition>>,
}

/// Reads the table.
pub(crate) fn read(section: TableSection<'_>) -> Option<ParsedLimit> {
    let key_field = section.required("key", "\"client.ip\"");
    let other_names = section.field("other_names", "\"canonical\"");
    let key = key_field.as_ref().and_then(|field| {
        let template = key::template(field)?;
        spellings::warn_of_spellings(field);
        key::with_other_names(field, template, other_names.as_ref())
    });
    let on_missing = key::on_missing(&section, key.as_ref());
    let rates = section
        .required("rates", "[\"5 per 10s\"]")
        .and_then(|field| rates::rates(&field));
    let capacity_field = section.field("capacity", "262_144");
    let capacity = match &capacity_field {
        Some(field) => capacity(field),
        None => Some(usual_capacity(key.as_ref())),
    };
    let actions = action::ActionKeys::from_section(&section);
    let policy = algorithm::policy(&section, rates.clone(), actions.usual_algorithm());
    let actions = policy.as_ref().and_then(|policy| actions.read(policy));
    let action = actions.as_ref().map(|actions| &actions.action);
    let bans = ban::BanKeys::from_section(&section).read(key.as_ref(), action);
    let shared = shared::StoreModeKeys::from_section(&section).read(policy.as_ref());
    let headers = section.or("headers", "\"ietf\"", FieldStyle::default(), field_style);
    let refusal = refusal::from_section(&section);
    let activation = ActivationKeys::from_section(&section);
    let activation = read_activation(&activation, action);
    let retry_jitter = section.or("retry_jitter", "\"10s\"", Duration::ZERO, |field| {
        field.duration(RETRY_JITTER)
    });
    let cost = cost::CostKeys::from_section(&section);
    let cost = policy.as_ref().and_then(|policy| cost.read(policy));
    let count_if = section.optional(
        "count_if",
        "\"response.status in [401, 403]\"",
        condition::condition,
    );
    let count = cache::counting(&section);
    // Where it is wrong what rows and tiers are about, that was told.
    let about = match (&key, &policy, &cost) {
        (Some(key), Some(policy), Some(cost)) => Some(OverriddenLimit { key, policy, cost }),
        _ => None,
    };
    let overrides = section.optional("overrides", "\"tiers.csv\"", |field| {
        overrides::read(field, about.as_ref()?)
    });
    let tier = tier::TierKeys::from_section(&section).read(about.as_ref());
    let prefixes = PrefixKeys::from_section(&section);
    let report = section.report;
    let place = section.place.clone();
    section.finish();
    let actions = actions?;
    let bans = bans?;
    let shared = shared?;
    let (activation, (tier, mut conditions)) = (activation?, tier?);
    let activation = activation.map(|read| {
        conditions.extend(read.conditions);
        read.rules
    });
    let rules = LimitRules {
        key: key?,
        on_missing: on_missing?,
        policy: policy?,
        overrides: overrides?,
        tier,
        capacity: capacity?,
        headers: headers?,
        refusal: refusal?,
        cost: cost?,
        count_if: count_if?,
        count: count?,
        action: actions.action,
        activation,
        retry_jitter: retry_jitter?,
        enforce: actions.enforce,
        shadow_rates: actions.shadow_rates,
        ban: bans.ban,
        concurrency: bans.concurrency,
        shared: shared.as_ref().map(|shared| shared.value),
    };
    let place = capacity_field.as_ref().map_or(&place, |field| &field.place);
    check_memory(&rules, place, report);
    Some(ParsedLimit {
        levels: prefixes.levels(&rules)?,
        rules,
        then: actions.then,
        shared: shared.map(|shared| shared.place),
        conditions,
    })
}

/// Reads when the limit applies; one that only reports has no use for it.
fn read_activation(
    keys: &ActivationKeys<'_>,
    action: Option<&Action>,
) -> Option<Option<ParsedActivation>> {
    match (keys.when(), action) {
        (Some(field), Some(Action::Shadow)) => field.refuse(
            "a limit in shadow rejects nothing, whether it is active or not",
            "leave it out, or write action = \"reject\": while it is not active, the limit only reports",
        ),
        _ => keys.read(),
    }
}

/// Returns the default capacity of a limit: one key where it has only one.
fn usual_capacity(key: Option<&KeyTemplate>) -> Capacity {
    let is_one = key.is_some_and(|key| key.0 == [KeyPart::Global]);
    let one = Capacity::new(1).ok().filter(|_| is_one);
    one.unwrap_or(Capacity::DEFAULT)
}

/// Warns of a limit that takes more memory than was probably meant.
fn check_memory(rules: &LimitRules, place: &KeyPlace, report: &ProblemReport<'_>) {
    let bytes = rules.bytes();
    if bytes > LARGE {
        report.warning(
            place,
            format!(
                "{} keys take about {} GiB once they are there",
                rules.capacity.keys(),
                bytes >> 30
            ),
            format!(
                "write the number of clients that owe something at once; {} is the default",
                Capacity::DEFAULT.keys()
            ),
        );
    }
}

fn field_style(field: &KeyField<'_>) -> Option<FieldStyle> {
    const STYLES: [(&str, FieldStyle); 4] = [
        ("ietf", FieldStyle::Ietf),
        ("x-ratelimit", FieldStyle::XRateLimit),
        ("both", FieldStyle::Both),
        ("none", FieldStyle::None),
    ];
    field.word(&STYLES, |got| format!("there are no fields {got}"))
}

fn capacity(field: &KeyField<'_>) -> Option<Capacity> {
    let keys = field.integer(1..=Capacity::MAX.keys())?;
    match Capacity::new(keys) {
        Ok(capacity) => Some(capacity),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}
