//! Holds the state of the process: what requests share, the reloads of the configuration, and the phases from start to end.
//!
//! # Concurrency
//! A reload builds a whole snapshot beside the one in force and swaps it once; requests under way keep the one they took.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod cut_off;
mod lifecycle;
mod maintenance;
mod overflow_warnings;
mod preview;
mod reload;
mod reload_requests;
mod rule_service;
mod shared_state;
pub mod snapshot;
pub mod supervisor;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicegate_base::clock;
use sluicegate_decide::state::CounterStorage;

use sluicegate_budgets::OpenFiles;
use sluicegate_config::rules::Rules;
use sluicegate_decide::admission::KeySeed;
use sluicegate_record::RequestRecorder;

pub use self::lifecycle::{Lifecycle, Phase};
pub use self::maintenance::Maintenance;
pub use self::overflow_warnings::warn_of_overflow;
pub use self::preview::ReloadPreview;
pub use self::reload::{ReloadReport, ReloadTrigger, Reloader};
pub use self::reload_requests::ReloadRequests;
pub use self::rule_service::RuleService;
pub use self::shared_state::SharedState;

/// The state of the process, in three parts. Requests and most tasks get only the first.
pub struct GatewayProcess {
    /// The state that requests share.
    pub shared: Arc<SharedState>,
    /// The reloads of the configuration.
    pub reloader: Reloader,
    /// The phases of the process.
    pub lifecycle: Lifecycle,
}

impl GatewayProcess {
    /// The state of a process that starts with `rules` from `file`; keys are hashed under the seed of their counters' home.
    #[must_use]
    pub fn new(
        file: &Path,
        rules: Rules,
        recorder: RequestRecorder,
        storage: CounterStorage,
        seed: KeySeed,
        open_files: OpenFiles,
    ) -> Self {
        let now = clock::now();
        let reloader = Reloader::new(file, &rules, storage);
        let shared = SharedState::new(rules, recorder, &reloader.storage, seed, open_files, now);
        Self {
            shared: Arc::new(shared),
            reloader,
            lifecycle: Lifecycle::starting(now),
        }
    }

    /// Reads the file again and swaps it in; a broken file leaves the old rules in force and is reported.
    pub fn reload(&self, trigger: ReloadTrigger) {
        (self.reloader).reload(&self.shared, &self.lifecycle, trigger);
    }

    /// Puts the temporary rules about limits in force, if they have changed.
    pub fn follow_temporary_rules(&self) {
        self.reloader.follow_temporary_rules(&self.shared);
    }

    /// Returns the files whose change is a change of the configuration, those that `include` would name now among them.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.reloader.files(&self.shared)
    }
}
