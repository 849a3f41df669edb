//! Implements the old process of an upgrade: hands its sockets and counters over, and starts the new process on request.
//!
//! # Concurrency
//! Each connection has a thread of its own, which may block: there are at most [`bounds::UPGRADE_CONVERSATIONS`], with this user
//! and with root. The progress is one [`UpgradeStage`] under one lock, so that there is one new process at a time.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use tokio::sync::Notify;
use tracing::{error, info, warn};

use super::connection_cap::ConnectionCap;
use super::handover;
use super::line::UpgradeChannel;
use super::{GATEWAYS, READS, START, TAKE, datagrams};
use crate::server::datagrams::DatagramListeners;
use crate::server::sockets::ListenerSockets;
use sluicegate_process::GatewayProcess;
use sluicegate_process::supervisor;

/// The old process's side of an upgrade.
pub(in crate::server) struct UpgradeServer {
    sockets: Arc<ListenerSockets>,
    datagrams: Arc<DatagramListeners>,
    process: Arc<GatewayProcess>,
    stage: Mutex<UpgradeStage>,
    handed_over: Notify,
    /// Connections of commands that requested an upgrade.
    commands: Arc<ConnectionCap>,
}

/// A new process that accepts.
struct ReadyProcess {
    process: i32,
    /// The addresses at which it is about to read datagrams.
    reads: Vec<SocketAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UpgradeStage {
    /// This process serves.
    Serving,
    /// A new process has the sockets and does not accept yet.
    HandingOver,
    /// The process with this id serves.
    HandedOver(i32),
    /// This process stops.
    Stopping,
}

/// The owner of the socket's path before this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum SocketClaim {
    /// No process, unless one answers there.
    IfUnanswered,
    /// The old process, which has handed over.
    FromOldProcess,
}

impl UpgradeServer {
    /// Makes the server of a process that serves on these sockets.
    pub(in crate::server) fn new(
        sockets: &Arc<ListenerSockets>,
        datagrams: &Arc<DatagramListeners>,
        process: &Arc<GatewayProcess>,
    ) -> Arc<Self> {
        Arc::new(Self {
            sockets: Arc::clone(sockets),
            datagrams: Arc::clone(datagrams),
            process: Arc::clone(process),
            stage: Mutex::new(UpgradeStage::Serving),
            handed_over: Notify::new(),
            commands: Arc::default(),
        })
    }

    /// Waits until a new process has taken over.
    pub(in crate::server) async fn handed_over(&self) {
        self.handed_over.notified().await;
    }

    /// Forbids further handovers.
    pub(in crate::server) fn stop(&self) {
        let mut stage = self.stage();
        if !matches!(*stage, UpgradeStage::HandedOver(_)) {
            *stage = UpgradeStage::Stopping;
        }
    }

    /// Returns whether no new process has taken over, or is about to.
    pub(in crate::server) fn is_serving(&self) -> bool {
        *self.stage() == UpgradeStage::Serving
    }

    /// Waits a moment until the commands that requested the upgrade have read the result: a process that has nothing to drain ends
    /// at once.
    pub(in crate::server) fn wait_for_commands(&self) {
        let began = clock::now();
        while self.commands.open() > 0 && clock::since(began) < bounds::DRAIN_IDLE {
            std::thread::sleep(bounds::DRAIN_LOOKS);
        }
    }

    fn stage(&self) -> MutexGuard<'_, UpgradeStage> {
        // It is replaced as a whole, so a poisoned lock still holds one.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve_connection(&self, stream: UnixStream) {
        let Ok(mut lines) = UpgradeChannel::over(stream, bounds::UPGRADE_PATIENCE) else {
            return;
        };
        match lines.receive_line().as_deref() {
            Ok(TAKE) => self.hand_over(&mut lines),
            Ok(START) => {
                let _open = self.commands.enter();
                let result = match self.start(&mut lines) {
                    Ok(new_process) => format!("done {new_process}"),
                    Err(reason) => {
                        error!("upgrade failed: {reason}; this process continues");
                        format!("failed {reason}")
                    }
                };
                // The command may have left; the log has the result too.
                let _ = lines.send_line(&result);
            }
            // Another version, which understands this line.
            Ok(_) => drop(lines.send_line("failed this gateway speaks version 1 of the hand-over")),
            // A connection that only tested whether a process answers.
            Err(_) => {}
        }
    }

    fn hand_over(&self, lines: &mut UpgradeChannel) {
        {
            let mut stage = self.stage();
            let refusal = match *stage {
                UpgradeStage::Serving => None,
                UpgradeStage::HandingOver => Some("another new process is about to take over"),
                UpgradeStage::HandedOver(_) => Some("another new process has taken over"),
                UpgradeStage::Stopping => Some("the gateway is stopping"),
            };
            if let Some(refusal) = refusal {
                return drop(lines.send_line(refusal));
            }
            *stage = UpgradeStage::HandingOver;
        }
        info!("upgrade: a new process is taking over the listeners");
        let offered = self.offer(lines);
        let mut stage = self.stage();
        if *stage == UpgradeStage::Stopping {
            return;
        }
        // Commits under the lock, so that a stop comes before or after. Invariant 1: up to here this process accepts.
        let accepted = offered.and_then(|ready| {
            supervisor::main_process(ready.process.unsigned_abs());
            lines.send_line("yours")?;
            Ok(ready)
        });
        match accepted {
            Ok(ReadyProcess {
                process: new_process,
                reads,
            }) => {
                for address in reads {
                    self.datagrams.hand_over(address);
                }
                info!("upgrade: process {new_process} has taken over, this one drains");
                *stage = UpgradeStage::HandedOver(new_process);
                drop(stage);
                self.handed_over.notify_one();
            }
            Err(cause) => {
                *stage = UpgradeStage::Serving;
                drop(stage);
                supervisor::main_process(std::process::id());
                error!(
                    "upgrade failed: the new process did not take over, this process continues: {cause}"
                );
            }
        }
    }

    /// Passes the sockets and the counters, and waits until the new process accepts.
    fn offer(&self, lines: &mut UpgradeChannel) -> io::Result<ReadyProcess> {
        for (address, socket) in self.sockets.duplicates()? {
            lines.send_with_descriptor(&format!("listener {address}"), &socket)?;
        }
        if let Some(handover) = self.datagrams.handover()? {
            datagrams::send(lines, &handover)?;
        }
        if let Some(counters) = self.process.reloader.storage.handover()? {
            handover::send(lines, &counters)?;
        }
        if let Some(store) = &self.process.shared.snapshot().store {
            lines.send_line(&format!("{GATEWAYS}{}", store.nodes()))?;
        }
        lines.send_line("end")?;
        wait_until_ready(lines).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("it ended before it was ready"),
            _ => error,
        })
    }

    /// Starts the requested process, and waits for its result. Returns its process id.
    fn start(&self, lines: &mut UpgradeChannel) -> Result<i32, String> {
        let (program, configuration) = lines
            .receive_line()
            .and_then(|program| Ok((program, lines.receive_line()?)))
            .map_err(|error| error.to_string())?;
        if *self.stage() != UpgradeStage::Serving {
            return Err("the gateway stops, or hands over already".to_owned());
        }
        info!("upgrade: starting {program} with {configuration}");
        let child = Command::new(&program)
            .args(["run", "--upgrade", "--config", &configuration])
            // The watchdog is bound to the main process, which the new one will be.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        self.wait_for_takeover(child)
    }

    fn wait_for_takeover(&self, mut child: Child) -> Result<i32, String> {
        let began = clock::now();
        loop {
            if let UpgradeStage::HandedOver(new_process) = *self.stage() {
                // This process ends before its child, which init then waits for.
                return Ok(new_process);
            }
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return Err(format!(
                        "the new process ended ({status}), its messages are in the log of the gateway"
                    ));
                }
                Err(error) => return Err(format!("the new process cannot be watched: {error}")),
            }
            if clock::since(began) >= bounds::UPGRADE_PATIENCE {
                // Both fail only for a process that has ended.
                let _ = child.kill();
                let _ = child.wait();
                let patience = bounds::UPGRADE_PATIENCE;
                return Err(format!("the new process was not ready after {patience:?}"));
            }
            std::thread::sleep(bounds::DRAIN_LOOKS);
        }
    }
}

/// Reads what a new process says that begins to accept.
fn wait_until_ready(lines: &mut UpgradeChannel) -> io::Result<ReadyProcess> {
    let mut reads = Vec::new();
    loop {
        let line = lines.receive_line()?;
        let address = line.strip_prefix(READS);
        match address.and_then(|address| address.parse().ok()) {
            Some(address) => reads.push(address),
            None if line == "ready" => {
                let process = lines.peer()?;
                return Ok(ReadyProcess { process, reads });
            }
            None => return Err(io::Error::other(line)),
        }
    }
}

/// Answers at `path` for the rest of the process. Where that is impossible, it logs so and upgrades are unavailable: the gateway
/// still serves.
pub(in crate::server) fn serve(path: &Path, claim: SocketClaim, server: &Arc<UpgradeServer>) {
    let listener = match listen(path, claim) {
        Ok(listener) => listener,
        Err(error) => {
            return warn!(
                "upgrade socket unavailable: cannot listen on {}: {error}",
                path.display()
            );
        }
    };
    let server = Arc::clone(server);
    let turns = Arc::new(());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors, perhaps: the next try may succeed.
                std::thread::sleep(bounds::DRAIN_LOOKS);
                continue;
            };
            if Arc::strong_count(&turns) > bounds::UPGRADE_CONVERSATIONS || !is_trusted(&stream) {
                continue;
            }
            let server = Arc::clone(&server);
            let turn = Arc::clone(&turns);
            std::thread::spawn(move || {
                server.serve_connection(stream);
                drop(turn);
            });
        }
    });
}

/// Binds a temporary path and renames it, so that the path always has a listener.
fn listen(path: &Path, claim: SocketClaim) -> io::Result<UnixListener> {
    if claim == SocketClaim::IfUnanswered && UnixStream::connect(path).is_ok() {
        let message = "another gateway answers there; give each a path of its own";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    // Left behind by a process that had this id.
    let _ = std::fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&temporary, path)?;
    Ok(listener)
}

/// Returns whether the other end is this user or root: a peer here decides which program this user runs.
fn is_trusted(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
}
