//! Checks the paths at which the start opens or creates something, and the addresses that it binds: what would fail there is a problem of
//! the configuration on this machine, for the user of the process.
//!
//! The right to listen on a port is no error: a service manager gives it to the gateway, or opens the address itself.
//!
//! The directories of [`MADE_BY_UNIT`] may be absent: the unit of the package makes them before it starts the gateway.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::environment::{PathKind, folder_of};
use super::field::{KeyField, quoted};
use super::problem::ParseError;

/// The directories that the unit of the package makes (StateDirectory=, LogsDirectory=).
pub const MADE_BY_UNIT: [&str; 2] = ["/var/lib/sluicegate", "/var/log/sluicegate"];

/// The file of a state directory that the start locks.
const STATE_LOCK: &str = "lock";

/// Returns the path of the log `name`; `None` where it cannot be opened, which is reported then.
pub(super) fn log_file(field: &KeyField<'_>, path: PathBuf, name: &str) -> Option<PathBuf> {
    let mistake = match field.report.environment.kind_of(&path) {
        PathKind::Folder | PathKind::SharedFolder => {
            let message = format!(
                "{} is a directory, and lines are written to a file",
                shown(&path)
            );
            let inside = shown(&path.join(format!("{name}.log")));
            let advice = format!("write the path of a file in it: {inside}");
            Some(ParseError::with_advice(message, advice))
        }
        PathKind::Socket => Some(ParseError::with_advice(
            format!(
                "{} is a socket, and lines are written to a file",
                shown(&path)
            ),
            match name {
                "access" => format!(
                    "for a syslog server write access = \"syslog\", and [log.syslog] with server = \"unix:{}\"",
                    path.display()
                ),
                name => format!("write the path of a file: \"/var/log/sluicegate/{name}.log\""),
            },
        )),
        PathKind::Absent => creation_mistake(field, &path),
        PathKind::File | PathKind::Unknown => writing_mistake(field, &path),
    };
    match mistake {
        Some(mistake) => field.mistaken(mistake),
        None => Some(path),
    }
}

/// Returns the path of the state directory; `None` where it cannot be used, which is reported then.
pub(super) fn state_folder(field: &KeyField<'_>, path: PathBuf) -> Option<PathBuf> {
    let mistake = match field.report.environment.kind_of(&path) {
        PathKind::File | PathKind::Socket => Some(ParseError::with_advice(
            format!("{} is not a directory", shown(&path)),
            "name a directory of its own",
        )),
        PathKind::SharedFolder => Some(ParseError::with_advice(
            format!(
                "other users may write to {}, and with it to every counter",
                shown(&path)
            ),
            "take that permission away with chmod 700, or name a directory below it",
        )),
        PathKind::Absent => creation_mistake(field, &path),
        PathKind::Folder | PathKind::Unknown => writing_mistake(field, &path.join(STATE_LOCK)),
    };
    match mistake {
        Some(mistake) => field.mistaken(mistake),
        None => Some(path),
    }
}

/// Returns the path of the directory of certificates, which is created with those around it; `None` where it cannot be used, which is
/// reported then.
pub(super) fn certificate_folder(field: &KeyField<'_>, path: PathBuf) -> Option<PathBuf> {
    match field.report.environment.kind_of(&path) {
        PathKind::File | PathKind::Socket => field.refuse(
            format!("{} is not a directory", shown(&path)),
            "name a directory of its own",
        ),
        _ => Some(path),
    }
}

/// Warns of a socket that cannot be created: the gateway runs without it.
pub(super) fn warn_of_socket(field: &KeyField<'_>, path: &Path) {
    let mistake = match field.report.environment.kind_of(path) {
        PathKind::Folder | PathKind::SharedFolder => Some(ParseError::with_advice(
            format!(
                "{} is a directory, and a socket is created there",
                shown(path)
            ),
            format!(
                "write the path of a file in it: {}",
                shown(&path.join("upgrade.sock"))
            ),
        )),
        PathKind::Absent => creation_mistake(field, path),
        PathKind::File | PathKind::Socket | PathKind::Unknown => None,
    };
    if let Some(mistake) = mistake {
        let message = format!("{}, so no upgrade is possible", mistake.message);
        field.warn(message, mistake.advice.unwrap_or_default());
    }
}

/// Returns why nothing can be created at a path.
fn creation_mistake(field: &KeyField<'_>, path: &Path) -> Option<ParseError> {
    folder_mistake(field, path).or_else(|| writing_mistake(field, path))
}

/// Returns why the directory around a path is none: it is absent, or something else.
fn folder_mistake(field: &KeyField<'_>, path: &Path) -> Option<ParseError> {
    let folder = folder_of(path);
    let is_made_by_unit = MADE_BY_UNIT.iter().any(|made| folder == Path::new(made));
    match field.report.environment.kind_of(folder) {
        PathKind::Absent if !is_made_by_unit => Some(ParseError::with_advice(
            format!("the directory {} does not exist", shown(folder)),
            "create it for the user of the gateway, or correct the path; on another machine write `check --offline`",
        )),
        PathKind::File | PathKind::Socket => Some(ParseError::with_advice(
            format!("{} is not a directory", shown(folder)),
            "correct the path",
        )),
        _ => None,
    }
}

/// Returns why a path cannot be written: the system refuses it to this user, or to all.
fn writing_mistake(field: &KeyField<'_>, path: &Path) -> Option<ParseError> {
    let environment = field.report.environment;
    let cause = environment.try_writing(path).err()?;
    let folder = match environment.kind_of(path) {
        PathKind::Absent => Some(folder_of(path)),
        PathKind::Folder | PathKind::SharedFolder => Some(path),
        PathKind::File | PathKind::Socket | PathKind::Unknown => None,
    };
    let message = match folder {
        Some(folder) => format!(
            "no file can be created in {} on this machine: {cause}",
            shown(folder)
        ),
        None => format!("{} cannot be written on this machine: {cause}", shown(path)),
    };
    let cure = match cause.kind() {
        ErrorKind::PermissionDenied => {
            "run `check` as the user of the gateway, and let that user write there"
        }
        _ => "name a path that can be written",
    };
    Some(ParseError::with_advice(
        message,
        format!("{cure}; on another machine write `check --offline`"),
    ))
}

/// Returns an address to listen on; `None` where this machine cannot listen there, which is reported then.
pub(super) fn own_address(field: &KeyField<'_>, address: SocketAddr) -> Option<SocketAddr> {
    let Err(cause) = field.report.environment.try_binding(address) else {
        return Some(address);
    };
    if cause.kind() == ErrorKind::PermissionDenied {
        let message = format!("this user may not listen on {address} on this machine: {cause}");
        field.warn(
            message,
            "ports below 1024 need CAP_NET_BIND_SERVICE, which the unit of the package gives, or a socket of the service manager",
        );
        return Some(address);
    }
    field.refuse(
        unbindable(address, &cause),
        format!(
            "write an address of this machine, such as {}; on another machine write `check --offline`",
            field.example
        ),
    )
}

/// Says that a machine cannot listen on an address.
fn unbindable(address: SocketAddr, cause: &Error) -> String {
    match cause.kind() {
        ErrorKind::AddrNotAvailable => {
            format!("{} is no address of this machine", address.ip())
        }
        _ => format!("this machine cannot listen on {address}: {cause}"),
    }
}

fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}
