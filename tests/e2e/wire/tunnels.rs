//! WebSockets whose server answers before it has read the whole request, or does not answer as asked.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::harness::{Answer, Origin, Setup, eventually, listen, post, request};
use std::time::Duration;

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// Connections at the same time.
const TOGETHER: usize = 20;

const SWITCH: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

const ASK: &[u8] =
    b"GET /socket HTTP/1.1\r\nHost: gateway.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// When the origin switches protocols.
#[derive(Clone, Copy, Debug)]
enum Switches {
    /// As soon as there is a connection.
    Unasked,
    /// At the first byte of the request.
    AtFirstByte,
}

/// An origin that sends back whatever comes behind the head of a request.
async fn echo(switches: Switches) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // An error is the other end's leaving, which the test sees in its own way.
            tokio::spawn(async move { converse(stream, switches).await.ok() });
        }
    });
    address
}

async fn converse(mut stream: TcpStream, switches: Switches) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    if matches!(switches, Switches::AtFirstByte) {
        stream.readable().await?;
    }
    stream.write_all(SWITCH).await?;
    let mut read = Vec::new();
    read_head(&mut stream, &mut read).await?;
    loop {
        stream.write_all(&std::mem::take(&mut read)).await?;
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
}

/// Reads to the end of a head, and leaves what comes behind it.
async fn read_head(stream: &mut TcpStream, read: &mut Vec<u8>) -> std::io::Result<Vec<u8>> {
    loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            return Ok(read.drain(..at + 4).collect());
        }
        if stream.read_buf(read).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Opens a tunnel, and says something through it twice; what went wrong, if anything did.
async fn talk(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    stream.write_all(ASK).await?;
    let mut read = Vec::new();
    let head = read_head(&mut stream, &mut read).await?;
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
    for said in [&b"once"[..], b"twice"] {
        stream.write_all(said).await?;
        while read.len() < said.len() {
            if stream.read_buf(&mut read).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        assert_eq!(read, said);
        read.clear();
    }
    Ok(())
}

#[tokio::test]
async fn a_tunnel_outlives_the_request_that_opened_it() {
    // Goal: the end of the request never ends the tunnel. Method: 600 tunnels to origins that switch before they have read the request,
    // with and without a bound on connections; bytes pass both ways, twice, in each.
    for switches in [Switches::Unasked, Switches::AtFirstByte] {
        for lines in ["", "circuit_breaker = { max_connections = 100 }"] {
            let gateway = Setup::new()
                .servers("app", &[echo(switches).await])
                .origin_line(lines)
                .rules(ROUTE)
                .start()
                .await;
            let (mut left, mut broken) = (150, 0);
            let mut talking = JoinSet::new();
            while left > 0 || !talking.is_empty() {
                while left > 0 && talking.len() < TOGETHER {
                    left -= 1;
                    talking.spawn(timeout(Duration::from_secs(30), talk(gateway.address())));
                }
                if let Some(talked) = talking.join_next().await {
                    broken += usize::from(!matches!(talked, Ok(Ok(Ok(())))));
                }
            }
            assert_eq!(broken, 0, "of 150, {switches:?}, {lines:?}");
        }
    }
}

#[tokio::test]
async fn a_tunnel_ends_soon_after_one_side() {
    // Goal: a side that keeps its direction open holds no tunnel whose other side has ended its own. Method: an origin that never ends,
    // a client that ends its direction, and a `read` timeout of the origin that would end the tunnel much later.
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(SWITCH).await.unwrap();
        std::future::pending::<()>().await;
    });
    let gateway = Setup::new()
        .servers("app", &[address])
        .origin_line("timeouts = { read = \"10m\" }")
        .rules(ROUTE)
        .start()
        .await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.write_all(ASK).await.unwrap();
    let mut read = Vec::new();
    let head = read_head(&mut stream, &mut read).await.unwrap();
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
    stream.shutdown().await.unwrap();
    let end = timeout(Duration::from_secs(30), stream.read_buf(&mut read)).await;
    assert_eq!(end.expect("the tunnel ends").unwrap(), 0);
}

#[tokio::test]
async fn a_refused_tunnel_is_an_answer_like_others() {
    // Goal: a rejected upgrade gets the origin's answer, may be followed by other requests on the same connection, and leaves no
    // connection that none of them can use. Method: an origin that answers 403, asked for tunnels again and again.
    let origin = Origin::answering(|_| Answer::new(403).body("no").into());
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules(ROUTE)
        .start()
        .await;
    let mut client = gateway.raw().await;
    for _ in 0..20 {
        client.write(ASK).await;
        let answer = client.read_response().await;
        assert_eq!((answer.status, answer.text()), (403, "no"));
    }
    eventually("one connection is left at most", async || {
        (origin.open_connections() <= 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_a_get_without_a_body_opens_a_tunnel() {
    // Goal: no request has a body that could end behind the switch. Method: RFC 6455 §4.1 asks for a GET; another method, or a body,
    // makes
    // it an ordinary request.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules(ROUTE)
        .start()
        .await;
    for ask in [post("/"), request("GET", "/").body("x")] {
        let ask = ask
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket");
        let echo = gateway.send(ask).await.echo();
        assert_eq!(echo.header("upgrade"), None, "{echo:?}");
    }
}
