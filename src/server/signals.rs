//! Receives signals and acts on them.
//!
//! An unhandled signal ends a process at once, so handlers are installed before a socket is opened, and signals are acted on
//! once the services exist. A thread of its own handles them to the end: Pingora handles none any more when it drains.

use std::io;
use std::sync::Arc;

use sluicegate_base::bounds;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::drain::save_log;
use super::start_error::NO_UPGRADE_SOCKET;
use super::upgrade::UpgradeServer;
use sluicegate_process::GatewayProcess;
use sluicegate_process::supervisor;

/// The installed handlers, with signals not acted on yet.
pub(super) struct ProcessSignals {
    runtime: Runtime,
    heard: SignalStreams,
}

/// The receivers of the signals.
pub(super) struct SignalTargets {
    pub(super) process: Arc<GatewayProcess>,
    pub(super) upgrade_server: Arc<UpgradeServer>,
    /// The possibility of an upgrade; without it SIGQUIT is SIGTERM.
    pub(super) upgrades: UpgradePolicy,
    /// Requests a reload of the configuration.
    pub(super) reload: Arc<Notify>,
    /// Requests a drain.
    pub(super) drain: Arc<Notify>,
}

/// The possibility of an upgrade.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UpgradePolicy {
    Possible,
    /// There is no socket for a handover.
    Impossible,
}

struct SignalStreams {
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    reopen: Signal,
    terminate: Signal,
}

impl ProcessSignals {
    /// Installs the handlers: from here on no signal is lost, and none ends the process by itself.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn listen() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let heard = SignalStreams {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            reopen: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
        };
        drop(entered);
        Ok(Self { runtime, heard })
    }

    /// Acts on signals for the rest of the process, those that arrived meanwhile first.
    pub(super) fn obey(self, asked: SignalTargets) {
        let Self { runtime, heard } = self;
        std::thread::spawn(move || runtime.block_on(heard.obey(asked)));
    }
}

impl SignalStreams {
    async fn obey(mut self, asked: SignalTargets) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => asked.reload.notify_one(),
                _ = self.interrupt.recv() => asked.end(),
                _ = self.quit.recv() => asked.make_way(),
                _ = self.reopen.recv() => asked.process.shared.recorder.reopen_logs(),
                _ = self.terminate.recv() => {
                    info!("SIGTERM: draining");
                    asked.drain();
                }
            }
        }
    }
}

impl SignalTargets {
    fn end(&self) {
        info!("SIGINT: stopping");
        supervisor::stopping();
        save_log(&self.process);
        // Pingora's exit would drop the runtimes under its accept loops, which then spin on errors, sometimes forever.
        std::process::exit(0)
    }

    fn drain(&self) {
        self.upgrade_server.stop();
        supervisor::stopping();
        self.drain.notify_one();
    }

    /// Handles SIGQUIT, by which Pingora's servers learn that a new process was started. Here a new process may start at any
    /// time, and without one nothing ends.
    fn make_way(&self) {
        if self.upgrades == UpgradePolicy::Impossible {
            info!("SIGQUIT: draining, because no upgrade is possible; {NO_UPGRADE_SOCKET}");
            return self.drain();
        }
        info!("SIGQUIT: waiting for a new process, `sluicegate run --upgrade`");
        let upgrade_server = Arc::clone(&self.upgrade_server);
        tokio::spawn(async move {
            tokio::time::sleep(bounds::UPGRADE_PATIENCE).await;
            if upgrade_server.is_serving() {
                warn!("no new process has taken over, this process continues");
            }
        });
    }
}
