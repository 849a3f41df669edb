//! Requests a running gateway to start a new process and hand over to it.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use sluicegate_base::bounds;

use super::START;
use super::line::UpgradeChannel;

/// The reason for a failed upgrade.
#[derive(Debug)]
pub enum AskError {
    /// No process answers.
    Nobody(io::Error),
    /// The path contains a line feed.
    Path,
    /// The connection broke; the log of the gateway has the result.
    Broken(io::Error),
    /// The gateway continues, for this reason.
    Failed(String),
}

/// Requests the gateway at `socket` to start `program` with `configuration`, and waits until the new process serves. Returns its
/// process id.
///
/// # Errors
/// The upgrade failed; the gateway then continues, unless the connection broke.
pub fn ask(socket: &Path, program: &Path, configuration: &Path) -> Result<u32, AskError> {
    let text = |path: &'_ Path| {
        path.to_str()
            .filter(|text| !text.contains('\n'))
            .map(str::to_owned)
            .ok_or(AskError::Path)
    };
    let program = text(program)?;
    let configuration = text(configuration)?;
    let stream = UnixStream::connect(socket).map_err(AskError::Nobody)?;
    // It answers when the new process is ready, or at its own timeout.
    let patience = bounds::UPGRADE_PATIENCE * 2;
    let mut lines = UpgradeChannel::over(stream, patience).map_err(AskError::Broken)?;
    for line in [START, &program, &configuration] {
        lines.send_line(line).map_err(AskError::Broken)?;
    }
    let answer = lines.receive_line().map_err(AskError::Broken)?;
    let new_process = answer.strip_prefix("done ").map(str::parse);
    match (new_process, answer.strip_prefix("failed ")) {
        (Some(Ok(new_process)), _) => Ok(new_process),
        (_, Some(reason)) => Err(AskError::Failed(reason.to_owned())),
        _ => Err(AskError::Failed(answer)),
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody(cause) => write!(f, "no gateway answers: {cause}"),
            Self::Path => f.write_str("a path is not UTF-8, or has a line end"),
            Self::Broken(cause) => write!(f, "the gateway's answer did not come: {cause}"),
            Self::Failed(reason) => write!(f, "{reason}; the gateway goes on as before"),
        }
    }
}

impl std::error::Error for AskError {}
