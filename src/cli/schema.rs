//! `sluicegate schema`

use std::io::Write;

use super::exit_code::{FAILED, SUCCESS};
use super::output::tell;
use crate::config;

/// Writes the JSON Schema of the configuration to the standard output.
pub(super) fn schema() -> u8 {
    let written = serde_json::to_string_pretty(&config::schema())
        .map_err(std::io::Error::from)
        .and_then(|text| writeln!(std::io::stdout(), "{text}"));
    match written {
        Ok(()) => SUCCESS,
        Err(error) => {
            tell(&format_args!("the schema cannot be written: {error}"));
            FAILED
        }
    }
}
