//! The crowd of `crowd.sh`: connections that only press. Some are served once and then idle, others never end the head of a request:
//! they send a byte a second, and connect again when they are cut off. Those come one after the other: a crowd in step would measure how
//! long its own process is busy with one step.
//!
//! `crowd --to ADDRESS [--idle N] [--slow N]`; it says when all are there and goes on until it is ended.

use std::env;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Connections that are being made at the same time: a listener's backlog is finite.
const AT_ONCE: usize = 200;

/// Over how long those that drip arrive: after as long the gateway cuts them off, so from then on as many come again each second.
const ARRIVAL: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut to, mut idle, mut slow) = (None, 10_000_u32, 2_000_u32);
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--to" => to = Some(value.parse::<SocketAddr>()?),
            "--idle" => idle = value.parse()?,
            "--slow" => slow = value.parse()?,
            _ => return Err(format!("{name} is not known").into()),
        }
    }
    let to = to.ok_or("--to is needed")?;
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut arriving = Vec::new();
    for number in 0..idle + slow {
        let turns = Arc::clone(&turns);
        arriving.push(tokio::spawn(async move {
            if number < idle {
                let _turn = turns.acquire().await;
                return sit(to).await.map(Some);
            }
            tokio::time::sleep(ARRIVAL * (number - idle) / slow).await;
            let stream = drip(to).await?;
            tokio::spawn(keep_dripping(stream, to));
            Ok::<_, std::io::Error>(None)
        }));
    }
    let mut idling = Vec::new();
    let mut failed = 0;
    for one in arriving {
        match one.await? {
            Ok(stream) => idling.extend(stream),
            Err(_) => failed += 1,
        }
    }
    writeln!(
        std::io::stdout(),
        "idle {} slow {slow} failed {failed}",
        idling.len()
    )?;
    std::io::stdout().flush()?;
    std::future::pending::<()>().await;
    drop(idling);
    Ok(())
}

/// A connection that was served and idles.
async fn sit(to: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream
        .write_all(b"GET /open HTTP/1.1\r\nhost: crowd.test\r\n\r\n")
        .await?;
    let mut answer = [0; 4096];
    if stream.read(&mut answer).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(stream)
}

/// A connection that has begun a head.
async fn drip(to: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream
        .write_all(b"GET /open HTTP/1.1\r\nhost: crowd.test\r\nx-slow: ")
        .await?;
    Ok(stream)
}

async fn keep_dripping(mut stream: TcpStream, to: SocketAddr) {
    let mut scrap = [0; 1024];
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cut = match stream.try_read(&mut scrap) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        };
        if cut || stream.write_all(b"x").await.is_err() {
            match drip(to).await {
                Ok(again) => stream = again,
                Err(_) => return,
            }
        }
    }
}
