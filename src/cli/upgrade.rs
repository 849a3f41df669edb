//! `sluicegate upgrade [FILE]`

use std::path::Path;

use sluicegate_decide::route;

use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::output::tell;
use crate::config;
use crate::server::NO_UPGRADE_SOCKET;
use crate::server::upgrade::ask;

/// Replaces the running gateway by this program.
pub(super) fn upgrade(file: &Path) -> u8 {
    // The file is read here too: errors in it are shown in the terminal, before the gateway gets a request.
    let loaded = match config::load(file, route::review) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(&problems);
            return USAGE;
        }
    };
    let server = &loaded.rules.server;
    let Some(socket) = server.upgrade_socket() else {
        tell(&format_args!("sluicegate: {NO_UPGRADE_SOCKET}"));
        return FAILED;
    };
    // Not canonical: the gateway watches the named path, whatever it leads to later.
    let paths = std::env::current_exe()
        .and_then(|program| Ok((program, std::path::absolute(file)?)))
        .and_then(|(program, file)| Ok((program, file, std::path::absolute(socket)?)));
    let (program, file, socket) = match paths {
        Ok(paths) => paths,
        Err(error) => {
            tell(&format_args!("sluicegate: {error}"));
            return FAILED;
        }
    };
    match ask(&socket, &program, &file) {
        Ok(id) => {
            tell(&format_args!(
                "process {id} has taken over, the old process drains"
            ));
            SUCCESS
        }
        Err(error) => {
            tell(&format_args!("sluicegate: {}: {error}", socket.display()));
            FAILED
        }
    }
}
