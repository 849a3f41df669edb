//! An origin that keeps the very bytes it is sent, and answers what is clear beyond doubt.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::strict::{Clear, Reading, request};
use crate::harness::listen;

/// What it was sent.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Whole requests, in the order in which they ended.
    pub requests: Vec<Clear>,
    /// What it could not read without doubt, with the bytes.
    pub unclear: Vec<String>,
    /// All bytes, by connection.
    pub connections: Vec<Vec<u8>>,
}

/// The origin, for as long as the test's runtime lives.
pub struct Recorder {
    pub address: SocketAddr,
    record: Arc<Mutex<Record>>,
}

impl Recorder {
    /// Listens.
    pub async fn start() -> Self {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Mutex::new(Record::default()));
        let kept = Arc::clone(&record);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&kept)));
            }
        });
        Self { address, record }
    }

    /// Everything so far.
    pub fn record(&self) -> Record {
        self.record.lock().unwrap().clone()
    }
}

async fn converse(mut stream: TcpStream, record: Arc<Mutex<Record>>) {
    let mut read = Vec::new();
    let connection = {
        let connections = &mut record.lock().unwrap().connections;
        connections.push(Vec::new());
        connections.len() - 1
    };
    loop {
        match request(&read) {
            Reading::Request(clear, used) => {
                read.drain(..used);
                record.lock().unwrap().requests.push(clear);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                if stream.write_all(answer).await.is_err() {
                    return;
                }
            }
            Reading::Unclear(why) => {
                let text = String::from_utf8_lossy(&read).into_owned();
                record
                    .lock()
                    .unwrap()
                    .unclear
                    .push(format!("{why}: {text:?}"));
                return;
            }
            Reading::Partial => {
                let before = read.len();
                match stream.read_buf(&mut read).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                record.lock().unwrap().connections[connection].extend_from_slice(&read[before..]);
            }
        }
    }
}
