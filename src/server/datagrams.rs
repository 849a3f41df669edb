//! Owns the UDP sockets of listeners that speak HTTP/3, and the service of each.
//!
//! A new process opens sockets of its own at the same addresses. The kernel spreads datagrams over those of both from then on, and each
//! process knows the half of the connections alone. So the new one opens them as the last act of its start, and the old one closes its own,
//! and its connections with them, when the new one has taken over: some milliseconds later.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use async_trait::async_trait;
use pingora::server::{ListenFds, Server, ShutdownWatch};
use pingora::services::Service;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;
use tracing::error;

use super::StartMode;
use super::opening::{AllListening, ListenerStartup, NeverAccepts};
use super::start_error::StartError;
use crate::config::rules::{Http3, Rules};
use crate::listener::Http3Endpoint;
use crate::process::{GatewayProcess, SharedState};

/// The addresses, and their sockets; `None` for one that is opened later.
pub(super) struct DatagramSockets(Vec<(SocketAddr, Option<UdpSocket>)>);

/// The service of one listener.
struct DatagramService {
    name: String,
    shared: Arc<SharedState>,
    address: SocketAddr,
    socket: Option<UdpSocket>,
    accepts: Option<Sender<()>>,
    /// True once every other listener accepts.
    turn: watch::Receiver<bool>,
    retired: watch::Receiver<bool>,
}

/// The services, which wait for every other listener.
pub(super) struct DatagramStartup {
    opens: watch::Sender<bool>,
    listening: AllListening,
}

impl DatagramStartup {
    /// Lets the services open their sockets, and waits until all receive.
    ///
    /// # Errors
    /// One never will.
    pub(super) fn open(self) -> Result<(), NeverAccepts> {
        self.opens.send_replace(true);
        self.listening.wait()
    }
}

impl DatagramSockets {
    /// Opens a socket for each listener that speaks HTTP/3. One at whose address another process still reads is closed again at once: it
    /// only shows that it can be opened later, before this process accepts connections.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub(super) fn open(rules: &Rules, begin: StartMode) -> Result<Self, StartError> {
        let listeners = rules.listeners.iter();
        let addresses = listeners
            .filter(|listener| listener.http3 == Http3::Accepted)
            .map(|listener| listener.address);
        let open = |address| {
            let socket = bind(address).map_err(|cause| StartError::BindUdp(address, cause))?;
            let kept = match begin {
                StartMode::Takeover => None,
                StartMode::Alone => Some(socket),
            };
            Ok((address, kept))
        };
        addresses.map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Adds the service of each. It closes when the process is `retired`.
    pub(super) fn add_services(
        self,
        server: &mut Server,
        mut startup: ListenerStartup,
        process: &GatewayProcess,
        retired: &watch::Receiver<bool>,
    ) -> DatagramStartup {
        let (opens, turn) = watch::channel(false);
        for (address, socket) in self.0 {
            server.add_service(DatagramService {
                name: format!("HTTP/3 {address}"),
                shared: Arc::clone(&process.shared),
                address,
                socket,
                accepts: Some(startup.add_another()),
                turn: turn.clone(),
                retired: retired.clone(),
            });
        }
        DatagramStartup {
            opens,
            listening: startup.complete(),
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

#[async_trait]
impl Service for DatagramService {
    async fn start_service(&mut self, _: Option<ListenFds>, shutdown: ShutdownWatch, _: usize) {
        // A service that ends before it accepts drops its channel, which ends the start.
        let accepts = self.accepts.take();
        // The start was given up where it never comes.
        if self.turn.wait_for(|opens| *opens).await.is_err() {
            return;
        }
        let socket = match self.socket.take().map_or_else(|| bind(self.address), Ok) {
            Ok(socket) => socket,
            Err(cause) => return error!("{}", StartError::BindUdp(self.address, cause)),
        };
        let Some(endpoint) = Http3Endpoint::new(&self.shared, self.address, socket) else {
            return;
        };
        if let Some(accepts) = accepts {
            // The receiver is dropped if the start was given up.
            let _ = accepts.send(());
        }
        let mut retired = self.retired.clone();
        tokio::select! {
            () = Arc::clone(&endpoint).serve(shutdown) => {}
            _ = retired.wait_for(|retired| *retired) => endpoint.retire(),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// All connections of an address run on one thread.
    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}
