//! Decides which requests in clear text are redirected to https: all on a listener with such a redirect, but for two kinds.
//!
//! A certificate authority that validates a name sends clear text, and redirecting it to a certificate that does not exist yet
//! would fail. A request that a trusted hop has received by TLS already would be redirected in a loop.

use std::net::{IpAddr, SocketAddr};

use http::HeaderValue;
use sluicegate_base::host;
use sluicegate_base::proxy_fields::X_FORWARDED_PROTO;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::GatewayProblem;

use sluicegate_decide::client::{self, PeerTrust};
use sluicegate_decide::request_head::RequestHead;
use sluicegate_process::snapshot::Snapshot;

/// The path prefix of HTTP-01 challenges, RFC 8555 §8.3.
const ACME_CHALLENGE: &str = "/.well-known/acme-challenge/";

/// Returns the target of the redirect for a request from `peer` to `listener`; `None` where the request is served, a problem
/// where it names no host.
pub(super) fn https_location(
    listener: SocketAddr,
    head: &ReceivedHead,
    peer: IpAddr,
    snapshot: &Snapshot,
) -> Option<Result<HeaderValue, GatewayProblem>> {
    if !snapshot.redirects {
        // Without a look-up: most configurations have no such listener.
        return None;
    }
    let port = snapshot.listeners.get(&listener)?.rules.redirect_to_https?;
    let request = RequestHead::from(head);
    if is_acme(&request) || came_under_tls(&request, peer, snapshot) {
        return None;
    }
    Some(location(&request, port.get()))
}

/// Returns whether the request may be a challenge of a certificate authority, RFC 8555 §8.3.
pub(super) fn is_acme(request: &RequestHead<'_>) -> bool {
    request.target.starts_with(ACME_CHALLENGE)
}

fn came_under_tls(request: &RequestHead<'_>, peer: IpAddr, snapshot: &Snapshot) -> bool {
    let scheme = request.headers.get(X_FORWARDED_PROTO);
    scheme.is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
        && client::hop(peer, &snapshot.compiled.rules.client) == PeerTrust::Trusted
}

fn location(request: &RequestHead<'_>, port: u16) -> Result<HeaderValue, GatewayProblem> {
    const HTTPS: u16 = 443;
    if !request.target.starts_with('/') {
        return Err(GatewayProblem::BadPath);
    }
    let host = host::normalize(request.host()).map_err(|_| GatewayProblem::BadHost)?;
    let target = request.target;
    let location = if port == HTTPS {
        format!("https://{host}{target}")
    } else {
        format!("https://{host}:{port}{target}")
    };
    HeaderValue::try_from(location).map_err(|_| GatewayProblem::BadPath)
}
