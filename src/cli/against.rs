//! Compares a configuration with the one that a running gateway has in force, for `check --against URL`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::exit_code::FAILED;
use super::gateway_target::{TargetError, of_url};
use crate::config::WrittenConfig;

/// The timeout of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The gateway that `check` compares a configuration with.
#[derive(Args)]
pub(super) struct AgainstGateway {
    /// Print how the configuration differs from the one in force at the gateway with this admin listener, http://127.0.0.1:9180. The exit
    /// code is then 0 without a difference, 2 with one, 1 where the gateway does not answer, and 64 where the file is wrong. Secrets, and
    /// the contents of lists, certificates and other files, are not compared.
    #[arg(long, value_name = "URL", conflicts_with = "offline")]
    against: Option<String>,
    /// A file with the token of that gateway.
    #[arg(long, value_name = "FILE", requires = "against")]
    token_file: Option<PathBuf>,
}

impl AgainstGateway {
    /// Returns the URL of the gateway; `None` where none is named.
    pub(super) fn url(&self) -> Option<&str> {
        self.against.as_deref()
    }

    /// Returns what is written otherwise than at the gateway, a sentence each; `None` where no gateway is named.
    ///
    /// # Errors
    /// The gateway gives no configuration, with the exit code for it.
    pub(super) fn differences(
        &self,
        written: &WrittenConfig,
    ) -> Result<Option<Vec<String>>, TargetError> {
        let Some(url) = &self.against else {
            return Ok(None);
        };
        let client = of_url(Some(url), self.token_file.as_ref(), PATIENCE)?;
        let body = client.get("/config");
        let body = body.map_err(|error| (FAILED, format!("sluicegate: {error}")))?;
        let mut answer: Value = serde_json::from_str(&body).unwrap_or_default();
        let in_force = answer["configuration"].take();
        if !in_force.is_object() {
            let authority = client.authority();
            let message = format!("sluicegate: {authority}: the answer is not that of a gateway");
            return Err((FAILED, message));
        }
        // Both as readers see them: a secret is hidden on both sides.
        let written = WrittenConfig::from_readers(written.for_readers());
        Ok(Some(
            written.changes_since(&WrittenConfig::from_readers(in_force)),
        ))
    }
}
