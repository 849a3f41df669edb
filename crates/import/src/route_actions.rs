//! Compares what routes do with a request that they take.

use crate::model::{Route, RouteAction};
use crate::slots;

/// Returns true if two routes do the same with a request, for certain.
pub(crate) fn act_alike(one: &Route, other: &Route) -> bool {
    // A further field is either compared or a condition.
    let Route {
        remarks: _,
        host: _,
        path,
        case: _,
        listeners: _,
        methods: _,
        values: _,
        client: _,
        limits,
        allow,
        block,
        action,
        max_body,
        request_fields,
        response_fields,
        status,
        keys,
    } = one;
    *action == other.action
        && *limits == other.limits
        && *allow == other.allow
        && *block == other.block
        && *max_body == other.max_body
        && *request_fields == other.request_fields
        && *response_fields == other.response_fields
        && *status == other.status
        && *keys == other.keys
        && (*path == other.path || !depends_on_path(one))
}

/// Returns true if a part of the path decides what a route does with a request.
fn depends_on_path(route: &Route) -> bool {
    let strips = matches!(&route.action, RouteAction::Forward { strip_prefix, .. } if strip_prefix.is_some());
    strips || slots::fill(&mut route.clone(), |_| None).is_err()
}
