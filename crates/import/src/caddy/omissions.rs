//! Records directives that are left out with all that is in their blocks.

use super::tree::CaddyDirective;
use crate::ledger::Ledger;

/// Leaves a directive out with all that is in its block. It is to be filled in.
pub(super) fn leave(directive: &CaddyDirective, reason: &str, ledger: &mut Ledger) {
    ledger.left_out(directive.id, reason);
    for child in directive.children() {
        leave_quietly(child, "it is a part of the directive above it", ledger);
    }
}

/// Leaves a directive out that changes no answer, with all that is in its block.
pub(super) fn leave_quietly(directive: &CaddyDirective, reason: &str, ledger: &mut Ledger) {
    ledger.without_effect(directive.id, reason);
    for child in directive.children() {
        leave_quietly(child, reason, ledger);
    }
}
