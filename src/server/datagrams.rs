//! Owns the UDP sockets of listeners that speak HTTP/3, and the service of each.
//!
//! A new process opens sockets of its own at the same addresses. The kernel then spreads datagrams over those of both, so the old process
//! closes its own when the new one has taken over, and its connections of HTTP/3 with them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use async_trait::async_trait;
use pingora::server::{ListenFds, Server, ShutdownWatch};
use pingora::services::Service;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;

use super::opening::ListenerStartup;
use super::start_error::StartError;
use crate::config::rules::{Http3, Rules};
use crate::listener::Http3Endpoint;
use crate::process::{GatewayProcess, SharedState};

/// The sockets, by their addresses.
pub(super) struct DatagramSockets(Vec<(SocketAddr, UdpSocket)>);

/// The service of one listener.
struct DatagramService {
    name: String,
    shared: Arc<SharedState>,
    address: SocketAddr,
    socket: Option<UdpSocket>,
    accepts: Option<Sender<()>>,
    retired: watch::Receiver<bool>,
}

impl DatagramSockets {
    /// Opens a socket for each listener that speaks HTTP/3.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub(super) fn open(rules: &Rules) -> Result<Self, StartError> {
        let listeners = rules.listeners.iter();
        let addresses = listeners
            .filter(|listener| listener.http3 == Http3::Accepted)
            .map(|listener| listener.address);
        let open = |address| match bind(address) {
            Ok(socket) => Ok((address, socket)),
            Err(cause) => Err(StartError::BindUdp(address, cause)),
        };
        addresses.map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Adds the service of each. It closes when the process is `retired`.
    pub(super) fn add_services(
        self,
        server: &mut Server,
        opening: &mut ListenerStartup,
        process: &GatewayProcess,
        retired: &watch::Receiver<bool>,
    ) {
        for (address, socket) in self.0 {
            server.add_service(DatagramService {
                name: format!("HTTP/3 {address}"),
                shared: Arc::clone(&process.shared),
                address,
                socket: Some(socket),
                accepts: Some(opening.add_another()),
                retired: retired.clone(),
            });
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
        let Some(socket) = self.socket.take() else {
            return;
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
