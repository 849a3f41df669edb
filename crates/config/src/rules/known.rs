//! Carries over what the configuration in force knows and a new one could not read: files that are broken, names that do not resolve.
//!
//! The parser reads what it can of a broken file and marks it [`FileState::Lost`]. Where the configuration in force has the content of
//! the same file, that content stays. Tiers stay only where the limit still counts the same keys over the same periods, since their rates
//! are judged by the limit's counters.

use std::path::Path;
use std::sync::Arc;

use sluicegate_base::jwt::{TokenSettings, TokenVerifier};
use sluicegate_limiter::{Algorithm, Policy};

use super::{BrokenFile, FileState, LimitRules, Name, Rules};

impl Rules {
    /// Every file that is broken.
    #[must_use]
    pub fn broken_files(&self) -> Vec<BrokenFile> {
        let broken = |kind, name: &Name, file: &Path, state| {
            (state != FileState::Read).then(|| BrokenFile {
                kind,
                name: Arc::clone(name),
                file: file.into(),
                state,
            })
        };
        let lists = self.lists.iter().filter_map(|(name, list)| {
            let file = list.file.as_ref()?;
            broken("list", name, &file.path, file.state)
        });
        let limits = self.limits.iter().filter_map(|(name, limit)| {
            let overrides = limit.overrides.as_ref()?;
            broken("limit", name, &overrides.file, overrides.state)
        });
        let keys = self
            .jwt
            .iter()
            .filter_map(|jwt| broken("jwt", &"".into(), &jwt.file, jwt.state));
        let databases = self
            .geo
            .databases
            .iter()
            .filter_map(|file| broken("geo", &"".into(), &file.path, file.state));
        let ranges = self.crawlers.iter().flat_map(|(name, crawler)| {
            let files = crawler.ranges.iter();
            files.filter_map(move |file| broken("crawler", name, &file.path, file.state))
        });
        let signing = self.crawlers.iter().filter_map(|(name, crawler)| {
            let file = crawler.jwks_file.as_ref()?;
            broken("crawler", name, &file.path, file.state)
        });
        let tables = lists.chain(limits).chain(ranges).chain(signing);
        tables.chain(keys).chain(databases).collect()
    }

    /// Takes over from the configuration in force what the files say that are broken now.
    ///
    /// # Errors
    /// When a content is in force that does not fit these rules: no edit of a limit may take its tiers away, nor one of `[jwt]` its keys.
    pub fn keep_files(&mut self, before: &Self) -> Result<(), String> {
        for (name, list) in &mut self.lists {
            let known = before.lists.get(name).and_then(|list| list.file.as_ref());
            if let (Some(file), Some(known)) = (&mut list.file, known)
                && is_kept(file.state, known.state)
                && file.path == known.path
            {
                file.blocks = Arc::clone(&known.blocks);
                file.state = FileState::Kept;
            }
        }
        self.keep_proofs(before);
        for (name, limit) in &mut self.limits {
            let Some(known) = before.limits.get(name) else {
                continue;
            };
            let tiers_fit = tiers_fit(limit, known);
            if let (Some(overrides), Some(known)) = (&mut limit.overrides, &known.overrides)
                && is_kept(overrides.state, known.state)
                && overrides.file == known.file
            {
                if !tiers_fit {
                    return Err(format!(
                        "limit {name}: {} is broken, and its content in force is made for other rates; correct the file",
                        known.file.display()
                    ));
                }
                *overrides = known.clone();
                overrides.state = FileState::Kept;
            }
        }
        if let (Some(jwt), Some(known)) = (&mut self.jwt, &before.jwt)
            && is_kept(jwt.state, known.state)
            && jwt.file == known.file
        {
            let settings = TokenSettings {
                keys: known.verifier.settings().keys.clone(),
                ..jwt.verifier.settings().clone()
            };
            let Ok(verifier) = TokenVerifier::new(settings) else {
                return Err(format!(
                    "jwt: {} is broken, and its content in force is made for other algorithms; correct the file",
                    known.file.display()
                ));
            };
            jwt.verifier = Arc::new(verifier);
            jwt.state = FileState::Kept;
        }
        Ok(())
    }

    /// Takes over the proofs of crawlers whose files are broken now.
    fn keep_proofs(&mut self, before: &Self) {
        for (name, crawler) in &mut self.crawlers {
            let Some(known) = before.crawlers.get(name) else {
                continue;
            };
            if let (Some(file), Some(former)) = (&mut crawler.jwks_file, &known.jwks_file)
                && is_kept(file.state, former.state)
                && file.path == former.path
            {
                file.keys = Arc::clone(&former.keys);
                file.state = FileState::Kept;
            }
            for file in &mut crawler.ranges {
                let mut former = known
                    .ranges
                    .iter()
                    .filter(|former| former.path == file.path);
                if let Some(former) = former.find(|former| is_kept(file.state, former.state)) {
                    file.blocks = Arc::clone(&former.blocks);
                    file.state = FileState::Kept;
                }
            }
        }
    }
}

/// Returns whether a content `known` before stands in for a file that is read now.
fn is_kept(now: FileState, known: FileState) -> bool {
    now == FileState::Lost && known != FileState::Lost
}

/// Returns whether the tiers of a limit that was read earlier can be judged by the counters of this one.
fn tiers_fit(limit: &LimitRules, before: &LimitRules) -> bool {
    let periods = |policy: &Policy| -> Vec<u32> {
        let rates = policy.rates().iter();
        rates.map(|rate| rate.period().as_secs()).collect()
    };
    let policy = &limit.policy;
    let known = &before.policy;
    let alike = policy.algorithm() == known.algorithm() && periods(policy) == periods(known);
    // The pace at which a bucket refills depends on the counts too.
    let by_bucket = matches!(policy.algorithm(), Algorithm::TokenBucket { .. });
    limit.key == before.key && limit.cost == before.cost && alike && (policy == known || !by_bucket)
}
