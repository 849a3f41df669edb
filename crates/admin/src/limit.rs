//! Finds the limit that a request names.

use std::sync::Arc;

use sluicegate_decide::admission::ActiveLimit;
use sluicegate_process::GatewayProcess;

/// Returns a handle of the limit of this name alone: a walk through its table may outlast a reload and must keep no snapshot alive.
pub(super) fn limit_named(process: &GatewayProcess, name: &str) -> Option<Arc<ActiveLimit>> {
    process
        .shared
        .snapshot()
        .compiled
        .limits
        .get(name)
        .map(Arc::clone)
}
