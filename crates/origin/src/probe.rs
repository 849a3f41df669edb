//! Sends a health check to one server, with the TLS and the protocol of requests.
//!
//! Each check opens a new connection: an established one does not show that the server is reachable.

use std::sync::LazyLock;

use http::uri::Scheme;
use pingora::connectors::http::v2::{H2HandshakeSettings, handshake};
use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::http::RequestHeader;
use pingora::protocols::ALPN;
use pingora::protocols::http::client::HttpSession;
use pingora::protocols::http::v1::client::HttpSession as Http1Session;
use pingora::{Error, ErrorType, OrErr, Result};

use super::server::OriginServer;
use sluicegate_config::rules::{HealthRules, Protocol};

/// The connector of checks. One for all, since it reads the certificates that the machine trusts.
static TRANSPORT: LazyLock<TransportConnector> =
    LazyLock::new(|| TransportConnector::new(Some(ConnectorOptions::new(1))));

/// Bytes of a response that are read before the connection closes; further ones do not show health.
const ANSWER: usize = 64 * 1024;

/// Checks a server of the origin `name`. The caller bounds the time.
///
/// # Errors
/// The reason why the check failed.
pub(super) async fn ask(server: &OriginServer, name: &str, rules: &HealthRules) -> Result<()> {
    let mut peer = server.peer.clone();
    peer.options.connection_timeout = Some(rules.timeout);
    peer.options.total_connection_timeout = Some(rules.timeout);
    // The bound on connections for requests does not apply to checks.
    peer.options.custom_l4 = None;
    let stream = server.open_stream(&TRANSPORT, &peer).await?;
    let Some(path) = &rules.path else {
        return Ok(());
    };
    let is_http2 = match (server.protocol, stream.selected_alpn_proto()) {
        (Protocol::H2c, _) | (Protocol::H2 | Protocol::Auto, Some(ALPN::H2)) => true,
        (Protocol::H2, _) => return unhealthy("it takes no HTTP/2".to_owned()),
        (Protocol::Http1 | Protocol::Auto, _) => false,
    };
    let mut session: HttpSession = if is_http2 {
        let mut settings = H2HandshakeSettings::new();
        settings.max_streams = 1;
        let stream = handshake(stream, settings).await?.spawn_stream().await?;
        let no_stream = || Error::explain(ErrorType::H2Error, "it takes no stream");
        HttpSession::H2(stream.ok_or_else(no_stream)?)
    } else {
        HttpSession::H1(Http1Session::new(stream))
    };
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
