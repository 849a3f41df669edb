//! Owns the challenge of one limit in force: its rules, its keys, and the names of its cookies.

use std::time::Duration;

use sluicegate_config::rules::{ChallengeRules, Name};
use sluicegate_limiter::{KeyHash, Seed, Timestamp};

use super::audience::PageVisit;
use super::cookies;
use super::keys::{KeyBinding, SigningKeys};
use super::solution::{OpenChallenge, PageReload, PresentedSolution};
use super::token::ChallengeTerms;

/// Failures in a row from which on a page waits for a click.
const PATIENCE: u8 = 3;
/// Cookies of one kind that a browser holds for a limit: one for each of its addresses, say, and no more however many keys it has.
const SLOTS: u64 = 16;

/// The challenge of a limit.
#[derive(Debug)]
pub struct ActiveChallenge {
    pub(super) name: Name,
    pub(super) rules: ChallengeRules,
    pub(super) keys: SigningKeys,
}

impl ActiveChallenge {
    /// Returns the challenge of the limit `name`.
    #[must_use]
    pub fn new(name: Name, rules: ChallengeRules, keys: SigningKeys) -> Self {
        Self { name, rules, keys }
    }

    /// Returns the hash to which new challenges are bound; `hash` hashes the key of the request under a seed.
    #[must_use]
    pub fn binding(&self, hash: impl Fn(Seed) -> Option<KeyHash>) -> Option<KeyBinding> {
        hash(self.keys.signing()?.seed()).map(KeyBinding)
    }

    /// Returns the challenge for a request of which `presented` was found, at `now`; `used` is the share of the room for pages that
    /// is taken, in percent.
    #[must_use]
    pub fn open(
        &self,
        presented: PresentedSolution,
        visit: PageVisit,
        used: u8,
        binding: KeyBinding,
        now: Timestamp,
    ) -> OpenChallenge {
        let terms = match presented {
            // Another page of this browser waits by the same cookie, which must not begin anew.
            PresentedSolution::Unripe(terms) => terms,
            PresentedSolution::Failed(failures) => self.terms(used, failures, now),
            PresentedSolution::Nothing | PresentedSolution::Passed(_) => self.terms(used, 0, now),
        };
        let left = terms.ripe_at().saturating_since(now);
        // Rounded up: a browser that comes back early would wait twice.
        let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let is_returned = visit == PageVisit::Returned && presented == PresentedSolution::Nothing;
        OpenChallenge {
            binding,
            terms,
            wait_left: u16::try_from(left).unwrap_or(u16::MAX),
            reload: match is_returned || terms.failures >= PATIENCE {
                true => PageReload::ByHand,
                false => PageReload::Automatic,
            },
        }
    }

    fn terms(&self, used: u8, failures: u8, now: Timestamp) -> ChallengeTerms {
        let rules = &self.rules;
        let used = u64::from(used.min(100));
        let between = |least: u64, most: u64| least + most.saturating_sub(least) * used / 100;
        let bits = between(rules.difficulty.into(), rules.max_difficulty.into());
        let wait = between(rules.wait.as_secs(), rules.max_wait.as_secs());
        ChallengeTerms {
            issued: now,
            wait_seconds: u16::try_from(wait).unwrap_or(u16::MAX),
            bits: u8::try_from(bits).unwrap_or(u8::MAX),
            failures,
        }
    }

    /// Returns the name of the cookie that the script writes.
    pub(super) fn work_cookie(&self, binding: KeyBinding) -> String {
        self.cookie(cookies::WORK, binding)
    }

    /// Returns the name of the cookie that the gateway sets.
    pub(super) fn wait_cookie(&self, binding: KeyBinding) -> String {
        self.cookie(cookies::WAIT, binding)
    }

    fn cookie(&self, kind: &str, binding: KeyBinding) -> String {
        // A browser with two addresses, IPv4 and IPv6, keeps a solution for each.
        let slot = binding.0.bits() % SLOTS;
        format!("{kind}{}-{slot:x}", self.name)
    }

    /// Returns the time for which browsers keep its cookies.
    pub(super) fn valid_for(&self) -> Duration {
        self.rules.valid_for
    }
}
