//! Writes the fields by which an origin learns what is known of a request beside its client: its trace, and the limits that it exceeds.

use pingora::Result;

use super::context::Context;
use crate::origin::HeaderEdit;
use crate::record::trace::{TRACEPARENT, TRACESTATE};

/// Tells the origin the trace that its part belongs to.
pub(super) fn trace(fields: &mut dyn HeaderEdit, context: &Context) -> Result<()> {
    let Some(trace) = &context.trace else {
        return Ok(());
    };
    match trace.state_fields(fields.all()) {
        Some(state) => fields.insert(TRACESTATE.clone(), state)?,
        None => fields.remove(&TRACESTATE),
    }
    fields.insert(TRACEPARENT.clone(), trace.parent_field())
}

/// Tells the origin which limits are exceeded. Nobody else may write these fields.
pub(super) fn mark(fields: &mut dyn HeaderEdit, context: &Context) -> Result<()> {
    for name in &context.snapshot.marks {
        fields.remove(name);
    }
    let report = context.report.as_ref();
    let marks = report.and_then(|report| Some(&report.beside.as_ref()?.marks));
    for mark in marks.into_iter().flatten() {
        fields.append(mark.field.clone(), mark.value.clone())?;
    }
    Ok(())
}
