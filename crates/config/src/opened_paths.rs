//! Checks the paths at which the start opens or creates something: what would fail there is a problem of the configuration.
//!
//! Only what no user can open is one. Permissions are not checked, since `check` may run as another user than the gateway.
//!
//! The directories of [`MADE_BY_UNIT`] may be absent: the unit of the package makes them before it starts the gateway.

use std::path::{Path, PathBuf};

use super::environment::PathKind;
use super::field::{KeyField, quoted};
use super::problem::ParseError;

/// The directories that the unit of the package makes (StateDirectory=, LogsDirectory=).
pub const MADE_BY_UNIT: [&str; 2] = ["/var/lib/sluicegate", "/var/log/sluicegate"];

/// Returns the path of a log; `None` where it cannot be opened, which is reported then.
pub(super) fn log_file(field: &KeyField<'_>, path: PathBuf) -> Option<PathBuf> {
    let mistake = match field.report.environment.kind_of(&path) {
        PathKind::Folder | PathKind::SharedFolder => {
            let message = format!(
                "{} is a directory, and lines are written to a file",
                shown(&path)
            );
            let inside = shown(&path.join("access.log"));
            ParseError::with_advice(message, format!("write the path of a file in it: {inside}"))
        }
        PathKind::Socket => ParseError::with_advice(
            format!(
                "{} is a socket, and lines are written to a file",
                shown(&path)
            ),
            format!(
                "for a syslog server write access = \"syslog\", and [log.syslog] with server = \"unix:{}\"",
                path.display()
            ),
        ),
        PathKind::Absent => match folder_mistake(field, &path) {
            Some(mistake) => mistake,
            None => return Some(path),
        },
        PathKind::File | PathKind::Unknown => return Some(path),
    };
    field.mistaken(mistake)
}

/// Returns the path of the state directory; `None` where it cannot be used, which is reported then.
pub(super) fn state_folder(field: &KeyField<'_>, path: PathBuf) -> Option<PathBuf> {
    let mistake = match field.report.environment.kind_of(&path) {
        PathKind::File | PathKind::Socket => ParseError::with_advice(
            format!("{} is not a directory", shown(&path)),
            "name a directory of its own",
        ),
        PathKind::SharedFolder => ParseError::with_advice(
            format!(
                "other users may write to {}, and with it to every counter",
                shown(&path)
            ),
            "take that permission away with chmod 700, or name a directory below it",
        ),
        PathKind::Absent => match folder_mistake(field, &path) {
            Some(mistake) => mistake,
            None => return Some(path),
        },
        PathKind::Folder | PathKind::Unknown => return Some(path),
    };
    field.mistaken(mistake)
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
        PathKind::Absent => folder_mistake(field, path),
        PathKind::File | PathKind::Socket | PathKind::Unknown => None,
    };
    if let Some(mistake) = mistake {
        let message = format!("{}, so no upgrade is possible", mistake.message);
        field.warn(message, mistake.advice.unwrap_or_default());
    }
}

/// Returns why nothing can be created at a path: the directory around it is absent, or is none.
fn folder_mistake(field: &KeyField<'_>, path: &Path) -> Option<ParseError> {
    let folder = path.parent()?;
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
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

fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}
