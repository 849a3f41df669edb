//! Builds the Pingora server, the only file that does: listeners, services, drain.

mod activation;
mod admin_app;
mod announce;
mod datagrams;
mod drain;
mod opening;
mod room;
mod signals;
mod sockets;
mod start_error;
mod tasks;
pub mod upgrade;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownSignal, ShutdownSignalWatch};
use sluicegate_base::bounds;
use sluicegate_decide::state::{CounterHandover, CounterStorage, PersistenceMode};
use tokio::sync::{Notify, watch};
use tracing::{error, info, warn};

use self::admin_app::AdminApp;
use self::announce::announce;
use self::datagrams::DatagramListeners;
use self::drain::{exit_when_drained, save_log};
use self::opening::{AllListening, CloseWhen, ListenerPlan, ListenerStartup};
use self::room::log_room;
pub use self::room::shortage;
use self::signals::{ProcessSignals, SignalTargets, UpgradePolicy};
pub use self::sockets::try_binding;
use self::sockets::{ListenerMap, ListenerSockets};
pub(crate) use self::start_error::NO_UPGRADE_SOCKET;
pub use self::start_error::StartError;
use self::upgrade::{InheritedState, PendingTakeover, SocketClaim, UpgradeServer};
use crate::config::MemoryPlan;
use crate::config::rules::Rules;
use sluicegate_budgets::{OpenFiles, OwnFiles};
use sluicegate_decide::admission::KeySeed;
use sluicegate_edge::listener::Intake;
use sluicegate_history::MarkKind;
use sluicegate_process::supervisor;
use sluicegate_process::{GatewayProcess, Phase};
use sluicegate_record::{AccessLog, AuditLog, RequestMetrics, RequestRecorder};

/// The source of a gateway's listening sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// It binds them, or gets them from the service manager.
    Alone,
    /// It takes them over from the running gateway.
    Takeover,
}

/// Runs the gateway with `rules` from `file` until a signal, or an upgrade, ends it.
///
/// # Errors
/// It cannot start; the gateway that it should replace then continues. The process ends by itself, so there is no other return.
pub fn run(file: &Path, rules: Rules, begin: StartMode) -> Result<Infallible, StartError> {
    check_files(&rules)?;
    let log = AccessLog::start(&rules.log).map_err(StartError::AccessLog)?;
    let audit = AuditLog::start(&rules.log).map_err(StartError::AuditLog)?;
    let metrics = Arc::new(RequestMetrics::new());
    let extras = ServerExtras {
        scratch: None,
        add_services: |_: &mut Server| {},
    };
    serve(
        file,
        rules,
        RequestRecorder::new(metrics, log).with_audit(audit),
        begin,
        extras,
    )
}

/// Checks that the process may open the descriptors that it needs. Call it before anything is opened, since a later failure for
/// lack of a descriptor is hard to understand.
fn check_files(rules: &Rules) -> Result<(), StartError> {
    OpenFiles::raise()
        .suffice(OwnFiles::new(rules))
        .map_err(StartError::FewFiles)
}

/// The additions of a caller to a gateway.
pub struct ServerExtras<A> {
    /// A directory that is removed at the end of the process.
    pub scratch: Option<PathBuf>,
    /// Adds services.
    pub add_services: A,
}

/// Runs the gateway as [`run`] does, with a recorder and further services of the caller.
///
/// # Errors
/// It cannot start.
pub fn serve(
    file: &Path,
    rules: Rules,
    recorder: RequestRecorder,
    begin: StartMode,
    extras: ServerExtras<impl FnOnce(&mut Server)>,
) -> Result<Infallible, StartError> {
    check_files(&rules)?;
    let upgrade_socket = rules.server.upgrade_socket();
    // The handover needs descriptors.
    let files = OpenFiles::raise();
    let (takeover, inherited) = inherit(begin, &rules)?;
    let InheritedState {
        sockets,
        datagrams,
        counters,
        gateways,
    } = inherited;
    // A start that waits for the old process can be interrupted; from here on something is open.
    let signals = ProcessSignals::listen().map_err(StartError::Signals)?;
    let sockets = Arc::new(open_sockets(&rules, sockets)?);
    let datagrams = DatagramListeners::open(&rules, datagrams)?;
    // Before the first reading of the time: counters that continue have a clock of their own.
    let (storage, seed) =
        CounterStorage::open(lasting(&rules, begin, counters)).map_err(StartError::Counters)?;
    let storage = storage.with_known_gateways(gateways);
    let seed = KeySeed::from_seed(seed);
    let process = GatewayProcess::new(file, rules, recorder, storage, seed, files);
    process.reloader.storage.settle();
    let process = Arc::new(process);
    let listening = Arc::clone(&sockets);
    process.reloader.follow(move |rules| {
        listening.bound_unacknowledged(rules.server.client_write_timeout);
    });
    if let Some(directory) = extras.scratch {
        process.lifecycle.remove_at_end(directory);
    }

    let reload = Arc::new(Notify::new());
    // Whatever runs as long as the server takes no snapshot: it would keep the first configuration's tables and connections alive.
    let conf = configuration(&process.shared.snapshot().compiled.rules);
    let mut server = Server::new_with_opt_and_conf(None, conf);
    let mut opening = ListenerStartup::new(&sockets);
    // This process answers probes and scrapes while it drains, unless a new process has taken over.
    let (retire, retired) = watch::channel(false);
    // Pingora drops its services before it ends; a listener whose channel is dropped would close.
    let unretired = retire.clone();
    datagrams.add_services(&mut server, &mut opening, &process);
    add_listeners(&mut server, &mut opening, &process, retired);
    tasks::add(&mut server, &process, &reload);
    (extras.add_services)(&mut server);

    let upgrade_server = UpgradeServer::new(&sockets, &datagrams, &process);
    let (tell_opened, opened) = watch::channel(false);
    let drain = Arc::new(Notify::new());
    signals.obey(SignalTargets {
        process: Arc::clone(&process),
        upgrade_server: Arc::clone(&upgrade_server),
        upgrades: match upgrade_socket {
            Some(_) => UpgradePolicy::Possible,
            None => UpgradePolicy::Impossible,
        },
        reload,
        drain: Arc::clone(&drain),
    });
    let start = StartTask {
        process: Arc::clone(&process),
        takeover,
        upgrade_socket,
        upgrade_server: Arc::clone(&upgrade_server),
        datagrams,
        tell_opened,
    };
    start.complete(opening.complete());
    let stop = StopTask {
        process: Arc::clone(&process),
        sockets,
        upgrade_server: Arc::clone(&upgrade_server),
        drain,
        opened,
        retire,
    };
    exit_when_drained(&server, Arc::clone(&process), upgrade_server);
    log_start(file, files, &process);
    run_to_end(server, stop, &process);
    drop(unretired);
    std::process::exit(0)
}

/// Runs the server. Signals and upgrades end the process meanwhile; the rest is for a server that ends by itself.
fn run_to_end(server: Server, stop: StopTask, process: &GatewayProcess) {
    server.run(RunArgs {
        shutdown_signal: Box::new(stop),
    });
    save_log(process);
}

/// Takes the sockets and counters that a service manager or the old process hands over, and the takeover that is to be completed.
fn inherit(
    begin: StartMode,
    rules: &Rules,
) -> Result<(Option<PendingTakeover>, InheritedState), StartError> {
    match begin {
        StartMode::Alone => {
            let sockets = activation::sockets().map_err(StartError::Activation)?;
            activation::tell_unused(&sockets, rules);
            let inherited = InheritedState {
                sockets,
                datagrams: None,
                counters: None,
                gateways: None,
            };
            Ok((None, inherited))
        }
        StartMode::Takeover => {
            let path = rules.server.upgrade_socket();
            let (takeover, inherited) =
                PendingTakeover::begin(&path.ok_or(StartError::NoUpgradeSocket)?)?;
            Ok((Some(takeover), inherited))
        }
    }
}

/// Opens the sockets of all listeners that `inherited` does not have.
fn open_sockets(rules: &Rules, inherited: ListenerMap) -> Result<ListenerSockets, StartError> {
    let addresses = rules.listeners.iter().map(|listener| listener.address);
    let addresses = addresses.chain(rules.admin.address);
    let write_timeout = rules.server.client_write_timeout;
    ListenerSockets::open(addresses, inherited, write_timeout).map_err(|error| match error {
        StartError::Bind(address, cause) if Some(address) == rules.admin.address => {
            StartError::Admin(address, cause)
        }
        other => other,
    })
}

/// Adds a service for each listener; that of the operator closes when it is `retired`.
fn add_listeners(
    server: &mut Server,
    opening: &mut ListenerStartup,
    process: &Arc<GatewayProcess>,
    retired: watch::Receiver<bool>,
) {
    let snapshot = process.shared.snapshot();
    let rules = &snapshot.compiled.rules;
    for listener in &rules.listeners {
        let address = listener.address;
        let plan = ListenerPlan {
            name: format!("gateway {address}"),
            address,
            threads: None,
            closes: CloseWhen::AtDrain,
        };
        // Each has an intake of its own, which knows its address and thereby its protocols.
        let intake = Intake::new(Arc::clone(&process.shared), address);
        server.add_service(opening.add(plan, intake));
    }
    if let Some(address) = rules.admin.address {
        let plan = ListenerPlan {
            name: "admin".to_owned(),
            address,
            // One, so that a scrape never takes a thread from requests.
            threads: Some(1),
            closes: CloseWhen::When(retired),
        };
        let admin = AdminApp::new(Arc::clone(process));
        server.add_service(opening.add(plan, admin));
    }
}

/// Logs the addresses, how many connections and requests there is room for, and the memory that the configuration takes at most.
fn log_start(file: &Path, files: OpenFiles, process: &GatewayProcess) {
    let snapshot = process.shared.snapshot();
    let rules = &snapshot.compiled.rules;
    announce(file, rules);
    let connections = process
        .shared
        .connection_limiter
        .caps(&rules.server.defence);
    let requests = process.shared.origin_requests.caps(rules);
    log_room(files, rules, connections, requests);
    let memory = MemoryPlan::new(rules);
    info!("memory: {memory}");
    if let Some(warning) = memory.warning() {
        warn!("{warning}");
    }
}

/// Returns the persistence of counters that the operator configured; logs a warning where it drops the old process's counters.
fn lasting(
    rules: &Rules,
    begin: StartMode,
    counters: Option<CounterHandover>,
) -> PersistenceMode<'_> {
    match (&rules.server.state_dir, rules.server.upgrade_socket()) {
        (Some(path), _) => {
            if counters.is_some() {
                warn!(
                    "upgrade: counters and bans continue from {}; those of the old process were in its memory",
                    path.display()
                );
            }
            PersistenceMode::Directory(path)
        }
        (None, Some(_)) => {
            if begin == StartMode::Takeover && counters.is_none() {
                warn!(
                    "upgrade: counters and bans start empty; those of the old process are in its [server] state_dir"
                );
            }
            PersistenceMode::Upgrades(counters)
        }
        (None, None) => PersistenceMode::Process,
    }
}

/// The task that runs once every listener accepts.
struct StartTask {
    process: Arc<GatewayProcess>,
    takeover: Option<PendingTakeover>,
    upgrade_socket: Option<PathBuf>,
    upgrade_server: Arc<UpgradeServer>,
    datagrams: Arc<DatagramListeners>,
    tell_opened: watch::Sender<bool>,
}

impl StartTask {
    /// Turns `/readyz` to 200 once every listener accepts, and completes the upgrade. Datagrams are read from then on.
    fn complete(self, opened: AllListening) {
        std::thread::spawn(move || {
            if opened.wait().is_err() {
                error!("a listener failed to start");
                std::process::exit(1);
            }
            self.process.lifecycle.enter(Phase::Serving);
            self.tell_opened.send_replace(true);
            let mark = match self.takeover {
                Some(_) => MarkKind::Upgrade,
                None => MarkKind::Start,
            };
            let version = env!("CARGO_PKG_VERSION");
            let text = format!("Sluicegate {version} serves.");
            self.process.shared.mark(mark, "", &text);
            let complete =
                |takeover: PendingTakeover| takeover.complete(self.datagrams.addresses());
            let claim = match self.takeover.map(complete) {
                None => SocketClaim::IfUnanswered,
                Some(Ok(())) => {
                    info!("upgrade: took over from the old process");
                    SocketClaim::FromOldProcess
                }
                Some(Err(cause)) => {
                    // Invariant 2 of the handover: the old process continues.
                    error!("upgrade failed: the old process continues: {cause}");
                    save_log(&self.process);
                    std::process::exit(1);
                }
            };
            self.datagrams.read();
            if let Some(path) = &self.upgrade_socket {
                upgrade::serve(path, claim, &self.upgrade_server);
            }
            supervisor::ready("serving");
        });
    }
}

/// Returns Pingora's settings of the process.
fn configuration(rules: &Rules) -> ServerConf {
    ServerConf {
        threads: rules.server.threads,
        // Measured: one runtime a thread without stealing costs 5–10 % less CPU a request.
        work_stealing: false,
        // One thread fires Pingora's own timers for all threads, and each wait for an origin locks and fetches their shared
        // state. A timer of tokio belongs to the thread that waits.
        fast_timeout_to_tokio_threshold_seconds: Some(0),
        // The drain below ends the process earlier, as soon as nothing is in flight.
        grace_period_seconds: Some(bounds::LONGEST_DRAIN.as_secs()),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    }
}

/// Ends the process when a signal asks for a drain, or a new process has taken over.
struct StopTask {
    process: Arc<GatewayProcess>,
    sockets: Arc<ListenerSockets>,
    upgrade_server: Arc<UpgradeServer>,
    drain: Arc<Notify>,
    opened: watch::Receiver<bool>,
    retire: watch::Sender<bool>,
}

#[async_trait]
impl ShutdownSignalWatch for StopTask {
    async fn recv(&self) -> ShutdownSignal {
        tokio::select! {
            () = self.drain.notified() => {}
            () = self.upgrade_server.handed_over() => {
                // The receiver is dropped if the admin listener failed.
                let _ = self.retire.send(true);
            }
        }
        // A listener that is just being opened would find its socket closed. A start that fails ends the process itself.
        let _ = self.opened.clone().wait_for(|opened| *opened).await;
        self.process.lifecycle.enter(Phase::Draining);
        let shared = &self.process.shared;
        shared.mark(MarkKind::Drain, "", "The gateway drains.");
        self.sockets.close();
        ShutdownSignal::GracefulTerminate
    }
}
