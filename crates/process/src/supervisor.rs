//! Tells the service manager how the process does, by the protocol of `sd_notify(3)`; without `NOTIFY_SOCKET` it says nothing.
//!
//! READY is when every listener accepts. A reload is RELOADING and READY again, with the time that systemd from 253 on asks for. In an
//! upgrade the old process names the new one, which is the main process from then on: a manager believes that of the main process only.

use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sd_notify::NotifyState;
use tracing::warn;

/// Every listener accepts, or a reload is over; `status` is shown by `systemctl status`.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is being read again.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The process drains.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// The process with this id is the main one.
pub fn main_process(id: u32) {
    tell(&[NotifyState::MainPid(id)]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("cannot notify the service manager: {error}");
    }
}

/// Says that the process is alive, as often as `WatchdogSec=` asks for it.
pub struct WatchdogService;

#[async_trait]
impl BackgroundService for WatchdogService {
    async fn start(&self, _: ShutdownWatch) {
        let Some(period) = sd_notify::watchdog_enabled() else {
            return;
        };
        // sd_watchdog_enabled(3) recommends half of it. It goes on while the process drains: that may take longer.
        let mut tick = tokio::time::interval((period / 2).max(Duration::from_millis(1)));
        loop {
            tick.tick().await;
            tell(&[NotifyState::Watchdog]);
        }
    }
}
