//! Hears what is asked of the process by signals, and does it.
//!
//! A signal that nobody hears ends a process on the spot, so they are heard before a socket is opened, and obeyed once the services are
//! there. A thread of its own hears them to the end: Pingora listens to none any more when it drains.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::drain::save_log;
use super::upgrade::UpgradeServer;
use crate::bounds;
use crate::process::GatewayProcess;
use crate::supervisor;

/// The signals of the process, heard and not obeyed yet.
pub(super) struct ProcessSignals {
    runtime: Runtime,
    heard: SignalStreams,
}

/// Whom they are passed to.
pub(super) struct SignalTargets {
    pub(super) process: Arc<GatewayProcess>,
    pub(super) succession: Arc<UpgradeServer>,
    /// Where a successor would ask to take over; without one SIGQUIT is SIGTERM.
    pub(super) successors: UpgradePolicy,
    /// The configuration is to be read again.
    pub(super) reload: Arc<Notify>,
    /// The process is to drain.
    pub(super) drain: Arc<Notify>,
}

/// The possibility of an upgrade.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UpgradePolicy {
    Possible,
    /// There is no socket to hand over by.
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
    /// From here on no signal is lost, and none ends the process by itself.
    ///
    /// # Errors
    /// When the system does not let the process listen.
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

    /// Obeys them for the rest of the process, those that came meanwhile first.
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
                _ = self.reopen.recv() => asked.process.shared.recorder.log.reopen(),
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
        // Pingora's way out would drop the runtimes under its accept loops, which then spin on errors, sometimes for ever.
        std::process::exit(0)
    }

    fn drain(&self) {
        self.succession.stop();
        supervisor::stopping();
        self.drain.notify_one();
    }

    /// SIGQUIT is how Pingora's servers are told that a successor was started. Here that one may come at any time, and if it does not
    /// come nothing ends.
    fn make_way(&self) {
        if self.successors == UpgradePolicy::Impossible {
            let why = super::NO_UPGRADE_SOCKET;
            info!("SIGQUIT: draining, because no upgrade is possible; {why}");
            return self.drain();
        }
        info!("SIGQUIT: waiting for a new process, `sluicegate run --upgrade`");
        let succession = Arc::clone(&self.succession);
        tokio::spawn(async move {
            tokio::time::sleep(bounds::UPGRADE_PATIENCE).await;
            if succession.is_serving() {
                warn!("no new process has taken over, this process continues");
            }
        });
    }
}
