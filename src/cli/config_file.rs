//! Finds the configuration that a command reads: `FILE`, `--config FILE`, or the file of the packaged service.
//!
//! Every command takes it in the same two ways. Two commands have other words beside it: `key` ([`super::key`]) and `replay`
//! ([`super::replay`]), whose files are told apart by their names.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit_code::USAGE;
use super::output::tell;

/// The configuration of the packaged service.
const PACKAGED: &str = "/etc/sluicegate/gateway.toml";

/// The configuration of a command.
#[derive(Args)]
pub(super) struct ConfigFile {
    /// The configuration. Default: /etc/sluicegate/gateway.toml, where it exists.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same as FILE.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// Carries out a command with the file; returns its exit code, or that of wrong usage where there is no file.
    pub(super) fn with_path(&self, command: impl FnOnce(&Path) -> u8) -> u8 {
        let named = self.file.as_ref().or(self.config.as_ref());
        match named_or_packaged(named.cloned()) {
            Ok(path) => command(&path),
            Err(message) => {
                tell(&format_args!("sluicegate: {message}"));
                USAGE
            }
        }
    }
}

/// Returns the file that the command line names, or else that of the packaged service.
///
/// # Errors
///
/// There is neither.
pub(super) fn named_or_packaged(named: Option<PathBuf>) -> Result<PathBuf, String> {
    named_or(named, Path::new(PACKAGED))
}

fn named_or(named: Option<PathBuf>, default: &Path) -> Result<PathBuf, String> {
    match named {
        Some(path) => Ok(path),
        None if default.is_file() => Ok(default.to_owned()),
        None => Err(format!(
            "no configuration is named, and there is no {}; write FILE or --config FILE",
            default.display()
        )),
    }
}

/// Returns whether a word of the command line names a configuration, not something else.
pub(super) fn is_config_name(word: &Path) -> bool {
    word.extension()
        .is_some_and(|extension| extension == "toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a command finds its file. Method: a named file, a default that exists, and one that does not.
    #[test]
    fn a_named_file_comes_before_the_default() {
        let directory = tempfile::tempdir().expect("a directory");
        let default = directory.path().join("gateway.toml");
        let named = PathBuf::from("mine.toml");
        assert_eq!(named_or(Some(named.clone()), &default), Ok(named.clone()));
        let missing = named_or(None, &default).expect_err("there is none");
        assert!(missing.contains("--config FILE"), "{missing}");
        std::fs::write(&default, "").expect("room");
        assert_eq!(named_or(None, &default), Ok(default.clone()));
        assert_eq!(named_or(Some(named.clone()), &default), Ok(named));
    }
}
