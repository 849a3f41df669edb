//! `sluicegate ping --config FILE`

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::{FAILED, NO_ADMIN, SUCCESS, USAGE, tell};
use crate::config;
use crate::listener::reachable;
use crate::route;

/// The timeout of each step.
const PATIENCE: Duration = Duration::from_secs(2);

/// Queries the admin listener's `/healthz`.
pub(super) fn ping(file: &Path) -> u8 {
    let loaded = match config::load(file, route::review) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(&problems);
            return USAGE;
        }
    };
    let Some(address) = loaded.rules.admin.address.map(reachable) else {
        tell(&NO_ADMIN);
        return FAILED;
    };
    match ask(address) {
        Ok(status) if status.starts_with("HTTP/1.1 200") => SUCCESS,
        Ok(status) => {
            tell(&format_args!("{address}: answers {status}"));
            FAILED
        }
        Err(error) => {
            tell(&format_args!("{address}: {error}"));
            FAILED
        }
    }
}

/// Returns the status line of `GET /healthz`.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(1024).read_to_string(&mut answer)?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}
