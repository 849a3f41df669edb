//! Writes the fields that carry the trace and the exceeded limits to an origin.

use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::trace_fields::{TRACEPARENT, TRACESTATE};

use super::context::Context;
use sluicegate_decide::admission::OriginMark;
use sluicegate_origin::FieldEdit;

/// Writes the trace fields for the origin, after the received ones.
pub(super) fn trace(fields: &mut dyn FieldEdit, received: &ReceivedFields, context: &Context) {
    let Some(trace) = &context.trace else {
        return;
    };
    match trace.state_fields(received) {
        Some(state) => fields.insert(TRACESTATE.clone(), state),
        None => fields.remove(&TRACESTATE),
    }
    fields.insert(TRACEPARENT.clone(), trace.parent_field());
}

/// Writes the fields for the limits that are exceeded. Clients cannot set these fields: they are removed from requests.
pub(super) fn mark(fields: &mut dyn FieldEdit, context: &Context) {
    for name in &context.snapshot.compiled.marks {
        fields.remove(name);
    }
    for mark in marks(context) {
        fields.append(mark.field.clone(), mark.value.clone());
    }
}

/// Returns the marks of the limits that are exceeded.
pub(super) fn marks(context: &Context) -> impl Iterator<Item = &OriginMark> {
    let details = context.report().and_then(|report| report.details.as_ref());
    details.into_iter().flat_map(|details| &details.marks)
}
