//! Looks after every certificate that a listener asks for: takes it from the disk, orders it when it is due, and says how it stands.
//!
//! One order at a time: a hundred certificates are renewed in a quarter of an hour, and no server is asked by many at once. The disk is
//! read before listeners open, so that a restart serves at once what was there, and again before each order: who shares the directory
//! may have renewed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_limiter::Timestamp;
use tokio::sync::Mutex;
use tracing::{error, info, warn};

use super::challenge::{self, Shown};
use super::https::Pauses;
use super::issued::{Issued, Unusable};
use super::order::Wanted;
use super::renewal::{self, Asked, Chance};
use super::storage::Storage;
use super::trouble::{Kind, Trouble};
use super::{Acme, Outcome, Standing, account, order};
use crate::bounds;
use crate::clock;
use crate::config::rules::{AcmeRules, Name, NameSet, Proof};
use crate::in_force::InForce;
use crate::pki::Validity;
use crate::record::rfc3339;
use crate::tls::Certificates;

/// How often the service looks whether something is due, or a reload asks for other names.
const TICK: Duration = Duration::from_millis(250);

/// The background service.
pub struct Renewals(Mutex<Desk>);

/// The certificates that a configuration asks for.
pub struct Orders {
    /// The number of the configuration.
    pub generation: u64,
    /// `[acme]`, where there is one.
    pub rules: Option<AcmeRules>,
    /// The names of each certificate.
    pub names: Vec<NameSet>,
}

/// What is known of every certificate.
struct Desk {
    in_force: InForce<Orders>,
    certificates: Arc<Certificates>,
    acme: Arc<Acme>,
    /// The configuration that the entries are of.
    generation: u64,
    rules: Option<AcmeRules>,
    entries: BTreeMap<NameSet, Entry>,
}

/// One certificate.
#[derive(Clone)]
struct Entry {
    held: Option<Validity>,
    due: Timestamp,
    /// Whether the server counts: then no edit makes the order due earlier.
    is_rate_limited: bool,
    failures: u32,
    error: Option<String>,
}

impl Renewals {
    /// The service of this process. Reads what the disk has, and serves it from now on.
    #[must_use]
    pub fn new(
        in_force: InForce<Orders>,
        certificates: Arc<Certificates>,
        acme: Arc<Acme>,
    ) -> Self {
        let mut desk = Desk {
            in_force,
            certificates,
            acme,
            generation: 0,
            rules: None,
            entries: BTreeMap::new(),
        };
        desk.follow();
        Self(Mutex::new(desk))
    }
}

#[async_trait]
impl BackgroundService for Renewals {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut desk = self.0.lock().await;
        loop {
            tokio::select! {
                () = tokio::time::sleep(TICK) => {}
                _ = shutdown.changed() => return,
            }
            desk.follow();
            // An order that is cut off is begun anew by the next process; the server forgets it.
            tokio::select! {
                () = desk.turn() => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}

impl Desk {
    /// Takes over what the configuration in force asks for.
    fn follow(&mut self) {
        let orders = self.in_force.load();
        if orders.generation != self.generation {
            self.generation = orders.generation;
            self.adopt(orders);
        }
    }

    fn adopt(&mut self, orders: Orders) {
        let before = std::mem::replace(&mut self.rules, orders.rules);
        let edited = before != self.rules;
        let now = clock::wall();
        let mut old = std::mem::take(&mut self.entries);
        if let Some(rules) = self.rules.clone() {
            let place = |rules: &AcmeRules| (rules.directory.clone(), rules.dir.clone());
            if before.as_ref().map(place) != Some(place(&rules)) {
                // Another server, or another directory: what is known is of the one before.
                old.clear();
            }
            for names in orders.names {
                let entry = match old.remove(&names) {
                    Some(entry) if edited => entry.after_edit(&rules, now),
                    Some(entry) => entry,
                    None => self.found(&rules, &names, now),
                };
                self.entries.insert(names, entry);
            }
        }
        self.remove_unasked();
        self.publish();
    }

    /// What the disk has of a certificate that is asked for from now on.
    ///
    /// Where the one for all the names is missing, those that some of the names had before are better than none until it is there.
    fn found(&self, rules: &AcmeRules, names: &NameSet, now: Timestamp) -> Entry {
        let storage = Storage::of(rules);
        for name in names.names() {
            let issued = match storage.certificate(name) {
                Ok(None) => continue,
                Ok(Some(pem)) => Issued::read(&pem).map_err(|reason| reason.to_string()),
                Err(failure) => Err(failure.to_string()),
            };
            match issued {
                Ok(issued) => match issued.check(names, now) {
                    Ok(()) => return self.install(rules, names, &issued),
                    Err(Unusable::Lacks(_)) => drop(self.install(rules, names, &issued)),
                    Err(reason) => info!("acme: {name}: {reason}"),
                },
                Err(reason) => warn!("acme: {name}: {reason}"),
            }
        }
        info!("acme: {names}: there is no certificate yet, one is ordered");
        Entry::due_at(now)
    }

    /// Orders what is due, the longest due first; at most one.
    async fn turn(&mut self) {
        let Some(rules) = self.rules.clone() else {
            return;
        };
        let now = clock::wall();
        let due = self.entries.iter().filter(|(_, entry)| entry.due <= now);
        let due = due.min_by_key(|(_, entry)| entry.due);
        let Some((names, entry)) = due.map(|(names, entry)| (names.clone(), entry.clone())) else {
            return;
        };
        let next = match self.stored_meanwhile(&rules, &names, now) {
            Some(next) => next,
            None => self.order(&rules, &names, entry).await,
        };
        self.entries.insert(names, next);
        self.publish();
    }

    /// A certificate that somebody else has put where ours are, if it is good for a while.
    fn stored_meanwhile(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        now: Timestamp,
    ) -> Option<Entry> {
        let pem = Storage::of(rules).certificate(names.first()).ok()??;
        let issued = Issued::read(&pem).ok()?;
        issued.check(names, now).ok()?;
        if renewal::due(issued.validity(), rules.renew_before, Chance(u32::MAX)) <= now {
            return None;
        }
        info!("acme: {names}: takes a certificate that was stored meanwhile");
        Some(self.install(rules, names, &issued))
    }

    async fn order(&self, rules: &AcmeRules, names: &NameSet, before: Entry) -> Entry {
        let pauses = Pauses::default();
        let obtained = self.obtain(rules, names, &pauses);
        let obtained = tokio::time::timeout(bounds::ACME_ORDER, obtained).await;
        let late = || {
            Err(Trouble::failed(format!(
                "the order took longer than {:?}",
                bounds::ACME_ORDER
            )))
        };
        match obtained.unwrap_or_else(|_| late()) {
            Ok(issued) => {
                self.acme.count(Outcome::Issued);
                let entry = self.install(rules, names, &issued);
                info!(
                    "acme: {names}: certificate until {}, the next is ordered at {}",
                    rfc3339::format(issued.validity().ends),
                    rfc3339::format(entry.due),
                );
                entry
            }
            Err(trouble) => self.put_off(rules, names, before, &trouble, pauses.take()),
        }
    }

    /// A new certificate, stored.
    async fn obtain(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        pauses: &Pauses,
    ) -> Result<Issued, Trouble> {
        let storage = Storage::of(rules);
        let account = account::open(rules, &storage, pauses).await?;
        let show = |wanted: &Wanted<'_>| self.show(rules.proof, wanted);
        let pem = order::order(&account, names, rules.proof, &show).await?;
        let issued = Issued::read(&pem).map_err(Trouble::failed)?;
        issued
            .check(names, clock::wall())
            .map_err(Trouble::failed)?;
        if let Err(failure) = storage.keep_certificate(names, &pem) {
            // It is good all the same; after a restart another will be ordered.
            error!("acme: {names}: the new certificate is served but not kept: {failure}");
        }
        Ok(issued)
    }

    /// What is known after a failure, which is told once.
    fn put_off(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        before: Entry,
        trouble: &Trouble,
        pause: Option<Duration>,
    ) -> Entry {
        let (outcome, asked) = match (trouble.kind, pause) {
            (Kind::RateLimited, None) => (Outcome::RateLimited, Asked::Less),
            (Kind::RateLimited, Some(pause)) => (Outcome::RateLimited, Asked::Wait(pause)),
            (Kind::Failed, pause) => (Outcome::Failed, pause.map_or(Asked::Nothing, Asked::Wait)),
            (_, pause) => (Outcome::Refused, pause.map_or(Asked::Nothing, Asked::Wait)),
        };
        self.acme.count(outcome);
        if trouble.kind == Kind::AccountUnknown
            && let Err(failure) = Storage::of(rules).set_account_aside()
        {
            warn!("acme: {failure}");
        }
        let now = clock::wall();
        let failures = before.failures.saturating_add(1);
        let due = now.saturating_add(renewal::patience(failures, asked, chance()));
        let until = before
            .held
            .map(|held| held.ends)
            .filter(|until| *until > now);
        let next = rfc3339::format(due);
        match until {
            Some(until) => warn!(
                "acme: {names}: no new certificate: {trouble}; the old one is good until {}, the next try is at {next}",
                rfc3339::format(until)
            ),
            None => error!("acme: {names}: no certificate: {trouble}; the next try is at {next}"),
        }
        Entry {
            due,
            failures,
            is_rate_limited: outcome == Outcome::RateLimited,
            error: Some(trouble.to_string()),
            ..before
        }
    }

    /// Serves a certificate from now on, for those of the names that it is for.
    fn install(&self, rules: &AcmeRules, names: &NameSet, issued: &Issued) -> Entry {
        for name in names.names().iter().filter(|name| issued.is_for(name)) {
            let certified = Arc::clone(issued.certified());
            self.certificates.install(Name::clone(name), certified);
        }
        let now = clock::wall();
        let due = renewal::due(issued.validity(), rules.renew_before, chance());
        if due <= now && issued.validity().begins >= now {
            warn!(
                "acme: {names}: the certificate would be renewed at once; is the clock of this machine right?"
            );
        }
        Entry {
            held: Some(issued.validity()),
            ..Entry::due_at(due)
        }
    }

    /// Serves nothing any more that no listener asks for.
    fn remove_unasked(&self) {
        let asked: BTreeSet<&str> = self
            .entries
            .keys()
            .flat_map(NameSet::names)
            .map(|name| &**name)
            .collect();
        for (name, _) in self.certificates.installed() {
            if !asked.contains(&*name) {
                self.certificates.remove(&name);
            }
        }
    }

    /// Shows a proof until the answer is dropped.
    fn show(&self, proof: Proof, wanted: &Wanted<'_>) -> Result<Shown, Trouble> {
        match proof {
            Proof::Http01 => {
                let shown = self
                    .acme
                    .answers
                    .show(wanted.token, wanted.key_authorization);
                shown.ok_or_else(|| {
                    Trouble::failed(format!("{}: the proof cannot be shown", wanted.domain))
                })
            }
            Proof::TlsAlpn01 => {
                let certified = challenge::certificate(wanted.domain, wanted.digest)
                    .map_err(Trouble::failed)?;
                let certificates = Arc::clone(&self.certificates);
                certificates.answer_challenge(wanted.domain, Arc::new(certified));
                let domain = wanted.domain.to_owned();
                Ok(Shown::until(move || certificates.forget_challenge(&domain)))
            }
        }
    }

    fn publish(&self) {
        let standing = |(names, entry): (&NameSet, &Entry)| Standing {
            names: names.clone(),
            validity: entry.held,
            next_order: entry.due,
            failures: entry.failures,
            error: entry.error.clone(),
        };
        self.acme
            .publish(self.entries.iter().map(standing).collect());
    }
}

impl Entry {
    /// One that nothing is known of but when it is ordered.
    fn due_at(due: Timestamp) -> Self {
        Self {
            held: None,
            due,
            is_rate_limited: false,
            failures: 0,
            error: None,
        }
    }

    /// An edit of `[acme]` may have been what an order failed for, so that it is due at once, unless the server counts.
    fn after_edit(mut self, rules: &AcmeRules, now: Timestamp) -> Self {
        match self.held {
            _ if self.failures > 0 && !self.is_rate_limited => self.due = now,
            Some(held) if self.failures == 0 => {
                self.due = renewal::due(held, rules.renew_before, chance());
            }
            _ => {}
        }
        self
    }
}

fn chance() -> Chance {
    // Without a random source renewals are together rather than never.
    Chance(getrandom::u32().unwrap_or_default())
}
