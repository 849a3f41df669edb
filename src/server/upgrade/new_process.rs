//! Implements the new process of an upgrade: takes the sockets and the counters over, and reports to the old process when it
//! accepts.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::path::Path;

use sluicegate_base::bounds;
use sluicegate_decide::state::CounterHandover;

use super::datagrams::DatagramsReader;
use super::handover::HandoverReader;
use super::line::UpgradeChannel;
use super::{GATEWAYS, READS, TAKE};
use crate::server::datagrams::DatagramHandover;
use crate::server::sockets::ListenerMap;
use crate::server::start_error::StartError;

/// A handover that has begun.
pub(in crate::server) struct PendingTakeover(UpgradeChannel);

/// The state that the old process handed over.
pub(in crate::server) struct InheritedState {
    pub(in crate::server) sockets: ListenerMap,
    /// Its sockets of HTTP/3; `None` where it does not speak it.
    pub(in crate::server) datagrams: Option<DatagramHandover>,
    /// Its counters; `None` where they are in a directory.
    pub(in crate::server) counters: Option<CounterHandover>,
    /// The number of gateways that share its store; `None` where it has none.
    pub(in crate::server) gateways: Option<NonZeroU32>,
}

impl PendingTakeover {
    /// Requests the handover from the old process at `path`.
    ///
    /// # Errors
    /// There is no such process, or it hands nothing over.
    pub(in crate::server) fn begin(path: &Path) -> Result<(Self, InheritedState), StartError> {
        let failed = |cause| StartError::Takeover(path.to_owned(), cause);
        let stream = UnixStream::connect(path).map_err(failed)?;
        let mut lines = UpgradeChannel::over(stream, bounds::UPGRADE_PATIENCE).map_err(failed)?;
        lines.send_line(TAKE).map_err(failed)?;
        let inherited = receive(&mut lines).map_err(failed)?;
        Ok((Self(lines), inherited))
    }

    /// Reports that every listener accepts, and that this process is about to read datagrams at these addresses; waits for the old process
    /// to drain.
    ///
    /// # Errors
    /// The old process does not drain: then it continues, and this process must end.
    pub(in crate::server) fn complete(
        mut self,
        datagrams: impl IntoIterator<Item = SocketAddr>,
    ) -> io::Result<()> {
        for address in datagrams {
            self.0.send_line(&format!("{READS}{address}"))?;
        }
        self.0.send_line("ready")?;
        match self.0.receive_line()?.as_str() {
            "yours" => Ok(()),
            other => Err(io::Error::other(other.to_owned())),
        }
    }
}

fn receive(lines: &mut UpgradeChannel) -> io::Result<InheritedState> {
    let mut sockets = ListenerMap::new();
    let mut received = HandoverReader::default();
    let mut datagrams = DatagramsReader::default();
    let mut gateways = None;
    loop {
        let line = lines.receive_line()?;
        if received.take(&line, lines)? || datagrams.take(&line, lines)? {
            continue;
        }
        if let Some(number) = line.strip_prefix(GATEWAYS) {
            gateways = number.parse().ok();
            continue;
        }
        let address = line.strip_prefix("listener ");
        match address.and_then(|address| address.parse::<SocketAddr>().ok()) {
            Some(address) => {
                let socket = lines
                    .descriptor()
                    .ok_or_else(|| io::Error::other(format!("no socket came with {address}")))?;
                sockets.insert(address, TcpListener::from(socket));
            }
            None if line == "end" => {
                return Ok(InheritedState {
                    sockets,
                    datagrams: datagrams.whole(),
                    counters: received.whole(),
                    gateways,
                });
            }
            None => return Err(io::Error::other(line)),
        }
    }
}
