//! Reports in the process log why a connection ends whose client broke a rule.

use std::net::IpAddr;

use sluicegate_http2::RuleViolation;

use sluicegate_budgets::BudgetCap;
use sluicegate_process::SharedState;

/// Reports that the connection of this client ends since it broke a rule, and counts it where its client only caused work.
pub(super) fn broke(shared: &SharedState, peer: Option<IpAddr>, rule: RuleViolation) {
    let why = match rule {
        RuleViolation::ControlFlood => "it sends frames that carry neither requests nor data",
        RuleViolation::CancelFlood => "it cancelled most of its requests",
        RuleViolation::ResetFlood | RuleViolation::FieldBlockSize => {
            "it resets streams or sends frames that only make work"
        }
        rule => return tell(shared, peer, &format!("it broke the protocol: {rule}")),
    };
    shared.recorder.metrics.abuse.ended();
    tell(shared, peer, why);
}

/// Reports that the connection of this client ends since this cap of the budget of received bytes, whose maximum is `most`, is reached.
pub(super) fn exceeds(shared: &SharedState, peer: Option<IpAddr>, cap: BudgetCap, most: u64) {
    let whose = cap.clients();
    let why = format!("frames of {whose} are not whole; max_received_bytes = {most}");
    tell(shared, peer, &why);
}

fn tell(shared: &SharedState, peer: Option<IpAddr>, why: &str) {
    let why = format_args!("its HTTP/2 connection is ended: {why}");
    shared.recorder.notices.tell(peer, &why);
}
