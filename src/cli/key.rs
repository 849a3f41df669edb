//! `sluicegate key FILE LIMIT VALUE…`
//!
//! Keys are hashed under a secret of the running process, so the command queries its admin listener, with its token.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use sluicegate_base::bounds::ADMIN_ANSWER;

use super::{FAILED, NO_ADMIN, SUCCESS, USAGE, tell};
use crate::config;
use crate::listener::reachable;
use crate::route;

/// The timeout of each step: the gateway may query its store.
const PATIENCE: Duration = Duration::from_secs(5);

/// Queries the admin listener for the key.
pub(super) fn key(file: &Path, limit: &str, values: &[String]) -> u8 {
    let loaded = match config::load(file, route::review) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(&problems);
            return USAGE;
        }
    };
    let rules = &loaded.rules;
    if !rules.limits.contains_key(limit) {
        let names: Vec<&str> = rules.limits.keys().map(|name| &**name).collect();
        tell(&format_args!(
            "{limit}: no such limit; the file has {}",
            names.join(", ")
        ));
        return USAGE;
    }
    let Some(address) = rules.admin.address.map(reachable) else {
        tell(&NO_ADMIN);
        return FAILED;
    };
    let target = target(limit, values);
    let asking = AdminQuery {
        method: "GET",
        address,
        target: &target,
        token: rules.admin.token_file.as_deref(),
        patience: PATIENCE,
    };
    match ask(&asking) {
        Ok((200, body)) => {
            let written = std::io::stdout().write_all(body.as_bytes());
            if written.is_ok() { SUCCESS } else { FAILED }
        }
        Ok((400, body)) => {
            tell(&body);
            USAGE
        }
        Ok((status, body)) => {
            tell(&format_args!("{address}: answers {status}: {body}"));
            FAILED
        }
        Err(error) => {
            tell(&format_args!(
                "{address}: {error}; keys are hashed by the running gateway, start it or correct [admin] address"
            ));
            FAILED
        }
    }
}

/// Returns the path and query of the request.
fn target(limit: &str, values: &[String]) -> String {
    let mut target = format!("/limits/{limit}/keys");
    for (index, value) in values.iter().enumerate() {
        target.push_str(if index == 0 { "?value=" } else { "&value=" });
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    target.push(char::from(byte));
                }
                other => target.push_str(&format!("%{other:02X}")),
            }
        }
    }
    target
}

/// A request to the admin listener.
pub(super) struct AdminQuery<'a> {
    pub(super) method: &'static str,
    pub(super) address: SocketAddr,
    pub(super) target: &'a str,
    pub(super) token: Option<&'a str>,
    /// The timeout of the response.
    pub(super) patience: Duration,
}

/// Returns the status and the body of the response.
pub(super) fn ask(asking: &AdminQuery<'_>) -> std::io::Result<(u16, String)> {
    let AdminQuery {
        method,
        address,
        target,
        token,
        patience,
    } = *asking;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let token = token.map_or_else(String::new, |token| {
        format!("authorization: Bearer {token}\r\n")
    });
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\n{token}connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ADMIN_ANSWER).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let no_http = || std::io::Error::other("the answer is not HTTP");
    Ok((status.ok_or_else(no_http)?, body.to_owned()))
}
