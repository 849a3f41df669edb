//! Declares `[server]` and `[server.http2]`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use sluicegate_base::bounds::BODY_KEY_BYTES;
use sluicegate_config_derive::Table;

use crate::declaration::{DurationIn, IntegerIn, ReadBy, SizeIn};
use crate::field::KeyField;
use crate::form::ValueKind;
use crate::opened_paths;
use crate::rules::DefenceRules;

/// Longest timeout: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Shortest and longest wait for a client.
const CLIENT_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=LONGEST;
const MINUTE: Duration = Duration::from_secs(60);
/// Bytes of the path of a socket.
const LONGEST_SOCKET: usize = 96;
/// Largest body limit in bytes: 1 TiB.
pub(super) const LARGEST_BODY: u64 = 1 << 40;

/// The process, and the bounds that hold for every client and request.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Table)]
#[table(path = "server")]
pub struct ServerRules {
    /// Worker threads, 1 to 1024. Default: one for each core.
    #[key(
        example = "4",
        default = section.report.environment.cores(),
        reader = IntegerIn(1..=1024)
    )]
    pub threads: usize,
    /// The maximum time for which a stop waits for requests in flight. 0s to 1d.
    #[key(
        example = "\"30s\"",
        default = Duration::from_secs(30),
        reader = DurationIn(Duration::ZERO..=LONGEST)
    )]
    pub shutdown_timeout: Duration,
    /// The time for which an idle keep-alive connection of a client is kept. 1s to 1d.
    // Pingora counts it in whole seconds.
    #[key(example = "\"60s\"", default = MINUTE, reader = DurationIn(Duration::from_secs(1)..=LONGEST))]
    pub keepalive_timeout: Duration,
    /// The maximum time for which one read of a request's body waits for the client. 1ms to 1d.
    #[key(example = "\"60s\"", default = MINUTE, reader = DurationIn(CLIENT_WAIT))]
    pub client_read_timeout: Duration,
    /// The maximum time for which one write of a response waits for the client, and for which the client acknowledges nothing of what was
    /// sent, at least 1s for that. 1ms to 1d.
    #[key(example = "\"60s\"", default = MINUTE, reader = DurationIn(CLIENT_WAIT))]
    pub client_write_timeout: Duration,
    /// Maximum size of a request head, request line and header fields together. 1KiB to 1MiB.
    #[key(example = "\"32KiB\"", default = 32 << 10, reader = SizeIn(1 << 10..=1 << 20))]
    pub max_header_bytes: usize,
    /// Maximum number of header fields of a request. 1 to 256.
    #[key(example = "100", default = 100, reader = IntegerIn(1..=256))]
    pub max_headers: usize,
    /// Maximum size of a request body, 0B to 1TiB. A route can override it.
    #[key(example = "\"100MiB\"", default = 100 << 20, reader = SizeIn(0..=LARGEST_BODY))]
    pub max_body_bytes: u64,
    /// The directory in which counters survive a restart, an upgrade and `kill -9`. It is created if its parent exists; no other user may
    /// have write access. docs/operations/persistence.md says where to put it. Default: none; counters end with the process unless
    /// upgrade_socket hands them to a new one.
    #[key(example = "\"/var/lib/sluicegate/state\"", reader = ReadBy(state_dir, &[ValueKind::String]))]
    pub state_dir: Option<PathBuf>,
    /// The Unix socket over which a new process takes over the listeners (`sluicegate upgrade`). The gateway creates it, accessible to its
    /// own user and root only. Without a state_dir the counters are then in memory that is handed over with the listeners. At most 96
    /// bytes. Default: upgrade.sock in state_dir; without a state_dir there is no socket and no upgrade.
    #[key(example = "\"/run/sluicegate/upgrade.sock\"", reader = ReadBy(upgrade_socket, &[ValueKind::String]))]
    upgrade_socket: Option<PathBuf>,
    /// Maximum size of a request body that is read before the decision, where a key is in the body, 1B to 32KiB. A larger body is not read,
    /// and its keys are missing.
    #[key(
        example = "\"16KiB\"",
        default = 16 << 10,
        reader = SizeIn(1..=BODY_KEY_BYTES as u64)
    )]
    pub max_key_body_bytes: usize,
    /// The keys that bound what a client may do before a limit decides.
    #[part]
    pub defence: DefenceRules,
    /// The keys of `[server.http2]`.
    #[key(example = "{ max_streams = 128 }", nested)]
    pub http2: Http2Rules,
}

/// Limits of HTTP/2 on one client connection. Flow-control windows, resets and unfinished streams have fixed bounds;
/// docs/operations/protocols.md lists them.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "server.http2")]
pub struct Http2Rules {
    /// Requests at the same time, 1 to 1024.
    #[key(example = "128", default = 128, reader = IntegerIn(1..=1024))]
    pub max_streams: u32,
}

impl ServerRules {
    /// Returns the socket by which a new process takes over: listeners can be handed over where counters are. The key's own field is
    /// private, because it lacks that default.
    #[must_use]
    pub fn upgrade_socket(&self) -> Option<PathBuf> {
        let beside_counters = || Some(self.state_dir.as_ref()?.join("upgrade.sock"));
        self.upgrade_socket.clone().or_else(beside_counters)
    }
}

/// Reads the path of a directory.
fn state_dir(field: &KeyField<'_>) -> Option<PathBuf> {
    match field.text()? {
        path if path.is_empty() || path.contains('\0') => field.refuse(
            "this is not the path of a directory",
            "write one of its own, such as \"/var/lib/sluicegate/state\", or leave it out: counters then end with the process",
        ),
        path => opened_paths::state_folder(field, field.report.path(path)),
    }
}

/// Reads the path of a socket.
fn upgrade_socket(field: &KeyField<'_>) -> Option<PathBuf> {
    let text = field.text()?;
    let path = field.report.path(text);
    // unix(7): sun_path has 108 bytes with the final zero, and the socket is made beside the path, with a suffix.
    if text.is_empty() || text.contains('\0') || path.as_os_str().len() > LONGEST_SOCKET {
        return field.refuse(
            "this is not the path of a socket",
            format!(
                "write one of at most {LONGEST_SOCKET} bytes in a directory of the gateway's user, such as {}",
                field.example
            ),
        );
    }
    opened_paths::warn_of_socket(field, &path);
    Some(path)
}
