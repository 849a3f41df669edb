//! What can happen to bytes on their way: a TCP proxy before a server that passes them on late, in part, or not at all.
//!
//! It runs on the test's own runtime, so a test that blocks its thread holds it up too.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::ports::listen;

/// A proxy; everything passes until it is told otherwise.
pub struct Mishap {
    address: SocketAddr,
    way: watch::Sender<Way>,
    cuts: watch::Sender<u32>,
    seen: Arc<Mutex<Seen>>,
    accepting: AbortHandle,
}

/// What becomes of what the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrives.
    Pass,
    /// It arrives later by this.
    Delay(Duration),
    /// It does not arrive until the way is another.
    Hold,
    /// So many bytes of the next answer arrive, then its connection is closed; what follows passes.
    CutAfter(usize),
    /// New connections are closed at once, those there are stay.
    Refuse,
}

/// What has come by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Connections accepted, those closed at once too.
    pub connections: usize,
    /// Bytes from clients.
    pub asked: usize,
}

impl Mishap {
    /// Stands before `server`.
    pub async fn before(server: SocketAddr) -> Self {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let (way, ways) = watch::channel(Way::Pass);
        let (cuts, cut) = watch::channel(0);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let tally = Arc::clone(&seen);
        let own = way.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tally.lock().unwrap().connections += 1;
                if *ways.borrow() == Way::Refuse {
                    continue;
                }
                let (mut cut, tally, way) = (cut.clone(), Arc::clone(&tally), own.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(server).await else {
                        return;
                    };
                    // Whichever side ends, or a cut, drops both sockets.
                    tokio::select! {
                        () = pumped(client, server, &way, &tally) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            way,
            cuts,
            seen,
            accepting: accepting.abort_handle(),
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this happens.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Closes every connection.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// What has come by so far.
    pub fn seen(&self) -> Seen {
        *self.seen.lock().unwrap()
    }
}

impl Drop for Mishap {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Moves bytes both ways until a side ends.
async fn pumped(
    mut client: TcpStream,
    mut server: TcpStream,
    way: &watch::Sender<Way>,
    seen: &Mutex<Seen>,
) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async {
        let mut bytes = [0; 16 * 1024];
        loop {
            let Ok(count @ 1..) = from_client.read(&mut bytes).await else {
                return;
            };
            seen.lock().unwrap().asked += count;
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    // Answers that are on their way delay no later ones: a distance, and no narrow line.
    let (on_the_way, mut arriving) = mpsc::unbounded_channel();
    let reading = async move {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            let piece = (Instant::now(), bytes[..count].to_vec());
            if on_the_way.send(piece).is_err() {
                break;
            }
        }
        // What is on its way still arrives.
        drop(on_the_way);
        std::future::pending::<()>().await;
    };
    let answering = async {
        while let Some((sent, bytes)) = arriving.recv().await {
            let count = bytes.len();
            let now = *way.borrow();
            let passed = match now {
                Way::Pass | Way::Refuse => count,
                Way::Delay(time) => {
                    tokio::time::sleep_until(sent + time).await;
                    count
                }
                Way::Hold => {
                    let _ = way.subscribe().wait_for(|way| *way != Way::Hold).await;
                    count
                }
                Way::CutAfter(some) => some.min(count),
            };
            let sent = to_client.write_all(&bytes[..passed]).await;
            if let Way::CutAfter(_) = now {
                way.send_replace(Way::Pass);
                return;
            }
            if sent.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = reading => {}
        () = answering => {}
    }
}
