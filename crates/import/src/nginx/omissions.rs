//! Records directives that are left out with all that is in their blocks.

use super::tree::Directive;
use crate::ledger::Ledger;

/// Records that a directive and all in it change no answer in nginx either.
pub(super) fn leave_without_effect(directive: &Directive, reason: &str, ledger: &mut Ledger) {
    ledger.without_effect(directive.id, reason);
    for child in directive.children() {
        leave_without_effect(child, reason, ledger);
    }
}

/// Leaves a directive out with everything in it, unless it is translated elsewhere or has a reason of its own.
pub(super) fn leave_out(directive: &Directive, reason: &str, ledger: &mut Ledger) {
    ledger.left_out_with(directive.id, reason);
    for child in directive.children() {
        leave_out(child, reason, ledger);
    }
}
