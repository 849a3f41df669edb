//! Judges a server by the end of an attempt, and decides whether the request gets another one.

use std::time::Duration;

use sluicegate_limiter::Timestamp;
use tracing::warn;

use super::ServerPool;
use crate::failure::AttemptFailure;
use crate::server::{OriginServer, ServerPermit};
use sluicegate_config::rules::{OutlierDetectionRules, Role};

impl ServerPool {
    /// Records a failed attempt. Ejects the server for a while after too many failures, if enough others remain.
    pub fn failed(&self, held: &mut ServerPermit, failure: AttemptFailure, now: Timestamp) {
        held.outcome = Some(failure.into());
        held.end_wait(failure, || now);
        let rules = self.rules.outlier_detection.as_ref();
        let counts = rules.filter(|rules| failure.is_among(&rules.on));
        let server_state = &held.server.server_state;
        if server_state.fail(failure, counts, now)
            && let Some(rules) = rules
        {
            self.eject(&held.server, rules, now);
        }
    }

    /// Records an attempt that was answered with this status.
    pub fn answered(
        &self,
        held: &mut ServerPermit,
        status: http::StatusCode,
        now: impl Fn() -> Timestamp,
    ) {
        held.begin_answer();
        let answer = AttemptFailure::Status(status.as_u16());
        let rules = self.rules.outlier_detection.as_ref();
        let counts = rules.is_some_and(|rules| answer.is_among(&rules.on));
        if counts || status.is_server_error() {
            self.failed(held, answer, now());
        } else {
            held.outcome = Some(answer.into());
            held.end_wait(answer, now);
        }
        if !counts {
            held.server.server_state.succeed();
        }
    }

    fn eject(&self, server: &OriginServer, rules: &OutlierDetectionRules, now: Timestamp) {
        // A caller that finds it locked gives up: the next failure tries again.
        let Ok(_ejecting) = self.ejecting.try_lock() else {
            return;
        };
        let set = self.servers.load();
        let tier = match server.role {
            Role::Primary => set.primaries.servers(),
            Role::Backup => set.backups.servers(),
        };
        let out = tier.iter().filter(|other| !other.is_usable(now)).count();
        let may_be_out = tier.len() * usize::from(rules.max_percent.0) / 100;
        if !server.is_usable(now) || out >= may_be_out {
            return;
        }
        let length = server.server_state.eject(rules, now);
        warn!(
            "origin {}: server {} failed {} requests in a row and is left alone for {} s",
            self.name,
            server.address,
            rules.consecutive_failures,
            length.as_secs_f64()
        );
    }

    /// Returns whether a request may be tried again that failed so after `attempts` attempts, so long after its decision; if so, counts
    /// a retry.
    #[must_use]
    pub fn grants_retry(
        &self,
        failure: AttemptFailure,
        attempts: u8,
        since: impl Fn() -> Duration,
    ) -> bool {
        if attempts > self.rules.retries {
            return false;
        }
        let Some(rules) = &self.rules.retry else {
            let granted = failure == AttemptFailure::Connect;
            if granted {
                self.budget.note();
            }
            return granted;
        };
        failure.is_among(&rules.on)
            && rules.deadline.is_none_or(|deadline| since() < deadline)
            && self.budget.spend()
    }
}
