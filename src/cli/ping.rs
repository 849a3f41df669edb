//! `sluicegate ping [FILE]`

use std::path::Path;
use std::time::Duration;

use super::exit_code::{FAILED, SUCCESS};
use super::gateway_target::of_config;
use super::output::tell;

/// The timeout of the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Queries the admin listener's `/healthz`.
pub(super) fn ping(file: &Path) -> u8 {
    let client = match of_config(file, None, PATIENCE) {
        Ok((_, client)) => client,
        Err((code, message)) => {
            tell(&message);
            return code;
        }
    };
    match client.send("GET", "/healthz") {
        Ok((200, _)) => SUCCESS,
        Ok((status, _)) => {
            tell(&format_args!("{}: answers {status}", client.authority()));
            FAILED
        }
        Err(error) => {
            tell(&error);
            FAILED
        }
    }
}
