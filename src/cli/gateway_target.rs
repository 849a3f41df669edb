//! Finds the admin listener of a running gateway: by a configuration, or by a URL with a file of the token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{FAILED, NO_ADMIN, USAGE};
use crate::admin_client::AdminClient;
use crate::config::rules::{AdminTokens, Rules};
use crate::listener::reachable;
use crate::{config, route};

/// The URL of a gateway that listens where the default configuration says.
const DEFAULT_URL: &str = "http://127.0.0.1:9180";

/// The reason why a gateway cannot be asked, with the exit code for it.
pub(super) type TargetError = (u8, String);

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
