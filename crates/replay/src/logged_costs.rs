//! Reads the costs and reserves of a logged request, for the limits whose rules ask for them.

use http::{HeaderMap, HeaderValue};
use sluicegate_access_log::{FieldKind, LoggedRequest};
use sluicegate_limiter::Cost;

use sluicegate_config::rules::Name;
use sluicegate_decide::admission::{
    ActiveLimit, LoggedCost, RecordedReserve, RouteLimits, SettlementRule,
};

/// Returns the reserves that the request announced at `limits`, as far as the log has them.
pub(super) fn reserves(limits: &RouteLimits, request: &LoggedRequest<'_>) -> Vec<RecordedReserve> {
    let announced = limits.iter().filter(|limit| limit.has_announced_reserve());
    let recorded = announced.filter_map(|limit| {
        let units = logged_units(limit, request, FieldKind::Reserve)?;
        Some(RecordedReserve {
            limit: Name::clone(&limit.name),
            reserve: Cost::new(units)?,
        })
    });
    recorded.collect()
}

/// Returns the fields of the response in which `limits` read their costs, as far as the log has them.
pub(super) fn cost_fields(
    limits: &RouteLimits,
    request: &LoggedRequest<'_>,
) -> Option<Box<HeaderMap>> {
    let mut fields = None;
    for limit in limits.iter() {
        let rule = limit.settlement.as_ref();
        let Some(name) = rule.and_then(SettlementRule::reported_by) else {
            continue;
        };
        let value = match (logged(limit, request, FieldKind::Cost), request.bytes) {
            (Some(cost), _) => HeaderValue::from_bytes(cost).ok(),
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

/// Returns the costs that `limits` learn at the end of the request, where the log has what was charged but not what it was made of.
pub(super) fn end_costs(limits: &RouteLimits, request: &LoggedRequest<'_>) -> Vec<LoggedCost> {
    let unlogged = limits.iter().filter(|limit| {
        let rule = limit.settlement.as_ref();
        rule.is_some_and(SettlementRule::is_unlogged)
    });
    let costs = unlogged.filter_map(|limit| {
        Some(LoggedCost {
            limit: Name::clone(&limit.name),
            units: logged_units(limit, request, FieldKind::Cost)?,
        })
    });
    costs.collect()
}

/// Returns the units of one kind that the line has of `limit`.
fn logged_units(limit: &ActiveLimit, request: &LoggedRequest<'_>, kind: FieldKind) -> Option<u32> {
    let units = logged(limit, request, kind)?;
    str::from_utf8(units).ok()?.parse().ok()
}

/// Returns the value of one kind that the line has of `limit`.
fn logged<'a>(
    limit: &ActiveLimit,
    request: &LoggedRequest<'a>,
    kind: FieldKind,
) -> Option<&'a [u8]> {
    let mut fields = request.fields.iter();
    let field = fields.find(|field| field.kind == kind && field.name == limit.name.as_bytes())?;
    Some(field.value)
}
