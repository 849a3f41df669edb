//! Builds the Pingora server, the only file that does: listeners, services, drain.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use log::{info, warn};
use pingora::apps::HttpServerOptions;
use pingora::listeners::Listeners;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{
    ExecutionPhase, RunArgs, Server, ShutdownSignal, ShutdownSignalWatch, UnixShutdownSignalWatch,
};
use pingora::services::background::background_service;
use pingora::services::listening::Service;

use crate::acme::Renewals;
use crate::admission::KeySeed;
use crate::bounds;
use crate::clock;
use crate::config::rules::Rules;
use crate::config::watch::Reloads;
use crate::gateway::Gateway;
use crate::listener::{AdminDesk, Intake, reachable};
use crate::live::{Live, Phase};
use crate::origin::HealthChecks;
use crate::record::{AccessLog, Metrics, Recorder};
use crate::state::{Home, HomeError, Keeper};
use crate::store::Syncs;

/// Why the gateway could not start.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Bind(SocketAddr, std::io::Error),
    /// The access log cannot be opened.
    AccessLog(std::io::Error),
    /// There is no home for counters.
    Home(HomeError),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bind(address, cause) => write!(f, "cannot listen on {address}: {cause}"),
            Self::AccessLog(cause) => write!(f, "cannot open the access log: {cause}"),
            Self::Home(cause) => cause.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// Runs the gateway with `rules` from `file` until a signal ends it.
///
/// # Errors
/// When it cannot start; nothing was listened on then. A signal ends the process, so there is no other return.
pub fn run(file: &Path, rules: Rules) -> Result<Infallible, StartError> {
    let log = AccessLog::start(&rules.log.access).map_err(StartError::AccessLog)?;
    let metrics = Arc::new(Metrics::new());
    let recorder = Recorder { metrics, log };
    serve(file, rules, recorder, |_| {})
}

/// As [`run`], with a recorder and further services of the caller's.
///
/// # Errors
/// When it cannot start.
pub fn serve(
    file: &Path,
    rules: Rules,
    recorder: Recorder,
    add_services: impl FnOnce(&mut Server),
) -> Result<Infallible, StartError> {
    let addresses = rules.listeners.iter().map(|listener| listener.address);
    for address in addresses.chain([rules.admin.address]) {
        probe(address)?;
    }
    // Before anything asks what time it is: a state directory has a clock of its own.
    let (home, seed) = Home::open(rules.server.state_dir.as_deref()).map_err(StartError::Home)?;
    let seed = KeySeed::from_seed(seed);
    let live = Arc::new(Live::new(file, rules, recorder, home, seed));
    let snapshot = live.snapshot();
    let rules = &snapshot.rules;

    let mut server = Server::new_with_opt_and_conf(None, configuration(rules));
    let conf = Arc::clone(&server.configuration);
    for listener in &rules.listeners {
        server.add_service(gateway_at(listener.address, &live, &conf));
    }
    server.add_service(AdminDesk::service(&live, rules.admin.address));
    server.add_service(background_service("reload", Reloads(Arc::clone(&live))));
    server.add_service(background_service(
        "health",
        HealthChecks(Arc::clone(&live)),
    ));
    server.add_service(background_service("state", Keeper(Arc::clone(&live))));
    server.add_service(background_service("sync", Syncs(Arc::clone(&live))));
    server.add_service(background_service("acme", Renewals::new(Arc::clone(&live))));

    add_services(&mut server);

    serve_when_listening(&live);
    exit_when_drained(&server, Arc::clone(&live));
    for listener in &rules.listeners {
        info!("listening on {}", listener.address);
    }
    info!("admin on {}", rules.admin.address);
    // The server runs for ever: kept here, the first configuration's tables and connections would never go.
    drop(snapshot);
    server.run(RunArgs {
        shutdown_signal: Box::new(Stop(Arc::clone(&live))),
    });
    // Both signals end the process while the server runs; what follows is for a server that ends by itself.
    save_log(&live);
    std::process::exit(0)
}

/// Fails early and clearly where Pingora would retry for half a minute and panic.
fn probe(address: SocketAddr) -> Result<(), StartError> {
    TcpListener::bind(address)
        .map(drop)
        .map_err(|cause| StartError::Bind(address, cause))
}

/// Turns `/readyz` to 200 once every listener accepts. Pingora does not tell, so a connection to each does.
fn serve_when_listening(live: &Arc<Live>) {
    const POLL: Duration = Duration::from_millis(5);
    let live = Arc::clone(live);
    std::thread::spawn(move || {
        for listener in &live.snapshot().rules.listeners {
            while TcpStream::connect(reachable(listener.address)).is_err()
                && live.phase() == Phase::Starting
            {
                std::thread::sleep(POLL);
            }
        }
        live.enter(Phase::Serving);
    });
}

fn configuration(rules: &Rules) -> ServerConf {
    ServerConf {
        threads: rules.server.threads,
        // Measured: one runtime a thread without stealing costs 5–10 % less CPU a request.
        work_stealing: false,
        upstream_keepalive_pool_size: bounds::ORIGIN_IDLE_CONNECTIONS,
        max_retries: usize::from(bounds::MAX_TRIES),
        // The drain below ends the process earlier, as soon as nothing is in flight.
        grace_period_seconds: Some(bounds::LONGEST_DRAIN.as_secs()),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    }
}

/// The service of one listener. Each has an intake of its own, which knows its address and thereby what is spoken there.
fn gateway_at(address: SocketAddr, live: &Arc<Live>, conf: &Arc<ServerConf>) -> Service<Intake> {
    let mut proxy = http_proxy(conf, Gateway(Arc::clone(live), address));
    proxy.server_options = Some(server_options(&live.snapshot().rules));
    let mut listeners = Listeners::new();
    listeners.add_tcp(&address.to_string());
    let intake = Intake::new(Arc::clone(live), address, proxy);
    Service::with_listeners(format!("gateway {address}"), listeners, intake)
}

fn server_options(rules: &Rules) -> HttpServerOptions {
    let mut options = HttpServerOptions::default();
    // Whether a connection may speak HTTP/2 is the intake's question, by the listener and the configuration in force.
    options.h2c = true;
    options.h2_idle_timeout = Some(rules.server.keepalive_timeout);
    options
}

/// SIGTERM drains, SIGINT stops at once. SIGQUIT, Pingora's upgrade, drains too: there is no successor to hand over to.
struct Stop(Arc<Live>);

#[async_trait]
impl ShutdownSignalWatch for Stop {
    async fn recv(&self) -> ShutdownSignal {
        match UnixShutdownSignalWatch.recv().await {
            ShutdownSignal::FastShutdown => {
                info!("SIGINT: stopping");
                save_log(&self.0);
                // Returning would drop the runtimes under Pingora's accept loops, which then spin on errors, sometimes for ever.
                std::process::exit(0)
            }
            ShutdownSignal::GracefulTerminate | ShutdownSignal::GracefulUpgrade => {
                info!("SIGTERM: draining");
                self.0.enter(Phase::Draining);
                ShutdownSignal::GracefulTerminate
            }
        }
    }
}

/// Pingora sleeps its whole grace period; this ends the process as soon as the last request is done, or at the timeout.
fn exit_when_drained(server: &Server, live: Arc<Live>) {
    const POLL: Duration = Duration::from_millis(10);
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
        let start = clock::now();
        let timeout = live.snapshot().rules.server.shutdown_timeout;
        // A request whose head is just being read is not counted yet; two quiet looks in a row let it enter.
        let mut quiet = 0;
        while quiet < 2 && clock::since(start) < timeout {
            quiet = if live.recorder.metrics.requests_in_flight() == 0 {
                quiet + 1
            } else {
                0
            };
            std::thread::sleep(POLL);
        }
        match live.recorder.metrics.requests_in_flight() {
            0 => info!("drained"),
            left => warn!("{left} requests are cut off after {timeout:?}"),
        }
        save_log(&live);
        std::process::exit(0);
    });
}

/// Writes the lines that are still buffered.
fn save_log(live: &Live) {
    if !live.recorder.log.flush(bounds::LAST_LINES) {
        warn!("the access log hangs, its last lines are lost");
    }
}
