//! Maintains every certificate that a listener needs: reads it from the disk, orders it when it is due, and reports its status.
//!
//! One order at a time: a hundred certificates are renewed in a quarter of an hour, and no server gets many requests at once.
//! The disk is read before listeners open, so that a restart serves the stored certificates at once, and again before each
//! order: another gateway with the same directory may have renewed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_base::pki::Validity;
use sluicegate_decide::in_force::InForce;
use sluicegate_decide::rfc3339;
use sluicegate_limiter::Timestamp;
use tokio::sync::Mutex;
use tracing::{error, info, warn};

use super::challenge::{self, PresentedProof};
use super::https::RetryAfterHint;
use super::issued::{CertificateProblem, IssuedCertificate};
use super::order::RequestedProof;
use super::order_error::{OrderError, OrderErrorKind};
use super::renewal::{self, JitterFraction, RetryAdvice};
use super::storage::CertificateStorage;
use super::{AcmeState, OrderOutcome, RenewalStatus, account, order};
use sluicegate_config::rules::{AcmeChallenge, AcmeRules, Name, NameSet};
use sluicegate_tls::Certificates;

/// The interval at which the service checks for due orders and for names that a reload added.
const TICK: Duration = Duration::from_millis(250);

/// The background service.
pub struct RenewalService(Mutex<RenewalLoop>);

/// The certificates that a configuration needs.
pub struct CertificateOrders {
    /// The number of the configuration.
    pub generation: u64,
    /// `[acme]`, where there is one.
    pub rules: Option<AcmeRules>,
    /// The names of each certificate.
    pub names: Vec<NameSet>,
}

/// The state of every certificate, by its names.
struct RenewalLoop {
    in_force: InForce<CertificateOrders>,
    certificates: Arc<Certificates>,
    acme: Arc<AcmeState>,
    /// The configuration to which the entries belong.
    generation: u64,
    rules: Option<AcmeRules>,
    entries: BTreeMap<NameSet, RenewalEntry>,
}

/// One certificate.
#[derive(Clone)]
struct RenewalEntry {
    held: Option<Validity>,
    due: Timestamp,
    /// Set after a rate-limit error: then no edit makes the order due earlier.
    is_rate_limited: bool,
    failures: u32,
    error: Option<String>,
}

impl RenewalService {
    /// Returns the service of this process. Reads the certificates on the disk, and serves them from now on.
    #[must_use]
    pub fn new(
        in_force: InForce<CertificateOrders>,
        certificates: Arc<Certificates>,
        acme: Arc<AcmeState>,
    ) -> Self {
        let mut renewal_loop = RenewalLoop {
            in_force,
            certificates,
            acme,
            generation: 0,
            rules: None,
            entries: BTreeMap::new(),
        };
        renewal_loop.follow();
        Self(Mutex::new(renewal_loop))
    }
}

#[async_trait]
impl BackgroundService for RenewalService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut renewal_loop = self.0.lock().await;
        loop {
            tokio::select! {
                () = tokio::time::sleep(TICK) => {}
                _ = shutdown.changed() => return,
            }
            renewal_loop.follow();
            // The next process repeats an interrupted order; the server drops it.
            tokio::select! {
                () = renewal_loop.turn() => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}

impl RenewalLoop {
    /// Applies the configuration in force.
    fn follow(&mut self) {
        let orders = self.in_force.load();
        if orders.generation != self.generation {
            self.generation = orders.generation;
            self.adopt(orders);
        }
    }

    fn adopt(&mut self, orders: CertificateOrders) {
        let before = std::mem::replace(&mut self.rules, orders.rules);
        let edited = before != self.rules;
        let now = clock::wall();
        let mut old = std::mem::take(&mut self.entries);
        if let Some(rules) = self.rules.clone() {
            let place = |rules: &AcmeRules| (rules.directory.clone(), rules.dir.clone());
            if before.as_ref().map(place) != Some(place(&rules)) {
                // With another server, or another directory, the entries are of the one before.
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

    /// Reads the stored certificate of names that are new in the configuration.
    ///
    /// While the one for all the names is missing, older certificates of some of the names are served.
    fn found(&self, rules: &AcmeRules, names: &NameSet, now: Timestamp) -> RenewalEntry {
        let storage = CertificateStorage::new(rules);
        for name in names.names() {
            let issued = match storage.certificate(name) {
                Ok(None) => continue,
                Ok(Some(pem)) => IssuedCertificate::read(&pem).map_err(|reason| reason.to_string()),
                Err(failure) => Err(failure.to_string()),
            };
            match issued {
                Ok(issued) => match issued.check(names, now) {
                    Ok(()) => return self.install(rules, names, &issued),
                    Err(CertificateProblem::Lacks(_)) => drop(self.install(rules, names, &issued)),
                    Err(reason) => info!("acme: {name}: {reason}"),
                },
                Err(reason) => warn!("acme: {name}: {reason}"),
            }
        }
        info!("acme: {names}: no certificate is stored; ordering one");
        RenewalEntry::due_at(now)
    }

    /// Places the order that is due for the longest time; at most one.
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

    /// Returns a certificate that another gateway has stored, if it is valid for long enough.
    fn stored_meanwhile(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        now: Timestamp,
    ) -> Option<RenewalEntry> {
        let pem = CertificateStorage::new(rules)
            .certificate(names.first())
            .ok()??;
        let issued = IssuedCertificate::read(&pem).ok()?;
        issued.check(names, now).ok()?;
        if renewal::due(
            issued.validity(),
            rules.renew_before,
            JitterFraction(u32::MAX),
        ) <= now
        {
            return None;
        }
        info!("acme: {names}: loaded a certificate that was stored meanwhile");
        Some(self.install(rules, names, &issued))
    }

    async fn order(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        before: RenewalEntry,
    ) -> RenewalEntry {
        let pauses = RetryAfterHint::default();
        let obtained = self.obtain(rules, names, &pauses);
        let obtained = tokio::time::timeout(bounds::ACME_ORDER, obtained).await;
        let late = || {
            Err(OrderError::failed(format!(
                "the order took longer than {:?}",
                bounds::ACME_ORDER
            )))
        };
        match obtained.unwrap_or_else(|_| late()) {
            Ok(issued) => {
                self.acme.count(OrderOutcome::Issued);
                let entry = self.install(rules, names, &issued);
                info!(
                    "acme: {names}: certificate issued, valid until {}; renewal at {}",
                    rfc3339::format(issued.validity().ends),
                    rfc3339::format(entry.due),
                );
                entry
            }
            Err(trouble) => self.put_off(rules, names, before, &trouble, pauses.take()),
        }
    }

    /// Orders a certificate and stores it.
    async fn obtain(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        pauses: &RetryAfterHint,
    ) -> Result<IssuedCertificate, OrderError> {
        let storage = CertificateStorage::new(rules);
        let account = account::open(rules, &storage, pauses).await?;
        let show = |wanted: &RequestedProof<'_>| self.show(rules.challenge, wanted);
        let pem = order::order(&account, names, rules.challenge, &show).await?;
        let issued = IssuedCertificate::read(&pem).map_err(OrderError::failed)?;
        issued
            .check(names, clock::wall())
            .map_err(OrderError::failed)?;
        if let Err(failure) = storage.keep_certificate(names, &pem) {
            // It is valid all the same; after a restart another will be ordered.
            error!(
                "acme: {names}: the new certificate is in use but could not be stored: {failure}"
            );
        }
        Ok(issued)
    }

    /// Logs a failure once and returns the entry with the next attempt.
    fn put_off(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        before: RenewalEntry,
        trouble: &OrderError,
        pause: Option<Duration>,
    ) -> RenewalEntry {
        let (outcome, asked) = match (trouble.kind, pause) {
            (OrderErrorKind::RateLimited, None) => (OrderOutcome::RateLimited, RetryAdvice::Less),
            (OrderErrorKind::RateLimited, Some(pause)) => {
                (OrderOutcome::RateLimited, RetryAdvice::Wait(pause))
            }
            (OrderErrorKind::Failed, pause) => (
                OrderOutcome::Failed,
                pause.map_or(RetryAdvice::Nothing, RetryAdvice::Wait),
            ),
            (_, pause) => (
                OrderOutcome::Refused,
                pause.map_or(RetryAdvice::Nothing, RetryAdvice::Wait),
            ),
        };
        self.acme.count(outcome);
        if trouble.kind == OrderErrorKind::AccountUnknown
            && let Err(failure) = CertificateStorage::new(rules).set_account_aside()
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
                "acme: {names}: renewal failed: {trouble}; the current certificate is valid until {}, next attempt at {next}",
                rfc3339::format(until)
            ),
            None => error!("acme: {names}: order failed: {trouble}; next attempt at {next}"),
        }
        RenewalEntry {
            due,
            failures,
            is_rate_limited: outcome == OrderOutcome::RateLimited,
            error: Some(trouble.to_string()),
            ..before
        }
    }

    /// Serves a certificate from now on, for those of the names that it covers.
    fn install(
        &self,
        rules: &AcmeRules,
        names: &NameSet,
        issued: &IssuedCertificate,
    ) -> RenewalEntry {
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
        RenewalEntry {
            held: Some(issued.validity()),
            ..RenewalEntry::due_at(due)
        }
    }

    /// Stops serving certificates that no listener needs.
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

    /// Serves a proof until the result is dropped.
    fn show(
        &self,
        proof: AcmeChallenge,
        wanted: &RequestedProof<'_>,
    ) -> Result<PresentedProof, OrderError> {
        match proof {
            AcmeChallenge::Http01 => {
                let shown = self
                    .acme
                    .answers
                    .show(wanted.token, wanted.key_authorization);
                shown.ok_or_else(|| {
                    OrderError::failed(format!("{}: the proof cannot be shown", wanted.domain))
                })
            }
            AcmeChallenge::TlsAlpn01 => {
                let certified = challenge::certificate(wanted.domain, wanted.digest)
                    .map_err(OrderError::failed)?;
                let certificates = Arc::clone(&self.certificates);
                certificates.answer_challenge(wanted.domain, Arc::new(certified));
                let domain = wanted.domain.to_owned();
                Ok(PresentedProof::until(move || {
                    certificates.forget_challenge(&domain)
                }))
            }
        }
    }

    fn publish(&self) {
        let status = |(names, entry): (&NameSet, &RenewalEntry)| RenewalStatus {
            names: names.clone(),
            validity: entry.held,
            next_order: entry.due,
            failures: entry.failures,
            error: entry.error.clone(),
        };
        self.acme.publish(self.entries.iter().map(status).collect());
    }
}

impl RenewalEntry {
    /// Returns an entry of which only the time of its order is known.
    fn due_at(due: Timestamp) -> Self {
        Self {
            held: None,
            due,
            is_rate_limited: false,
            failures: 0,
            error: None,
        }
    }

    /// Makes the order due at once, since an edit of `[acme]` may have cured its failure, unless the server's rate limit
    /// rejected it.
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

fn chance() -> JitterFraction {
    // Without a random source all renewals happen together, rather than none.
    JitterFraction(getrandom::u32().unwrap_or_default())
}
