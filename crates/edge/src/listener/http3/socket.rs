//! Owns the UDP socket of a listener: datagrams in and out, several a system call.

use std::future::Future;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::UdpSocket as SystemSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use quinn_proto::Transmit;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Bytes of the largest datagram that is received: more than any path of the internet carries.
pub(super) const LARGEST_DATAGRAM: usize = 1500;
/// Datagrams that one transmission has at most.
const SENT_AT_ONCE: usize = 10;

/// A UDP socket that is registered with this thread.
pub(super) struct DatagramSocket {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// The room for what one system call receives.
pub(super) struct ReceiveBatch {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BATCH_SIZE],
}

/// The wait of one task until the socket takes datagrams again.
pub(super) type WritableWait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A transmission, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The system has it, or it is lost, as any datagram may be.
    Gone,
    /// The system has no room.
    Waits,
}

impl DatagramSocket {
    /// Registers a socket.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(socket: SystemSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        let socket = UdpSocket::from_std(socket)?;
        Ok(Self { socket, state })
    }

    /// Returns room for a batch.
    pub(super) fn batch(&self) -> ReceiveBatch {
        let bytes = LARGEST_DATAGRAM * self.state.gro_segments();
        ReceiveBatch {
            buffers: vec![vec![0; bytes]; BATCH_SIZE],
            metas: [RecvMeta::default(); BATCH_SIZE],
        }
    }

    /// Receives datagrams, and calls `take` for each.
    ///
    /// # Errors
    /// The system's; the socket can be used on.
    pub(super) async fn receive(
        &self,
        batch: &mut ReceiveBatch,
        mut take: impl FnMut(&RecvMeta, BytesMut),
    ) -> io::Result<()> {
        let ReceiveBatch { buffers, metas } = batch;
        let received = self.socket.async_io(Interest::READABLE, || {
            let mut slices: Vec<_> = buffers.iter_mut().map(|one| IoSliceMut::new(one)).collect();
            self.state.recv((&self.socket).into(), &mut slices, metas)
        });
        let count = received.await?;
        for (meta, buffer) in metas.iter().zip(buffers.iter()).take(count) {
            let bytes = buffer.get(..meta.len).unwrap_or_default();
            // A datagram alone has no stride in some systems.
            let stride = match meta.stride {
                0 => bytes.len().max(1),
                stride => stride,
            };
            for datagram in bytes.chunks(stride) {
                take(meta, BytesMut::from(datagram));
            }
        }
        Ok(())
    }

    /// Returns how many datagrams one transmission may have.
    pub(super) fn sent_at_once(&self) -> usize {
        self.state.max_gso_segments().clamp(1, SENT_AT_ONCE)
    }

    /// Sends a transmission whose bytes are these.
    pub(super) fn try_send(&self, transmit: &Transmit, bytes: &[u8]) -> SendOutcome {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: bytes.get(..transmit.size).unwrap_or_default(),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.socket).into(), &transmit)
        });
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => SendOutcome::Waits,
            // QUIC repeats what is lost, and finds out how large datagrams may be by such losses.
            Ok(()) | Err(_) => SendOutcome::Gone,
        }
    }

    /// Returns a wait until the system has room.
    pub(super) fn writable(self: &Arc<Self>) -> WritableWait {
        let socket = Arc::clone(self);
        Box::pin(async move {
            // An error shows in the next transmission.
            let _ = socket.socket.writable().await;
        })
    }
}

/// Polls a wait, and forgets it when it is over.
pub(super) fn poll_wait(wait: &mut Option<WritableWait>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(waiting) = wait
        && waiting.as_mut().poll(context).is_pending()
    {
        return Poll::Pending;
    }
    *wait = None;
    Poll::Ready(())
}
