//! Decides when a process that drains may end: when the last connection is closed, or after `shutdown_timeout`.
//!
//! A request in flight is finished. Every answer then closes its connection (HTTP/2: GOAWAY), so an active client opens a new
//! one, to the new process if there is one. An idle connection may just be receiving a request that this process has not read
//! yet; closing it at once would lose that request. Idle ones therefore stay open for [`bounds::DRAIN_IDLE`].

use std::sync::Arc;

use pingora::server::{ExecutionPhase, Server};
use sluicegate_base::bounds;
use sluicegate_base::clock;
use tracing::{info, warn};

use super::upgrade::UpgradeServer;
#[cfg(feature = "otlp")]
use crate::config::rules::OtlpSignal;
#[cfg(feature = "otlp")]
use sluicegate_admin::export_metrics;
use sluicegate_process::GatewayProcess;

/// Ends the process as soon as no client is served any more, or at the timeout; Pingora would sleep its whole grace period.
pub(super) fn exit_when_drained(
    server: &Server,
    process: Arc<GatewayProcess>,
    upgrade_server: Arc<UpgradeServer>,
) {
    let mut phases = server.watch_execution_phase();
    std::thread::spawn(move || {
        while !matches!(
            phases.blocking_recv(),
            Ok(ExecutionPhase::ShutdownGracePeriod)
        ) {
            if phases.is_closed() {
                return;
            }
        }
        wait(&process);
        upgrade_server.wait_for_commands();
        save_log(&process);
        std::process::exit(0);
    });
}

fn wait(process: &GatewayProcess) {
    let start = clock::now();
    let timeout = process
        .shared
        .snapshot()
        .compiled
        .rules
        .server
        .shutdown_timeout;
    let mut busy = start;
    // A connection that a listener takes out of its queue is not counted yet; two checks in a row let it enter.
    let mut empty = 0;
    while clock::since(start) < timeout {
        if process.shared.recorder.metrics.requests_in_flight() > 0 {
            busy = clock::now();
        }
        empty = if process.shared.connection_limiter.tallies().held == 0 {
            empty + 1
        } else {
            0
        };
        if empty >= 2 || clock::since(busy) >= bounds::DRAIN_IDLE {
            break;
        }
        std::thread::sleep(bounds::DRAIN_LOOKS);
    }
    match process.shared.recorder.metrics.requests_in_flight() {
        0 => info!("drained"),
        left => warn!("drain timeout: {left} requests are cut off after {timeout:?}"),
    }
}

/// Ends the requests in flight, and waits until each of them is recorded.
fn cut_off(process: &GatewayProcess) {
    process.shared.cut_off.end_connections();
    let start = clock::now();
    while process.shared.recorder.metrics.requests_in_flight() > 0
        && clock::since(start) < bounds::CUT_OFF
    {
        std::thread::sleep(bounds::DRAIN_LOOKS);
    }
}

/// Cuts off what is in flight, writes the buffered lines, sends the last spans, lines and metrics to the collector, and removes the
/// directories that end with the process.
pub(super) fn save_log(process: &GatewayProcess) {
    cut_off(process);
    process.lifecycle.clean_up();
    #[cfg(feature = "otlp")]
    flush_exports(process);
    if !process.shared.recorder.log.flush(bounds::LAST_LINES) {
        warn!("the access log hangs, its last lines are lost");
    }
    if !process.shared.recorder.audit.flush(bounds::LAST_LINES) {
        warn!("the audit log hangs, its last lines are lost");
    }
}

/// Waits, for all signals together at most [`bounds::LAST_EXPORTS`], until the collector has what it gets, the last sample of the metrics
/// included.
#[cfg(feature = "otlp")]
fn flush_exports(process: &GatewayProcess) {
    let collector = process.shared.snapshot().compiled.rules.collector.clone();
    let Some(collector) = collector else { return };
    if collector.sends(OtlpSignal::Metrics) {
        export_metrics(process);
    }
    let exports = &process.shared.recorder.exports;
    let queues = || {
        collector
            .signals
            .iter()
            .map(|signal| exports.queue(*signal))
    };
    // All at once: a signal that hangs takes no time from the others.
    queues().for_each(|queue| queue.wake());
    let start = clock::now();
    for queue in queues() {
        if !queue.flush(bounds::LAST_EXPORTS, || clock::since(start)) {
            let what = queue.what();
            warn!("otlp: the collector is unavailable, the last {what} are lost");
        }
    }
}
