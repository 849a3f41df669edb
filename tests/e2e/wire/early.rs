//! An origin that answers at the end of each head, whatever body the head announces, and keeps the bytes of each connection.
//!
//! An origin that waits for a body takes the next bytes on its connection for it. The kept bytes show which requests shared one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::listen;

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// The origin, for as long as the test's runtime lives.
pub struct EarlyOrigin {
    pub address: SocketAddr,
    connections: Connections,
}

/// The bytes of each connection, in the order in which they were accepted.
type Connections = Arc<Mutex<Vec<Vec<u8>>>>;

impl EarlyOrigin {
    /// Listens; sends `answer` so long after the end of each head.
    pub async fn start(answer: &'static [u8], delay: Duration) -> Self {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let connections = Connections::default();
        let kept = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                // An error is the gateway's leaving.
                tokio::spawn(async move { converse(stream, &kept, answer, delay).await.ok() });
            }
        });
        Self {
            address,
            connections,
        }
    }

    /// The bytes of each connection so far, as text.
    pub fn connections(&self) -> Vec<String> {
        let connections = self.connections.lock().unwrap();
        let texts = connections.iter();
        texts
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

async fn converse(
    mut stream: TcpStream,
    kept: &Connections,
    answer: &[u8],
    delay: Duration,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let index = {
        let mut kept = kept.lock().unwrap();
        kept.push(Vec::new());
        kept.len() - 1
    };
    let (mut answered, mut piece) = (0, [0; 4096]);
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        let heads = {
            let mut kept = kept.lock().unwrap();
            kept[index].extend_from_slice(&piece[..read]);
            let ends = kept[index].windows(END.len());
            ends.filter(|four| *four == END).count()
        };
        while answered < heads {
            answered += 1;
            tokio::time::sleep(delay).await;
            stream.write_all(answer).await?;
        }
    }
}
