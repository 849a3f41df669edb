//! Sends a health check to one server, with the TLS and the protocol of requests.
//!
//! Each check opens a new connection: an established one does not show that the server is reachable.

use std::sync::LazyLock;

use http::uri::Scheme;
use pingora::connectors::http::Connector;
use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::http::RequestHeader;
use pingora::protocols::http::client::HttpSession;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, OrErr, Result};

use crate::config::rules::HealthRules;

/// The connector of checks, which keeps no connection. One for all, since it reads the certificates that the machine trusts.
static CONNECTOR: LazyLock<Connector> =
    LazyLock::new(|| Connector::new(Some(ConnectorOptions::new(1))));

/// The connector of checks without HTTP.
static TRANSPORT: LazyLock<TransportConnector> =
    LazyLock::new(|| TransportConnector::new(Some(ConnectorOptions::new(1))));

/// Bytes of a response that are read before the connection closes; further ones do not show health.
const ANSWER: usize = 64 * 1024;

/// Checks the server at `peer`, of the origin `name`. The caller bounds the time.
///
/// # Errors
/// The reason why the check failed.
pub(super) async fn ask(mut peer: HttpPeer, name: &str, rules: &HealthRules) -> Result<()> {
    peer.options.connection_timeout = Some(rules.timeout);
    peer.options.total_connection_timeout = Some(rules.timeout);
    // The bound on connections for requests does not apply to checks.
    peer.options.custom_l4 = None;
    // An HTTP/2 connection with one stream is not shared.
    peer.options.max_h2_streams = 1;
    let Some(path) = &rules.path else {
        return TRANSPORT.new_stream(&peer).await.map(drop);
    };
    let (mut session, _) = CONNECTOR.get_http_session(&peer).await?;
    session.set_read_timeout(Some(rules.timeout));
    session.set_write_timeout(Some(rules.timeout));
    let host = rules.host.as_deref().unwrap_or(name);
    let scheme = match peer.is_tls() {
        true => Scheme::HTTPS,
        false => Scheme::HTTP,
    };
    let request = request(&session, &scheme, host, path)?;
    session.write_request_header(Box::new(request)).await?;
    session.finish_request_body().await?;
    session.read_response_header().await?;
    let status = session.response_header().map(|head| head.status.as_u16());
    let mut read = 0;
    while let Some(piece) = session.read_response_body().await? {
        read += piece.len();
        if read > ANSWER {
            break;
        }
    }
    match status {
        Some(status) if rules.statuses.iter().any(|wanted| wanted.contains(&status)) => Ok(()),
        Some(other) => unhealthy(format!("the check is answered with {other}")),
        None => unhealthy("the check is not answered".to_owned()),
    }
}

fn request(
    session: &HttpSession,
    scheme: &Scheme,
    host: &str,
    path: &str,
) -> Result<RequestHeader> {
    let mut request = RequestHeader::build("GET", path.as_bytes(), Some(1))?;
    if matches!(session, HttpSession::H2(_)) {
        // Pingora would send https to every server.
        let target = format!("{scheme}://{host}{path}");
        let invalid = ErrorType::InvalidHTTPHeader;
        request.set_uri(target.parse().or_err(invalid, "the target of a check")?);
    } else {
        request.insert_header(http::header::HOST, host)?;
    }
    Ok(request)
}

fn unhealthy(why: String) -> Result<()> {
    Error::e_explain(ErrorType::Custom("Unhealthy"), why)
}
