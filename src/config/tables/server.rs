//! `[server]`: the process.

use std::path::PathBuf;
use std::time::Duration;

use crate::bounds::BODY_KEY_BYTES;
use crate::config::field::Field;
use crate::config::rules::{DefenceRules, Http2Rules, ServerRules};
use crate::config::section::Section;

/// Longest timeout: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Bytes of the path of a socket.
const LONGEST_SOCKET: usize = 96;
/// Largest body limit in bytes: 1 TiB.
pub(super) const LARGEST_BODY: u64 = 1 << 40;

/// Reads the table.
pub(in crate::config) fn read(section: Section<'_>) -> Option<ServerRules> {
    let short = Duration::from_millis(1)..=LONGEST;
    let seconds = |secs| Duration::from_secs(secs);
    let cores = section.report.environment.cores();
    let threads = section.or("threads", "4", cores, |field| {
        field
            .integer(1..=1024)
            .and_then(|count| usize::try_from(count).ok())
    });
    let shutdown_timeout = section.or("shutdown_timeout", "\"30s\"", seconds(30), |field| {
        field.duration(Duration::ZERO..=LONGEST)
    });
    let keepalive_timeout = section.or("keepalive_timeout", "\"60s\"", seconds(60), |field| {
        // Pingora counts it in whole seconds.
        field.duration(seconds(1)..=LONGEST)
    });
    let client_read_timeout = section.or("client_read_timeout", "\"60s\"", seconds(60), |field| {
        field.duration(short.clone())
    });
    let client_write_timeout =
        section.or("client_write_timeout", "\"60s\"", seconds(60), |field| {
            field.duration(short.clone())
        });
    let max_header_bytes = section.or("max_header_bytes", "\"32KiB\"", 32 << 10, |field| {
        field
            .size(1 << 10..=1 << 20)
            .and_then(|size| usize::try_from(size).ok())
    });
    let max_headers = section.or("max_headers", "100", 100, |field| {
        field
            .integer(1..=256)
            .and_then(|count| usize::try_from(count).ok())
    });
    let max_body_bytes = section.or("max_body_bytes", "\"100MiB\"", 100 << 20, |field| {
        field.size(0..=LARGEST_BODY)
    });
    let state_dir = section.optional("state_dir", "\"/var/lib/sluicegate/state\"", |field| {
        state_dir(field)
    });
    let upgrade_socket = section.or(
        "upgrade_socket",
        "\"/run/sluicegate/upgrade.sock\"",
        None,
        |field| upgrade_socket(field).map(Some),
    );
    let body_key_bytes = section.or("max_key_body_bytes", "\"16KiB\"", 16 << 10, |field| {
        field
            .size(1..=BODY_KEY_BYTES as u64)
            .and_then(|size| usize::try_from(size).ok())
    });
    let defence = DefenceRules::read_keys(&section);
    let http2 = http2(section.section("http2", "{ max_streams = 128 }"));
    section.finish();
    let state_dir = state_dir?;
    // Where counters are handed over, so can be listeners.
    let beside_counters = state_dir.as_ref().map(|path| path.join("upgrade.sock"));
    Some(ServerRules {
        threads: threads?,
        shutdown_timeout: shutdown_timeout?,
        keepalive_timeout: keepalive_timeout?,
        client_read_timeout: client_read_timeout?,
        client_write_timeout: client_write_timeout?,
        max_header_bytes: max_header_bytes?,
        max_headers: max_headers?,
        max_body_bytes: max_body_bytes?,
        state_dir,
        upgrade_socket: upgrade_socket?.or(beside_counters),
        body_key_bytes: body_key_bytes?,
        defence: defence?,
        http2: http2?,
    })
}

fn http2(section: Section<'_>) -> Option<Http2Rules> {
    let max_streams = section.or("max_streams", "128", 128, |field| {
        field
            .integer(1..=1024)
            .and_then(|count| u32::try_from(count).ok())
    });
    section.finish();
    Some(Http2Rules {
        max_streams: max_streams?,
    })
}

/// A directory. Whether it can be used is found out at the start, not by `check`, which may run elsewhere.
fn state_dir(field: &Field<'_>) -> Option<PathBuf> {
    match field.text()? {
        path if path.is_empty() || path.contains('\0') => field.refuse(
            "this is not the path of a directory",
            "write one of its own, such as \"/var/lib/sluicegate/state\", or leave it out: counters then end with the process",
        ),
        path => Some(field.report.path(path)),
    }
}

/// The path of a socket. Whether it can be listened on is found out at the start.
fn upgrade_socket(field: &Field<'_>) -> Option<PathBuf> {
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
    Some(path)
}
