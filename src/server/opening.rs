//! Wraps a service that listens: passes it its socket, reports when it accepts, and decides when its listener closes.
//!
//! Pingora reports when a service was started, not when it accepts. Its service of a listener builds the listener, starts the
//! loop that accepts, and then waits for that loop's end: when it waits for the first time, it accepts. A service that fails
//! before drops its end of the channel, so a failed start is detected at once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use async_trait::async_trait;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use tracing::error;

use super::sockets::ListenerSockets;

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

/// One of the services.
pub(super) struct ReportingService<S> {
    service: S,
    sockets: Arc<ListenerSockets>,
    closes: CloseWhen,
    accepts: Option<Sender<()>>,
}

impl ListenerStartup {
    /// Makes the startup of services that listen on these sockets.
    pub(super) fn of(sockets: &Arc<ListenerSockets>) -> Self {
        let (accepts, accepting) = channel();
        Self {
            sockets: Arc::clone(sockets),
            accepts,
            accepting,
            services: 0,
        }
    }

    /// Adds a service.
    pub(super) fn add<S: Service>(&mut self, service: S, closes: CloseWhen) -> ReportingService<S> {
        self.services += 1;
        ReportingService {
            service,
            sockets: Arc::clone(&self.sockets),
            closes,
            accepts: Some(self.accepts.clone()),
        }
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

/// A service ended before it accepted. Pingora's panic, in the log, has the reason.
#[derive(Debug)]
pub(super) struct NeverAccepts;

#[async_trait]
impl<S: Service> Service for ReportingService<S> {
    async fn start_service(
        &mut self,
        fds: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
    ) {
        let accepts = self.accepts.take();
        let addresses = self.service.listen_addresses().unwrap_or_default();
        if let Some(fds) = &fds
            && let Err(error) = self.sockets.give(fds, &addresses)
        {
            return error!(
                "{}: the socket cannot be used: {error}",
                addresses.join(" ")
            );
        }
        let shutdown = match &self.closes {
            CloseWhen::AtDrain => shutdown,
            CloseWhen::When(watch) => watch.clone(),
        };
        let mut accepts = accepts;
        let mut serving = pin!(self.service.start_service(fds, shutdown, listeners_per_fd));
        std::future::poll_fn(|context| {
            let polled = serving.as_mut().poll(context);
            if polled.is_pending()
                && let Some(accepts) = accepts.take()
            {
                // The receiver is dropped if the start was given up.
                let _ = accepts.send(());
            }
            polled
        })
        .await;
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        self.service.threads()
    }

    fn listen_addresses(&self) -> Option<Vec<String>> {
        self.service.listen_addresses()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::server::sockets::ListenerMap as Handed;

    /// Accepts forever, or fails.
    struct Stub(bool);

    #[async_trait]
    impl Service for Stub {
        async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
            if self.0 {
                std::future::pending::<()>().await;
            }
        }

        fn name(&self) -> &'static str {
            "stub"
        }
    }

    fn opened(accept: [bool; 2]) -> Result<(), NeverAccepts> {
        let sockets = ListenerSockets::open([], Handed::new()).expect("nothing to bind");
        let mut opening = ListenerStartup::of(&Arc::new(sockets));
        let services = accept.map(|accepts| opening.add(Stub(accepts), CloseWhen::AtDrain));
        let opened = opening.complete();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
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

    /// Goal: a new process neither takes over too early nor waits forever. Method: two services that accept; one that ends
    /// before.
    #[test]
    fn a_start_is_complete_when_all_accept_and_failed_when_one_never_will() {
        assert!(opened([true, true]).is_ok());
        assert!(opened([true, false]).is_err());
    }
}
