//! Owns the connection to the collector: one, kept from call to call, each call bounded in time and bytes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::answer::ExportReply;
use super::bounds;
use super::exporter::ExportContext;
use super::settings::{CollectorAddress, ExportSettings, TlsSettings};

/// The client of a collector.
#[derive(Default)]
pub(super) struct CollectorClient(Option<OpenConnection>);

struct OpenConnection {
    to: CollectorAddress,
    sender: SendRequest<Full<Bytes>>,
}

impl CollectorClient {
    /// Posts a batch.
    ///
    /// # Errors
    /// The reason why there is no response, as an operator reads it.
    pub(super) async fn post(
        &mut self,
        settings: &ExportSettings,
        context: &dyn ExportContext,
        body: Bytes,
    ) -> Result<ExportReply, String> {
        let called = self.call(settings, context, body);
        let reply = tokio::time::timeout(settings.timeout, called).await;
        let late = || Err(format!("it does not answer within {:?}", settings.timeout));
        let reply = reply.unwrap_or_else(|_| late());
        if reply.is_err() {
            self.0 = None;
        }
        reply
    }

    async fn call(
        &mut self,
        settings: &ExportSettings,
        context: &dyn ExportContext,
        body: Bytes,
    ) -> Result<ExportReply, String> {
        if let Some(open) = self.0.take()
            && open.to == settings.collector
            && !open.sender.is_closed()
        {
            // It idled, and may be closing at the other end: then a new one is worth a try, and the worst is a record that comes twice.
            let first = self.call_over(open, settings, context, body.clone()).await;
            if let Ok(reply) = first {
                return Ok(reply);
            }
        }
        let open = connect(&settings.collector).await?;
        self.call_over(open, settings, context, body).await
    }

    /// Calls over `open`, and keeps the connection if the response was read to its end.
    async fn call_over(
        &mut self,
        mut open: OpenConnection,
        settings: &ExportSettings,
        context: &dyn ExportContext,
        body: Bytes,
    ) -> Result<ExportReply, String> {
        let text = |error: hyper::Error| error.to_string();
        open.sender.ready().await.map_err(text)?;
        let request = request(settings, body)?;
        let response = open.sender.send_request(request).await.map_err(text)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, bounds::RESPONSE).collect().await;
        let body = match body {
            Ok(body) => {
                self.0 = Some(open);
                body.to_bytes()
            }
            // The status is enough; the body is advice.
            Err(_) => Bytes::new(),
        };
        Ok(ExportReply {
            status: parts.status,
            retry_after: context.retry_after(&parts.headers),
            body,
        })
    }
}

async fn connect(to: &CollectorAddress) -> Result<OpenConnection, String> {
    let unreachable = |error: io::Error| format!("it cannot be reached: {error}");
    let stream = TcpStream::connect((&*to.host, to.port))
        .await
        .map_err(unreachable)?;
    let sender = match &to.tls {
        None => handshake(stream).await,
        Some(tls) => {
            let untrusted = |error| format!("the TLS handshake fails: {error}");
            handshake(encrypt(tls, &to.host, stream).await.map_err(untrusted)?).await
        }
    };
    let to = to.clone();
    sender.map(|sender| OpenConnection { to, sender })
}

async fn encrypt(
    tls: &TlsSettings,
    host: &str,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let name = match &tls.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    TlsConnector::from(Arc::clone(&tls.config))
        .connect(name, stream)
        .await
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = connected.map_err(|error| error.to_string())?;
    // The task ends with the sender, which a call that fails drops.
    tokio::spawn(connection);
    Ok(sender)
}

fn request(settings: &ExportSettings, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let software = settings.software;
    let mut request = Request::post(Uri::from(settings.collector.path.clone()))
        .header(HOST, settings.collector.authority.clone())
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(
            USER_AGENT,
            format!("{}/{}", software.name, software.version),
        )
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    for (name, value) in &settings.headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    Ok(request)
}
