//! Finds the admin listener of a running gateway, by a configuration or by a URL with a file of the token, and asks it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use sluicegate_decide::route;

use super::config_file::named_or_packaged;
use super::exit_code::{FAILED, USAGE};
use crate::config;
use crate::config::rules::{AdminTokens, Rules};
use sluicegate_edge::listener::reachable;
use sluicegate_top::admin_client::AdminClient;

/// The URL of a gateway that listens where the default configuration says.
const DEFAULT_URL: &str = "http://127.0.0.1:9180";

/// The error where the running gateway has no admin listener.
const NO_ADMIN: &str = "sluicegate: [admin] address is \"off\", so the running gateway cannot be asked; \
     write an address, and restart it once";

/// The reason why a gateway cannot be asked, with the exit code for it.
pub(super) type TargetError = (u8, String);

/// The gateway that a command asks.
#[derive(Args, Default)]
pub(super) struct RunningGateway {
    /// The admin listener of the gateway. Default: that of the configuration, or http://127.0.0.1:9180.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    url: Option<String>,
    /// A file with the token of the gateway. Default: one that [admin] token_file has and that is not a hash.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The configuration that the gateway runs with. Default: /etc/sluicegate/gateway.toml, where it exists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RunningGateway {
    /// Returns the one of two that names a gateway, the first where neither does.
    ///
    /// # Errors
    /// Both do.
    pub(super) fn or<'g>(&'g self, other: &'g Self) -> Result<&'g Self, String> {
        let names = |gateway: &Self| {
            gateway.url.is_some() || gateway.config.is_some() || gateway.token_file.is_some()
        };
        match (names(self), names(other)) {
            (true, true) => Err("write the gateway once, before or behind the command".to_owned()),
            (false, true) => Ok(other),
            _ => Ok(self),
        }
    }

    /// Returns the client of the gateway; `file` is the configuration that another word of the command line names.
    pub(super) fn client(
        &self,
        file: Option<&PathBuf>,
        patience: Duration,
    ) -> Result<AdminClient, TargetError> {
        let token_file = self.token_file.as_ref();
        match named_or_packaged(file.or(self.config.as_ref()).cloned()) {
            Ok(file) if self.url.is_none() => {
                of_config(&file, token_file, patience).map(|(_, client)| client)
            }
            _ => of_url(self.url.as_deref(), token_file, patience),
        }
    }
}

/// Sends a request and returns the answer of a success.
pub(super) fn send(
    client: &AdminClient,
    method: &str,
    target: &str,
    body: Option<&Value>,
) -> Result<Value, TargetError> {
    let body = body.map(Value::to_string);
    let (status, text) = client
        .send_with_body(method, target, body.as_deref().unwrap_or_default())
        .map_err(|error| failed(&error))?;
    let answer: Option<Value> = serde_json::from_str(&text).ok();
    match (status, answer) {
        (200, Some(answer)) => Ok(answer),
        (_, answer) => {
            let error = answer.as_ref().and_then(|answer| answer["error"].as_str());
            let authority = client.authority();
            let error = error.unwrap_or(text.trim());
            let code = if status == 400 { USAGE } else { FAILED };
            Err((code, format!("sluicegate: {authority}: {error} ({status})")))
        }
    }
}

/// Returns the text with every byte percent-encoded that has a meaning in a URL.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// Returns the error of a command that did not succeed.
pub(super) fn failed(why: &dyn std::fmt::Display) -> TargetError {
    (FAILED, format!("sluicegate: {why}"))
}

/// Returns the rules of a configuration, and the client of the gateway that runs with it, with the token in a file or a token that the
/// configuration has.
pub(super) fn of_config(
    file: &Path,
    token_file: Option<&PathBuf>,
    patience: Duration,
) -> Result<(Rules, AdminClient), TargetError> {
    let loaded = config::load_unopened(file, route::review)
        .map_err(|problems| (USAGE, problems.to_string()))?;
    let admin = &loaded.rules.admin;
    let Some(address) = admin.address.map(reachable) else {
        return Err((FAILED, NO_ADMIN.to_owned()));
    };
    let given = token_file.map(|file| token(file)).transpose()?;
    let known = admin.token_file.as_ref();
    let known = known.and_then(|tokens| tokens.usable());
    let client = AdminClient::at(address, given.as_deref().or(known), patience);
    Ok((loaded.rules, client))
}

/// Returns the client of the gateway at a URL, the default one without; with the token in a file.
pub(super) fn of_url(
    url: Option<&str>,
    token_file: Option<&PathBuf>,
    patience: Duration,
) -> Result<AdminClient, TargetError> {
    let token = token_file.map(|file| token(file)).transpose()?;
    let url = url.unwrap_or(DEFAULT_URL);
    AdminClient::of_url(url, token.as_deref(), patience)
        .map_err(|error| (USAGE, format!("sluicegate: {error}")))
}

/// Reads the token that a file has alone, or the first of a file of tokens that may act, else read.
fn token(file: &Path) -> Result<String, TargetError> {
    let refused = |reason: &dyn std::fmt::Display| {
        let file = file.display();
        (USAGE, format!("sluicegate: --token-file {file}: {reason}"))
    };
    let text = std::fs::read_to_string(file).map_err(|error| refused(&error))?;
    let tokens = AdminTokens::parse(&text).map_err(|mistake| refused(&mistake.message))?;
    let usable = tokens.usable();
    let none = "there are only hashes of tokens; give a file with the token itself";
    usable.map(str::to_owned).ok_or_else(|| refused(&none))
}
