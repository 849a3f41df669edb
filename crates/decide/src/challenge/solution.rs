//! Judges the cookies of a request: a solution gives a pass, a wait that is not over is continued, and everything else fails.
//!
//! A solution counts for one limit, one key of it and one time (contract C2: the pass has counters like any key). It fails when it is
//! forged, too old, from the future, of another limit or key, or when its proof has too few zero bits; all look alike from outside.

use std::time::Duration;

use http::header::COOKIE;
use ring::digest::{SHA256, digest};
use sluicegate_base::received::ReceivedFields;
use sluicegate_limiter::{KeyHash, Seed, Timestamp};

use super::active::ActiveChallenge;
use super::keys::{KeyBinding, SigningKey};
use super::token::{ChallengeTerms, ChallengeToken};

/// The most by which the clock of the gateway that made a challenge may be ahead.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Digits of the counter of a proof, at most.
pub(super) const COUNTER_DIGITS: usize = 16;
/// Cookies of one name that are judged: a browser sends one, or one for each path that somebody has set it for.
const COOKIES_OF_ONE_NAME: usize = 4;

/// The finding about the cookies of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentedSolution {
    /// No solution, or one that has expired.
    Nothing,
    /// A solution that fails; so many failed in a row, by the client's own word.
    Failed(u8),
    /// A wait that is not over.
    Unripe(ChallengeTerms),
    /// A solution.
    Passed(ChallengePass),
}

/// The evidence that a browser solved a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChallengePass(Seed);

/// A challenge that a browser is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenChallenge {
    /// The key that its solution will count for.
    pub(super) binding: KeyBinding,
    /// Its terms.
    pub(super) terms: ChallengeTerms,
    /// Seconds until the wait is over.
    pub(super) wait_left: u16,
    /// Set if the page reloads by itself.
    pub(super) reload: PageReload,
}

/// The way in which a page comes to its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageReload {
    /// By itself.
    Automatic,
    /// By a click, since earlier solutions failed or no cookie came back: a page that reloads then would do so without end.
    ByHand,
}

impl ChallengePass {
    /// Returns the key under which requests with this pass are counted, of the key that it was given for.
    #[must_use]
    pub fn key(&self, of: KeyHash) -> KeyHash {
        let mut hasher = self.0.hasher();
        hasher.part(&of.bits().to_le_bytes());
        hasher.finish()
    }
}

impl OpenChallenge {
    /// Returns the seconds after which a client that does not solve it may ask again.
    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_left.into())
    }
}

impl ActiveChallenge {
    /// Returns what the cookies in `headers` show at `now`; `binding` hashes the key of the request under a seed.
    #[must_use]
    pub fn presented(
        &self,
        headers: &ReceivedFields,
        binding: impl Fn(Seed) -> Option<KeyHash>,
        now: Timestamp,
    ) -> PresentedSolution {
        if !headers.contains_key(COOKIE) {
            return PresentedSolution::Nothing;
        }
        let mut best = PresentedSolution::Nothing;
        for key in self.keys.verifying() {
            let Some(binding) = binding(key.seed()).map(KeyBinding) else {
                continue;
            };
            let judge = |value: &str| self.judge(value, key, binding, now);
            for name in [self.work_cookie(binding), self.wait_cookie(binding)] {
                best = cookies(headers, &name).map(judge).fold(best, better);
            }
        }
        best
    }

    /// Judges the value of one cookie.
    fn judge(
        &self,
        value: &str,
        key: &SigningKey,
        binding: KeyBinding,
        now: Timestamp,
    ) -> PresentedSolution {
        let (text, counter) = match value.split_once('.') {
            Some((text, counter)) => (text, Some(counter)),
            None => (value, None),
        };
        let Some(token) = ChallengeToken::parse(text) else {
            return PresentedSolution::Failed(1);
        };
        let failures = token.terms.failures.saturating_add(1);
        if !key.verifies(&self.name, binding, &token.terms.bytes(), &token.mac) {
            return PresentedSolution::Failed(failures);
        }
        let terms = token.terms;
        if terms.issued > now.saturating_add(CLOCK_SKEW) {
            return PresentedSolution::Failed(failures);
        }
        if now >= terms.issued.saturating_add(self.rules.valid_for) {
            return PresentedSolution::Nothing;
        }
        match counter {
            Some(counter) if self.rules.methods.has_work() => {
                match proves(text, counter, terms.bits) {
                    true => PresentedSolution::Passed(ChallengePass::from_token(&token)),
                    false => PresentedSolution::Failed(failures),
                }
            }
            None if self.rules.methods.has_wait() => match now >= terms.ripe_at() {
                true => PresentedSolution::Passed(ChallengePass::from_token(&token)),
                false => PresentedSolution::Unripe(terms),
            },
            Some(_) | None => PresentedSolution::Failed(failures),
        }
    }
}

impl ChallengePass {
    /// The MAC differs between challenges and cannot be chosen, so passes share no counters but by being copies.
    fn from_token(token: &ChallengeToken) -> Self {
        let mut seed = [0; 16];
        for (byte, of_mac) in seed.iter_mut().zip(token.mac) {
            *byte = of_mac;
        }
        Self(Seed::from_bytes(seed))
    }
}

/// Returns the better of two findings: a pass, then a wait that goes on, then the most failures.
fn better(one: PresentedSolution, other: PresentedSolution) -> PresentedSolution {
    let rank = |presented: &PresentedSolution| match presented {
        PresentedSolution::Passed(_) => (3, 0),
        PresentedSolution::Unripe(_) => (2, 0),
        PresentedSolution::Failed(failures) => (1, *failures),
        PresentedSolution::Nothing => (0, 0),
    };
    if rank(&other) > rank(&one) {
        other
    } else {
        one
    }
}

/// Returns whether the hash of text and counter begins with so many zero bits.
fn proves(text: &str, counter: &str, bits: u8) -> bool {
    let is_number = !counter.is_empty()
        && counter.len() <= COUNTER_DIGITS
        && counter.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return false;
    }
    let hash = digest(&SHA256, format!("{text}.{counter}").as_bytes());
    let first = hash.as_ref().first_chunk().copied().map(u64::from_be_bytes);
    first.is_some_and(|first| first.leading_zeros() >= u32::from(bits))
}

/// Returns the values of the cookies of this name.
fn cookies<'h>(headers: &'h ReceivedFields, name: &str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(COOKIE);
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let name = name.to_owned();
    pairs
        .filter(move |(found, _)| *found == name)
        .map(|(_, value)| value)
        .take(COOKIES_OF_ONE_NAME)
}
