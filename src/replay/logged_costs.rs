//! Reads the costs and reserves of a logged request.

use http::{HeaderMap, HeaderValue};
use sluicegate_access_log::{FieldKind, LoggedRequest};
use sluicegate_limiter::Cost;

use crate::admission::{ActiveLimit, LoggedCost, RecordedReserve, RouteLimits, SettlementRule};
use crate::config::rules::Name;

/// Returns the costs that `limits` learn at the end of the request, where the log has what was charged but not what it was made of.
pub(super) fn end_costs(limits: &RouteLimits, request: &LoggedRequest<'_>) -> Vec<LoggedCost> {
    let costs = logged_units(limits, request, FieldKind::Cost);
    let costs = costs.filter(|(limit, _)| {
        let rule = limit.settlement.as_ref();
        rule.is_some_and(SettlementRule::is_unlogged)
    });
    costs
        .map(|(limit, units)| LoggedCost {
            limit: Name::clone(&limit.name),
            units,
        })
        .collect()
}

/// Returns the reserves that the request announced at `limits`, as far as the log has them.
pub(super) fn reserves(limits: &RouteLimits, request: &LoggedRequest<'_>) -> Vec<RecordedReserve> {
    let reserves = logged_units(limits, request, FieldKind::Reserve);
    reserves
        .filter_map(|(limit, units)| {
            Some(RecordedReserve {
                limit: Name::clone(&limit.name),
                reserve: Cost::new(units)?,
            })
        })
        .collect()
}

/// Returns the units of one kind that a line has, with the limits that they are of.
fn logged_units<'l>(
    limits: &'l RouteLimits,
    request: &LoggedRequest<'_>,
    kind: FieldKind,
) -> impl Iterator<Item = (&'l ActiveLimit, u32)> {
    let logged = request
        .fields
        .iter()
        .filter(move |field| field.kind == kind);
    logged.filter_map(move |field| {
        let mut limits = limits.iter();
        let limit = limits.find(|limit| limit.name.as_bytes() == field.name)?;
        let units = str::from_utf8(field.value).ok()?.parse().ok()?;
        Some((&**limit, units))
    })
}

/// Returns the fields of the response in which `limits` read their costs, as far as the log has them.
pub(super) fn cost_fields(
    limits: &RouteLimits,
    request: &LoggedRequest<'_>,
) -> Option<Box<HeaderMap>> {
    let mut fields = None;
    for limit in limits.iter() {
        let Some(name) = limit
            .settlement
            .as_ref()
            .and_then(|rule| rule.reported_by())
        else {
            continue;
        };
        let mut logged = request.fields.iter();
        let cost = logged
            .find(|field| field.kind == FieldKind::Cost && field.name == limit.name.as_bytes());
        let value = match (cost, request.bytes) {
            (Some(cost), _) => HeaderValue::from_bytes(cost.value).ok(),
            (None, Some(bytes)) if *name == http::header::CONTENT_LENGTH => Some(bytes.into()),
            _ => None,
        };
        if let Some(value) = value {
            fields
                .get_or_insert_with(Box::<HeaderMap>::default)
                .insert(name, value);
        }
    }
    fields
}
