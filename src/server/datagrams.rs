//! Owns the UDP sockets of listeners that speak HTTP/3: one a thread, bound here or taken over from the old process.
//!
//! A new process takes the sockets themselves, since further ones would get a part of what is for the connections of the old one. Both
//! have them then, and one reads: the new one from the moment on at which it has taken over, and passes on what is for connections that
//! the old one still serves. At an address that the new one does not take, the old one reads on.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pingora::server::{ListenFds, Server, ShutdownWatch};
use pingora::services::Service;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;

use super::opening::ListenerStartup;
use super::start_error::StartError;
use crate::config::rules::{Http3, Rules};
use sluicegate_edge::listener::{
    Http3Address, Http3Endpoint, QuicIdentity, ThreadPlace, ThreadSockets, relay,
};
use sluicegate_process::{GatewayProcess, SharedState};

/// The addresses at which this process speaks HTTP/3.
pub(super) struct DatagramListeners {
    identity: QuicIdentity,
    listeners: BTreeMap<SocketAddr, DatagramListener>,
    /// True once this process reads.
    reads: watch::Sender<bool>,
}

/// One address, with duplicates of its sockets for the next process.
struct DatagramListener {
    address: Arc<Http3Address>,
    sockets: Vec<UdpSocket>,
    /// The sockets of threads whose services are not added yet.
    threads: Mutex<Vec<ThreadSockets>>,
}

/// The parts of HTTP/3 that a process hands over.
pub(super) struct DatagramHandover {
    /// Its identity.
    pub(super) identity: QuicIdentity,
    /// The sockets of its threads.
    pub(super) sockets: Vec<(SocketAddr, UdpSocket)>,
    /// The ways to its threads, and to those of processes before it that still serve.
    pub(super) relays: Vec<DatagramRelay>,
}

/// The way to one thread.
pub(super) struct DatagramRelay {
    /// The address whose connections it has.
    pub(super) address: SocketAddr,
    /// The thread.
    pub(super) place: ThreadPlace,
    /// The socket by which it is passed datagrams.
    pub(super) socket: UnixDatagram,
}

/// The service of one thread.
struct DatagramService {
    name: String,
    shared: Arc<SharedState>,
    address: Arc<Http3Address>,
    sockets: Option<ThreadSockets>,
    accepts: Option<Sender<()>>,
    reads: watch::Receiver<bool>,
}

impl DatagramListeners {
    /// Opens the sockets of each listener that speaks HTTP/3, those that are not `inherited`.
    ///
    /// # Errors
    /// An address cannot be bound, or the system has no random bytes.
    pub(super) fn open(
        rules: &Rules,
        inherited: Option<DatagramHandover>,
    ) -> Result<Arc<Self>, StartError> {
        let identity = match &inherited {
            Some(inherited) => inherited.identity.successor(),
            None => QuicIdentity::draw().map_err(StartError::NoRandomBytes)?,
        };
        let (mut sockets, mut relays) = match inherited {
            Some(inherited) => (inherited.sockets, inherited.relays),
            None => (Vec::new(), Vec::new()),
        };
        let spoken = rules.listeners.iter();
        let spoken = spoken.filter(|listener| listener.http3 == Http3::Accepted);
        let mut listeners = BTreeMap::new();
        for address in spoken.map(|listener| listener.address) {
            let of_address = sockets.extract_if(.., |(at, _)| *at == address);
            let mut taken: Vec<_> = of_address.map(|(_, socket)| socket).collect();
            let before = relays.extract_if(.., |relay| relay.address == address);
            let before = before.map(|relay| (relay.place, relay.socket)).collect();
            let opened = bind_missing(address, rules.server.threads, &mut taken)
                .and_then(|()| DatagramListener::new(address, &identity, taken, before))
                .map_err(|cause| StartError::BindUdp(address, cause))?;
            listeners.insert(address, opened);
        }
        Ok(Arc::new(Self {
            identity,
            listeners,
            reads: watch::Sender::default(),
        }))
    }

    /// Adds the service of each thread, which waits for [`Self::read`].
    pub(super) fn add_services(
        &self,
        server: &mut Server,
        startup: &mut ListenerStartup,
        process: &GatewayProcess,
    ) {
        for (address, listener) in &self.listeners {
            let threads = &listener.threads;
            let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
            for sockets in threads.drain(..) {
                server.add_service(DatagramService {
                    name: format!("HTTP/3 {address}"),
                    shared: Arc::clone(&process.shared),
                    address: Arc::clone(&listener.address),
                    sockets: Some(sockets),
                    accepts: Some(startup.add_another()),
                    reads: self.reads.subscribe(),
                });
            }
        }
    }

    /// Lets the threads read. Until then what comes waits in the kernel.
    pub(super) fn read(&self) {
        self.reads.send_replace(true);
    }

    /// Returns the addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.keys().copied()
    }

    /// Returns what a process behind this one needs; `None` where HTTP/3 is not spoken.
    ///
    /// # Errors
    /// There are no descriptors for duplicates.
    pub(super) fn handover(&self) -> io::Result<Option<DatagramHandover>> {
        if self.listeners.is_empty() {
            return Ok(None);
        }
        let mut handover = DatagramHandover {
            identity: self.identity.clone(),
            sockets: Vec::new(),
            relays: Vec::new(),
        };
        for (address, listener) in &self.listeners {
            for socket in &listener.sockets {
                handover.sockets.push((*address, socket.try_clone()?));
            }
            for (place, socket) in listener.address.relays()? {
                handover.relays.push(DatagramRelay {
                    address: *address,
                    place,
                    socket,
                });
            }
        }
        Ok(Some(handover))
    }

    /// Stops reading at an address, at which the new process reads from now on.
    pub(super) fn hand_over(&self, address: SocketAddr) {
        if let Some(listener) = self.listeners.get(&address) {
            listener.address.hand_over();
        }
    }
}

impl DatagramListener {
    /// Returns the listener whose threads have these sockets, one each.
    fn new(
        address: SocketAddr,
        identity: &QuicIdentity,
        sockets: Vec<UdpSocket>,
        mut relays: Vec<(ThreadPlace, UnixDatagram)>,
    ) -> io::Result<Self> {
        let mut threads = Vec::new();
        for (thread, udp) in (0..).zip(&sockets) {
            let place = ThreadPlace {
                generation: identity.generation(),
                thread,
            };
            let ends = relay()?;
            relays.push((place, ends.sender));
            threads.push(ThreadSockets {
                place,
                udp: udp.try_clone()?,
                relay: ends.receiver,
            });
        }
        Ok(Self {
            address: Http3Address::new(address, identity, relays),
            sockets,
            threads: Mutex::new(threads),
        })
    }
}

/// Binds further sockets at an address, up to as many as there are threads. More than these stay, since the kernel gives each its part.
fn bind_missing(
    address: SocketAddr,
    threads: usize,
    sockets: &mut Vec<UdpSocket>,
) -> io::Result<()> {
    while sockets.len() < threads {
        sockets.push(bind(address)?);
    }
    Ok(())
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
        let Some((endpoint, relay)) = self
            .sockets
            .take()
            .and_then(|sockets| Http3Endpoint::new(&self.shared, &self.address, sockets))
        else {
            return;
        };
        if let Some(accepts) = accepts {
            // The receiver is dropped if the start was given up.
            let _ = accepts.send(());
        }
        // The start was given up where it never comes.
        if self.reads.wait_for(|reads| *reads).await.is_ok() {
            endpoint.serve(relay, shutdown).await;
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// A connection runs on the thread of its socket.
    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}
