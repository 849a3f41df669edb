//! Sends a request to the ACME server and returns its answer: bounded, with a timeout, and only from a server that the operator
//! trusts.
//!
//! The client of `instant-acme` accepts answers of any length, waits forever, and does not return `Retry-After`. This one opens
//! a connection for each request: an order makes about twenty in some seconds, once in two months.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::ServerName;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_base::pki::Tls;
use sluicegate_decide::retry_after::retry_after;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The client of one ACME server.
pub(super) struct HttpsClient {
    trust: Tls,
    pauses: RetryAfterHint,
}

/// The pause that the server's latest error asks for (`Retry-After`), if any.
#[derive(Clone, Default)]
pub(super) struct RetryAfterHint(Arc<Mutex<Option<Duration>>>);

/// The reason for a missing answer, for an operator.
#[derive(Debug)]
struct HttpsError(String);

impl HttpsClient {
    /// Returns a client that trusts the authorities of `trust`, and stores the requested pause in `pauses`.
    pub(super) fn new(trust: Tls, pauses: RetryAfterHint) -> Self {
        Self { trust, pauses }
    }
}

impl HttpClient for HttpsClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let trust = self.trust.clone();
        let pauses = self.pauses.clone();
        Box::pin(async move {
            let place = request.uri().authority().map(ToString::to_string);
            let place = place.unwrap_or_default();
            let answer =
                tokio::time::timeout(bounds::ACME_CALL, ask(&trust, request, &pauses)).await;
            let late = || Err(format!("it does not answer within {:?}", bounds::ACME_CALL));
            answer
                .unwrap_or_else(|_| late())
                .map_err(|why| Error::Other(Box::new(HttpsError(format!("{place}: {why}")))))
        })
    }
}

async fn ask(
    trust: &Tls,
    mut request: Request<BodyWrapper<Bytes>>,
    pauses: &RetryAfterHint,
) -> Result<BytesResponse, String> {
    let (host, port) = place(request.uri())?;
    let method = request.method().clone();
    let target = origin_form(request.uri())?;
    let authority = request.uri().authority().map(ToString::to_string);
    let authority = authority.and_then(|authority| authority.parse().ok());
    let authority = authority.ok_or("this is not a host")?;
    request.headers_mut().insert(HOST, authority);
    *request.uri_mut() = target;

    let stream = TcpStream::connect((&*host, port))
        .await
        .map_err(|error| format!("it cannot be reached: {error}"))?;
    let stream = encrypt(trust, &host, stream)
        .await
        .map_err(|error| distrust(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // The task ends with the answer, or with the sender, which a timeout drops.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    let (parts, body) = answer.map_err(|error| error.to_string())?.into_parts();
    let body = Limited::new(body, bounds::ACME_ANSWER).collect().await;
    let body = body.map_err(|error| format!("its answer breaks off: {error}"))?;

    if parts.status.is_client_error() || parts.status.is_server_error() {
        let asked = retry_after(&parts.headers, clock::wall());
        *pauses.lock() = asked;
        let problem = parts.headers.get(CONTENT_TYPE);
        let problem =
            problem.is_some_and(|kind| kind.as_bytes().starts_with(b"application/problem+json"));
        // RFC 8555 §6.7: errors are problem documents; any other error comes from an intermediary, or from a server that is no
        // ACME server.
        if !problem || method != Method::POST {
            return Err(format!("it answers {}", parts.status));
        }
    }
    Ok(BytesResponse {
        parts,
        body: Box::new(body.to_bytes()),
    })
}

/// Performs the TLS handshake on a connection to `host`.
async fn encrypt(trust: &Tls, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let name = match trust.server_name() {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    TlsConnector::from(Arc::clone(trust.config()))
        .connect(name, stream)
        .await
}

fn place(uri: &Uri) -> Result<(String, u16), String> {
    if uri.scheme_str() != Some("https") {
        return Err(format!("{uri} is not an https URL"));
    }
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), uri.port_u16().unwrap_or(443)))
}

fn origin_form(uri: &Uri) -> Result<Uri, String> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    target.parse().map_err(|_| format!("{uri} has no path"))
}

/// Returns the cure for a failed handshake, which is mostly one with a server whose certificate another authority signed.
fn distrust(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("UnknownIssuer") {
        return format!(
            "nobody whom the gateway believes has signed its certificate ({text}); write the certificate of who has as [acme] ca_file"
        );
    }
    format!("the TLS handshake fails: {text}")
}

impl RetryAfterHint {
    /// Takes the pause that the latest error asked for.
    pub(super) fn take(&self) -> Option<Duration> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        // It is replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for HttpsError {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        into.write_str(&self.0)
    }
}

impl std::error::Error for HttpsError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: requests go only over TLS to the named host. Method: URLs as a directory may contain them.
    #[test]
    fn only_https_urls_are_followed() {
        let of = |url: &str| place(&url.parse().unwrap());
        assert_eq!(
            of("https://ca.test/x").unwrap(),
            ("ca.test".to_owned(), 443)
        );
        assert_eq!(
            of("https://[::1]:14000/x").unwrap(),
            ("::1".to_owned(), 14_000)
        );
        assert_eq!(
            of("http://ca.test/x").unwrap_err(),
            "http://ca.test/x is not an https URL"
        );
        assert_eq!(
            origin_form(&"https://ca.test/a?b=c".parse().unwrap()).unwrap(),
            "/a?b=c"
        );
    }
}
