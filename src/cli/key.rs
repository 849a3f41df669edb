//! `sluicegate key FILE LIMIT VALUE…`
//!
//! Keys are hashed under a secret of the running process, so the command queries its admin listener, with its token.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::gateway_target::of_config;
use super::{FAILED, SUCCESS, USAGE, tell};

/// The timeout of each step: the gateway may query its store.
const PATIENCE: Duration = Duration::from_secs(5);

/// Queries the admin listener for the key.
pub(super) fn key(file: &Path, limit: &str, values: &[String]) -> u8 {
    let (rules, client) = match of_config(file, PATIENCE) {
        Ok(found) => found,
        Err((code, message)) => {
            tell(&message);
            return code;
        }
    };
    if !rules.limits.contains_key(limit) {
        let names: Vec<&str> = rules.limits.keys().map(|name| &**name).collect();
        tell(&format_args!(
            "{limit}: no such limit; the file has {}",
            names.join(", ")
        ));
        return USAGE;
    }
    match client.send("GET", &target(limit, values)) {
        Ok((200, body)) => {
            let written = std::io::stdout().write_all(body.as_bytes());
            if written.is_ok() { SUCCESS } else { FAILED }
        }
        Ok((400, body)) => {
            tell(&body);
            USAGE
        }
        Ok((status, body)) => {
            let authority = client.authority();
            tell(&format_args!("{authority}: answers {status}: {body}"));
            FAILED
        }
        Err(error) => {
            tell(&format_args!(
                "{error}; keys are hashed by the running gateway, start it or correct [admin] address"
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
