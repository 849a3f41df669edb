//! Reports in the process log why a connection ends whose client broke a rule.

use std::net::IpAddr;

use sluicegate_http3::RuleViolation;

use crate::process::SharedState;

/// Reports that the connection of this client ends since it broke a rule, and counts it where its client only caused work.
pub(super) fn broke(shared: &SharedState, peer: IpAddr, rule: RuleViolation) {
    if let RuleViolation::ControlFlood
    | RuleViolation::ControlFrameSize
    | RuleViolation::CancelFlood
    | RuleViolation::ResetFlood = rule
    {
        shared.recorder.metrics.abuse.ended();
    }
    let why = format_args!("its HTTP/3 connection is ended: it broke the protocol: {rule}");
    shared.recorder.notices.tell(Some(peer), &why);
}

/// Reports that the connection of this client ends since there is no room for what it holds back.
pub(super) fn exceeds(shared: &SharedState, peer: IpAddr) {
    let why = "its HTTP/3 connection is ended: heads are not whole; max_received_bytes";
    shared.recorder.notices.tell(Some(peer), &why);
}
