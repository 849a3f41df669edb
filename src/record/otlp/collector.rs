//! Owns the way to the collector: one connection, kept from call to call, each call bounded in time and bytes.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::answer::ExportReply;
use crate::config::rules::{OtlpPlace, OtlpRules};
use crate::retry_after::retry_after;
use crate::{bounds, clock};

const NAME: &str = concat!("sluicegate/", env!("CARGO_PKG_VERSION"));

/// The way to a collector.
#[derive(Default)]
pub(super) struct CollectorClient(Option<OpenConnection>);

struct OpenConnection {
    to: OtlpPlace,
    sender: SendRequest<Full<Bytes>>,
}

impl CollectorClient {
    /// Brings a batch.
    ///
    /// # Errors
    /// Why there is no answer, as an operator reads it.
    pub(super) async fn post(
        &mut self,
        rules: &OtlpRules,
        body: Bytes,
    ) -> Result<ExportReply, String> {
        let asked = tokio::time::timeout(rules.timeout, self.ask(rules, body)).await;
        let late = || Err(format!("it does not answer within {:?}", rules.timeout));
        let answer = asked.unwrap_or_else(|_| late());
        if answer.is_err() {
            self.0 = None;
        }
        answer
    }

    async fn ask(&mut self, rules: &OtlpRules, body: Bytes) -> Result<ExportReply, String> {
        if let Some(open) = self.0.take()
            && open.to == rules.collector
            && !open.sender.is_closed()
        {
            // It idled, and may be closing at the other end: then a new one is worth a try, and the worst is a span that came twice.
            if let Ok(answer) = self.ask_over(open, rules, body.clone()).await {
                return Ok(answer);
            }
        }
        let open = connect(&rules.collector).await?;
        self.ask_over(open, rules, body).await
    }

    /// Asks, and keeps the connection if that went well.
    async fn ask_over(
        &mut self,
        mut open: OpenConnection,
        rules: &OtlpRules,
        body: Bytes,
    ) -> Result<ExportReply, String> {
        let text = |error: hyper::Error| error.to_string();
        open.sender.ready().await.map_err(text)?;
        let request = request(rules, body)?;
        let answer = open.sender.send_request(request).await.map_err(text)?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, bounds::OTLP_ANSWER).collect().await;
        let body = match body {
            Ok(body) => {
                self.0 = Some(open);
                body.to_bytes()
            }
            // The head has said it; what is behind it is advice.
            Err(_) => Bytes::new(),
        };
        Ok(ExportReply {
            status: parts.status,
            retry_after: retry_after(&parts.headers, clock::wall()),
            body,
        })
    }
}

async fn connect(to: &OtlpPlace) -> Result<OpenConnection, String> {
    let unreachable = |error: std::io::Error| format!("it cannot be reached: {error}");
    let stream = TcpStream::connect((&*to.host, to.port))
        .await
        .map_err(unreachable)?;
    let sender = match &to.tls {
        None => speak(stream).await,
        Some(tls) => {
            let distrust = |error| format!("the TLS handshake fails: {error}");
            speak(tls.wrap(&to.host, stream).await.map_err(distrust)?).await
        }
    };
    let to = to.clone();
    sender.map(|sender| OpenConnection { to, sender })
}

async fn speak<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let speaking = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = speaking.map_err(|error| error.to_string())?;
    // It ends with the sender, which a call that fails drops.
    tokio::spawn(connection);
    Ok(sender)
}

fn request(rules: &OtlpRules, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::post(Uri::from(rules.collector.path.clone()))
        .header(HOST, rules.collector.authority.clone())
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(USER_AGENT, HeaderValue::from_static(NAME))
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    for (name, value) in &rules.headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    Ok(request)
}
