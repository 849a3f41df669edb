//! Origins and clients that stop, stall or flood in the middle of a request: who is to blame, who learns of it, and what it may cost.

mod answers;
mod dead_servers;
mod interim;
mod leaving;
mod leftovers;
mod reuse;
mod stale;
mod stalls;
mod streams;

use std::net::SocketAddr;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::harness::frames::{Frames, HEADERS};
use crate::harness::{Gateway, Setup, listening, request};

/// The two versions by which clients and origins speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Http1,
    Http2,
}

const BOTH: [Spoken; 2] = [Spoken::Http1, Spoken::Http2];

impl Spoken {
    /// The line of an origin that speaks it.
    fn line(self) -> &'static str {
        match self {
            Self::Http1 => "protocol = \"http/1.1\"",
            Self::Http2 => "protocol = \"h2c\"",
        }
    }
}

/// A gateway before these servers, with further lines of their origin.
async fn before(servers: &[SocketAddr], lines: &str) -> Gateway {
    Setup::new()
        .servers("app", servers)
        .origin_line(lines)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\nmax_body_bytes = \"64MiB\"")
        .start()
        .await
}

/// Reads the head of a request, and what came with it.
async fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            break;
        }
    }
    read
}

/// Reads frames up to the next head of a request, and returns its stream.
async fn next_head(frames: &mut Frames) -> Option<u32> {
    while let Some(frame) = frames.next().await {
        if frame.kind == HEADERS {
            return Some(frame.stream);
        }
    }
    None
}
