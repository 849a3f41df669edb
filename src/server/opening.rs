//! The service of a listener: reports when it accepts, and decides when the listener closes.
//!
//! A service that fails before it accepts drops its end of the channel, so a failed start is detected at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use async_trait::async_trait;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use tracing::error;

use super::sockets::ListenerSockets;
use sluicegate_edge::listener::{Acceptor, ConnectionApp, QueuedConnections};

/// The services that must accept before the gateway serves.
pub(super) struct ListenerStartup {
    sockets: Arc<ListenerSockets>,
    accepts: Sender<()>,
    accepting: Receiver<()>,
    services: usize,
}

/// Waits for all of them.
pub(super) struct AllListening {
    accepting: Receiver<()>,
    services: usize,
}

/// The time at which a listener closes.
pub(super) enum CloseWhen {
    /// When the process drains.
    AtDrain,
    /// When this channel signals it: requests of operators are answered during a drain too.
    When(ShutdownWatch),
}

/// A listener of the configuration.
pub(super) struct ListenerPlan {
    /// The name of its service, which is that of its threads too.
    pub(super) name: String,
    /// Its address.
    pub(super) address: SocketAddr,
    /// The number of its threads; `None` for that of the server.
    pub(super) threads: Option<usize>,
    /// The time at which it closes.
    pub(super) closes: CloseWhen,
}

/// The service of one listener.
pub(super) struct ListenerService<A> {
    plan: ListenerPlan,
    app: Arc<A>,
    sockets: Arc<ListenerSockets>,
    accepts: Option<Sender<()>>,
}

impl ListenerStartup {
    /// Makes the startup of services that listen on these sockets.
    pub(super) fn new(sockets: &Arc<ListenerSockets>) -> Self {
        let (accepts, accepting) = channel();
        Self {
            sockets: Arc::clone(sockets),
            accepts,
            accepting,
            services: 0,
        }
    }

    /// Returns the service of a listener, whose connections `app` serves.
    pub(super) fn add<A: ConnectionApp>(
        &mut self,
        plan: ListenerPlan,
        app: A,
    ) -> ListenerService<A> {
        ListenerService {
            plan,
            app: Arc::new(app),
            sockets: Arc::clone(&self.sockets),
            accepts: Some(self.add_another()),
        }
    }

    /// Returns the channel of one more service, which reports by it that it accepts.
    pub(super) fn add_another(&mut self) -> Sender<()> {
        self.services += 1;
        self.accepts.clone()
    }

    /// Ends the list of services.
    pub(super) fn complete(self) -> AllListening {
        AllListening {
            accepting: self.accepting,
            services: self.services,
        }
    }
}

impl AllListening {
    /// Waits until every service accepts, or one never will.
    ///
    /// # Errors
    /// A service ended before it accepted.
    pub(super) fn wait(self) -> Result<(), NeverAccepts> {
        for _ in 0..self.services {
            self.accepting.recv().map_err(|_| NeverAccepts)?;
        }
        Ok(())
    }
}

/// A service ended before it accepted; the process log has the reason.
#[derive(Debug)]
pub(super) struct NeverAccepts;

#[async_trait]
impl<A: ConnectionApp> Service for ListenerService<A> {
    async fn start_service(&mut self, _: Option<ListenFds>, shutdown: ShutdownWatch, _: usize) {
        let accepts = self.accepts.take();
        let socket = self.sockets.duplicate(self.plan.address);
        let acceptor = match socket.and_then(Acceptor::new) {
            Ok(acceptor) => acceptor,
            Err(error) => {
                return error!("{}: the socket cannot be used: {error}", self.plan.address);
            }
        };
        if let Some(accepts) = accepts {
            // The receiver is dropped if the start was given up.
            let _ = accepts.send(());
        }
        let (shutdown, queued) = match &self.plan.closes {
            CloseWhen::AtDrain => (shutdown, QueuedConnections::Served),
            // A probe that the new process may answer should not hear that this one drains.
            CloseWhen::When(watch) => (watch.clone(), QueuedConnections::Left),
        };
        acceptor.serve(&self.app, shutdown, queued).await;
    }

    fn name(&self) -> &str {
        &self.plan.name
    }

    fn threads(&self) -> Option<usize> {
        self.plan.threads
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::server::sockets::ListenerMap;
    use sluicegate_tls::client_socket::ClientSocket;

    /// Serves nothing.
    struct NoApp;

    impl ConnectionApp for NoApp {
        type Permit = ();

        fn admit(&self, _: SocketAddr) -> Option<()> {
            Some(())
        }

        fn note_accept_error(&self, _: &io::Error) {}

        async fn serve(self: Arc<Self>, _: ClientSocket, (): (), _: ShutdownWatch) {}
    }

    /// Starts listeners at these addresses, of which only the first one has a socket.
    fn opened<const N: usize>(addresses: [&str; N]) -> Result<(), NeverAccepts> {
        let addresses = addresses.map(|address| address.parse().expect("an address"));
        let timeout = Duration::from_secs(60);
        let sockets = ListenerSockets::open([addresses[0]], ListenerMap::new(), timeout);
        let sockets = Arc::new(sockets.expect("a free port"));
        let mut opening = ListenerStartup::new(&sockets);
        let services = addresses.map(|address| {
            let plan = ListenerPlan {
                name: "test".to_owned(),
                address,
                threads: None,
                closes: CloseWhen::AtDrain,
            };
            opening.add(plan, NoApp)
        });
        let opened = opening.complete();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (_keep, shutdown) = watch::channel(false);
        for mut service in services {
            let shutdown = shutdown.clone();
            runtime.spawn(async move { service.start_service(None, shutdown, 1).await });
        }
        let told = opened.wait();
        runtime.shutdown_background();
        told
    }

    /// Goal: a new process neither takes over too early nor waits forever. Method: a service that accepts; one beside it whose socket is
    /// gone.
    #[test]
    fn a_start_is_complete_when_all_accept_and_failed_when_one_never_will() {
        assert!(opened(["127.0.0.1:0"]).is_ok());
        assert!(opened(["127.0.0.1:0", "127.0.0.2:0"]).is_err());
    }
}
