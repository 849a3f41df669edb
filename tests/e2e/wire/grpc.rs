//! gRPC through the gateway, with the client and the server of a library that many use.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use http::uri::PathAndQuery;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::codegen::Service;
use tonic::codegen::tokio_stream::wrappers::TcpListenerStream;
use tonic::server::StreamingService;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};

use crate::harness::{Gateway, Setup, listen};

type Messages = BoxStream<'static, Result<Bytes, Status>>;

/// Messages as they are: what is in them is not the subject.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// The origin: echoes, counts, sums, fails or keeps silent, as the method says.
#[derive(Clone)]
struct Origin;

#[derive(Clone)]
struct Method(String);

impl StreamingService<Bytes> for Method {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = BoxFuture<'static, Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let method = self.0.clone();
        async move {
            let told = request.metadata().get("x-told").cloned();
            let mut incoming = request.into_inner();
            let messages = match &*method {
                "/test.Echo/Echo" => incoming.boxed(),
                "/test.Echo/Count" => {
                    let count = incoming.message().await?.unwrap_or_default().len();
                    stream::iter((0..count).map(|n| Ok(Bytes::from(n.to_string())))).boxed()
                }
                "/test.Echo/Sum" => {
                    let mut bytes = 0;
                    while let Some(message) = incoming.message().await? {
                        bytes += message.len();
                    }
                    stream::iter([Ok(Bytes::from(bytes.to_string()))]).boxed()
                }
                "/test.Echo/Break" => {
                    stream::iter([Ok(Bytes::from("one")), Err(Status::data_loss("no more"))])
                        .boxed()
                }
                "/test.Echo/Hang" => std::future::pending().await,
                _ => return Err(Status::not_found("no such thing: 50 %")),
            };
            let mut answer = Response::new(messages);
            if let Some(told) = told {
                answer.metadata_mut().insert("x-told", told);
            }
            Ok(answer)
        }
        .boxed()
    }
}

impl Service<http::Request<tonic::body::Body>> for Origin {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let method = Method(request.uri().path().to_owned());
        async move {
            Ok(tonic::server::Grpc::new(Plain)
                .streaming(method, request)
                .await)
        }
        .boxed()
    }
}

async fn origin() -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Server::builder().serve_with_incoming(Origin, TcpListenerStream::new(listener)));
    address
}

async fn before(origin: SocketAddr, lines: &str) -> Gateway {
    Setup::new()
        .servers("app", &[origin])
        .origin_line("protocol = \"h2c\"")
        .origin_line(lines)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await
}

/// A caller, through the gateway.
struct Caller(tonic::client::Grpc<Channel>);

impl Caller {
    async fn of(gateway: &Gateway) -> Self {
        let to = format!("http://{}", gateway.address());
        let channel = Endpoint::from_shared(to).unwrap().connect().await.unwrap();
        Self(tonic::client::Grpc::new(channel))
    }

    async fn call(
        &mut self,
        method: &'static str,
        messages: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Response<Streaming<Bytes>>, Status> {
        let mut request = Request::new(messages);
        request
            .metadata_mut()
            .insert("x-told", "metadata".parse().unwrap());
        self.call_with(method, request).await
    }

    async fn call_with(
        &mut self,
        method: &'static str,
        request: Request<impl Stream<Item = Bytes> + Send + 'static>,
    ) -> Result<Response<Streaming<Bytes>>, Status> {
        self.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(method);
        self.0.streaming(request, path, Plain).await
    }
}

fn messages(of: &'static [&'static str]) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::iter(
        of.iter()
            .map(|message| Bytes::from_static(message.as_bytes())),
    )
}

async fn texts(answer: Response<Streaming<Bytes>>) -> Result<Vec<String>, Status> {
    let mut incoming = answer.into_inner();
    let mut texts = Vec::new();
    while let Some(message) = incoming.message().await? {
        texts.push(String::from_utf8(message.to_vec()).unwrap());
    }
    Ok(texts)
}

#[tokio::test]
async fn every_kind_of_call_passes() {
    // Goal: unary, server streaming and client streaming, with metadata both ways and the status in trailers. Method: an origin that
    // echoes, counts and sums.
    let gateway = before(origin().await, "").await;
    let mut caller = Caller::of(&gateway).await;
    let answer = caller
        .call("/test.Echo/Echo", messages(&["hello"]))
        .await
        .unwrap();
    assert_eq!(answer.metadata().get("x-told").unwrap(), "metadata");
    assert!(answer.metadata().get("x-request-id").is_some());
    assert_eq!(texts(answer).await.unwrap(), ["hello"]);
    let counted = caller
        .call("/test.Echo/Count", messages(&["12345"]))
        .await
        .unwrap();
    assert_eq!(texts(counted).await.unwrap(), ["0", "1", "2", "3", "4"]);
    let piece = "a message of some length";
    let many = stream::iter((0..1_000).map(move |_| Bytes::from(piece)));
    let summed = caller.call("/test.Echo/Sum", many).await.unwrap();
    assert_eq!(
        texts(summed).await.unwrap(),
        [(1_000 * piece.len()).to_string()]
    );
}

#[tokio::test]
async fn both_sides_speak_in_turn_on_one_stream() {
    // Goal: bidirectional streaming: nothing waits for the end of the other side. Method: each message is sent only after the echo of the
    // last was read.
    let gateway = before(origin().await, "").await;
    let mut caller = Caller::of(&gateway).await;
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let outgoing = stream::unfold(receive, |mut receive| async {
        Some((receive.recv().await?, receive))
    });
    send.send(Bytes::from("0")).await.unwrap();
    let answer = caller.call("/test.Echo/Echo", outgoing).await.unwrap();
    let mut incoming = answer.into_inner();
    for turn in 0..20 {
        let echoed = incoming.message().await.unwrap().unwrap();
        assert_eq!(echoed, turn.to_string());
        send.send(Bytes::from((turn + 1).to_string()))
            .await
            .unwrap();
    }
    drop(send);
    assert_eq!(incoming.message().await.unwrap().unwrap(), "20");
    assert!(incoming.message().await.unwrap().is_none());
}

#[tokio::test]
async fn the_origins_own_status_passes() {
    // Goal: a status in the head alone, and one in trailers behind messages. Method: a method that is not there, and one that breaks off.
    let gateway = before(origin().await, "").await;
    let mut caller = Caller::of(&gateway).await;
    let nowhere = caller.call("/test.Echo/None", messages(&["x"])).await;
    let status = nowhere.err().unwrap();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "no such thing: 50 %")
    );
    let broken = caller
        .call("/test.Echo/Break", messages(&["x"]))
        .await
        .unwrap();
    let mut incoming = broken.into_inner();
    assert_eq!(incoming.message().await.unwrap().unwrap(), "one");
    let status = incoming.message().await.err().unwrap();
    assert_eq!(
        (status.code(), status.message()),
        (Code::DataLoss, "no more")
    );
}

#[tokio::test]
async fn the_gateways_own_failures_are_statuses_of_grpc() {
    // Goal: 502, 503 and 504 reach a caller as what they mean, not as "unknown". Method: an origin that is not there, one that is taken
    // out, one that keeps silent.
    let nobody = SocketAddr::from(([127, 0, 0, 1], crate::harness::free_port()));
    for (origin, lines, method, code) in [
        (nobody, "", "/test.Echo/Echo", Code::Unavailable),
        (
            origin().await,
            "timeouts = { read = \"100ms\" }",
            "/test.Echo/Hang",
            Code::DeadlineExceeded,
        ),
    ] {
        let gateway = before(origin, lines).await;
        let mut caller = Caller::of(&gateway).await;
        let failed = caller.call(method, messages(&["x"])).await;
        assert_eq!(failed.err().unwrap().code(), code);
    }
}

#[tokio::test]
async fn a_callers_deadline_reaches_the_origin_and_ends_the_call() {
    // Goal: `grpc-timeout` passes, and a call that its caller gives up is given up at the origin's side too. Method: an origin that keeps
    // silent for ever; the next call passes on the same connections.
    let gateway = before(origin().await, "").await;
    let mut caller = Caller::of(&gateway).await;
    let mut request = Request::new(messages(&["x"]));
    request.set_timeout(Duration::from_millis(100));
    let late = caller.call_with("/test.Echo/Hang", request).await;
    let code = late.err().unwrap().code();
    assert!(
        matches!(code, Code::Cancelled | Code::DeadlineExceeded),
        "{code:?}"
    );
    let next = caller.call("/test.Echo/Echo", messages(&["next"])).await;
    assert_eq!(texts(next.unwrap()).await.unwrap(), ["next"]);
}

#[tokio::test]
async fn a_refused_call_is_resource_exhausted() {
    // Goal: a real gRPC client understands a rejection. Method: one call an hour.
    let gateway = Setup::new()
        .servers("app", &[origin().await])
        .origin_line("protocol = \"h2c\"")
        .rules(
            "[limit.calls]\nkey = \"global\"\nrates = [\"1 per 1h\"]\n\
             [[route]]\npath = \"/*\"\norigin = \"app\"\nlimits = [\"calls\"]",
        )
        .start()
        .await;
    let mut caller = Caller::of(&gateway).await;
    let first = caller.call("/test.Echo/Echo", messages(&["x"])).await;
    assert_eq!(texts(first.unwrap()).await.unwrap(), ["x"]);
    let second = caller.call("/test.Echo/Echo", messages(&["x"])).await;
    assert_eq!(second.err().unwrap().code(), Code::ResourceExhausted);
}
