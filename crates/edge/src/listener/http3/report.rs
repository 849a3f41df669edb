//! Reports in the process log why a connection ends whose client broke a rule, and says for the counts why a handshake failed.

use std::net::IpAddr;

use quinn_proto::ConnectionError;
use sluicegate_http3::RuleViolation;

use sluicegate_process::SharedState;
use sluicegate_record::HandshakeFailure;

/// The code with which a handshake ends whose TLS sends the alert 0, RFC 9001 §4.8: that of another one is higher by its number.
const CRYPTO_ERROR: u64 = 0x100;

/// Returns why a handshake failed, for the count. Alerts, RFC 8446 §6, are what QUIC has of the reason.
pub(super) fn handshake_failure(reason: &ConnectionError) -> HandshakeFailure {
    let alert = match reason {
        ConnectionError::TransportError(error) => u64::from(error.code).checked_sub(CRYPTO_ERROR),
        ConnectionError::ConnectionClosed(close) => {
            let is_alert = u64::from(close.error_code) >= CRYPTO_ERROR;
            return match is_alert {
                true => HandshakeFailure::RefusedByClient,
                false => HandshakeFailure::Gone,
            };
        }
        ConnectionError::TimedOut => return HandshakeFailure::TimedOut,
        _ => return HandshakeFailure::Gone,
    };
    match alert {
        // handshake_failure, protocol_version, insufficient_security, missing_extension, no_application_protocol.
        Some(40 | 70 | 71 | 109 | 120) => HandshakeFailure::NothingInCommon,
        // access_denied by rustls where there is no certificate, unrecognized_name.
        Some(49 | 112) => HandshakeFailure::UnknownName,
        // bad_certificate to unknown_ca, certificate_required.
        Some(42..=46 | 48 | 116) => HandshakeFailure::ClientCertificate,
        // unexpected_message, decode_error.
        Some(10 | 50) => HandshakeFailure::NotTls,
        _ => HandshakeFailure::Other,
    }
}

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
