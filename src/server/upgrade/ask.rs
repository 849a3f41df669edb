//! Asks a running gateway to start a successor and hand over to it.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::START;
use super::line::UpgradeChannel;
use crate::bounds;

/// Why there is no successor.
#[derive(Debug)]
pub enum AskError {
    /// Nobody answers.
    Nobody(io::Error),
    /// A path that cannot be said in a line.
    Path,
    /// The conversation broke; the log of the gateway says what became of it.
    Broken(io::Error),
    /// The gateway goes on, for this reason.
    Failed(String),
}

/// Asks the gateway at `socket` to start `program` with `configuration`, and waits until that one serves. Its process id.
///
/// # Errors
/// When it does not; the gateway then goes on as before, unless the conversation broke.
pub fn ask(socket: &Path, program: &Path, configuration: &Path) -> Result<u32, AskError> {
    let text = |path: &'_ Path| {
        path.to_str()
            .filter(|text| !text.contains('\n'))
            .map(str::to_owned)
            .ok_or(AskError::Path)
    };
    let (program, configuration) = (text(program)?, text(configuration)?);
    let stream = UnixStream::connect(socket).map_err(AskError::Nobody)?;
    // It answers when the successor is ready, or at the end of its own patience.
    let patience = bounds::UPGRADE_PATIENCE * 2;
    let mut lines = UpgradeChannel::over(stream, patience).map_err(AskError::Broken)?;
    for line in [START, &program, &configuration] {
        lines.say(line).map_err(AskError::Broken)?;
    }
    let answer = lines.hear().map_err(AskError::Broken)?;
    let successor = answer.strip_prefix("done ").map(str::parse);
    match (successor, answer.strip_prefix("failed ")) {
        (Some(Ok(successor)), _) => Ok(successor),
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
