//! Ends temporary rules at their time, and exchanges those of the fleet with the store.
//!
//! Each gateway reads what the store has, merges it with its own rules, and publishes what the store lacks: a rule that was set while the
//! store was away, or that a store has lost. So rules reach every gateway whatever fails meanwhile, and a gateway without its store keeps
//! those that it has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::clock;
use sluicegate_decide::in_force::InForce;
use sluicegate_decide::temporary_rules::{RuleEntry, RuleId, TemporaryRules, WrittenEntry};
use sluicegate_limiter::Timestamp;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::GatewayProcess;
use sluicegate_history::MarkKind;
use sluicegate_store::{SharedRules, Store};

/// The period of looks for rules that have ended, and for those of other gateways.
const TICK: Duration = Duration::from_secs(1);
/// The time after its end at which an entry is removed from the store; clocks of gateways are closer to each other.
const LATE: Duration = Duration::from_secs(60);

/// The background service.
pub struct RuleService {
    /// The process, whose limits follow the rules.
    pub process: Arc<GatewayProcess>,
    /// The rules.
    pub rules: Arc<TemporaryRules>,
    /// The store in force.
    pub store: InForce<Option<Arc<Store>>>,
}

/// The rules of one store, as they were read last.
#[derive(Default)]
struct StoreView {
    store: Option<Arc<Store>>,
    /// The version of the rules that were read last.
    version: Option<String>,
    /// The entries there.
    entries: BTreeMap<RuleId, RuleEntry>,
    /// The revision of the rules here of which the store has everything.
    published: Option<u64>,
}

#[async_trait]
impl BackgroundService for RuleService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut view = StoreView::default();
        let mut followed = None;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.rules.changed() => {}
                _ = shutdown.changed() => return,
            }
            self.end_rules().await;
            self.exchange(&mut view).await;
            let revision = self.rules.revision();
            if followed == Some(revision) {
                continue;
            }
            followed = Some(revision);
            let process = Arc::clone(&self.process);
            let ended = tokio::task::spawn_blocking(move || process.follow_temporary_rules());
            let _ = ended.await;
        }
    }
}

impl RuleService {
    /// Drops the rules that have ended, each with a mark in the history; many that end at once are one mark.
    async fn end_rules(&self) {
        let rules = Arc::clone(&self.rules);
        // A disk may be slow.
        let ticked = tokio::task::spawn_blocking(move || rules.tick(clock::now()));
        // It does not panic, and the next tick looks again.
        for rule in ticked.await.unwrap_or_default() {
            let does = self.process.shared.rule_summary(&rule);
            info!("temporary rule {} ended: {does}", rule.id);
            let text = format!("Temporary rule {} ended: {does}.", rule.id);
            self.process.shared.mark(MarkKind::Rule, "", &text);
        }
    }

    /// Takes over what the store has, and publishes what it lacks.
    async fn exchange(&self, view: &mut StoreView) {
        let Some(store) = self.store.load() else {
            *view = StoreView::default();
            return;
        };
        view.follow(&store);
        // Without an answer the next tick asks again; the link logs the reason.
        let Ok(found) = store.read_rules(view.version.as_deref()).await else {
            return;
        };
        if let Some(found) = found {
            let entries = view.receive(found);
            let rules = Arc::clone(&self.rules);
            let merged = tokio::task::spawn_blocking(move || rules.merge(entries, clock::now()));
            let _ = merged.await;
        }
        let revision = self.rules.revision();
        if view.published == Some(revision) {
            return;
        }
        let now = clock::now();
        let missing = view.missing(self.rules.shared_entries(), now);
        let lasts = missing.iter().map(|entry| clock::between(now, entry.until));
        let lasts = lasts.max().unwrap_or_default().saturating_add(LATE);
        let texts: Vec<_> = missing.iter().map(|entry| entry.written.clone()).collect();
        if store.publish_rules(&texts, lasts).await.is_ok() {
            view.published = Some(revision);
        }
    }
}

/// An entry that the store is to have.
struct UnpublishedEntry {
    /// The id and the text.
    written: (String, String),
    until: Timestamp,
}

impl StoreView {
    /// Forgets what is known where another store is in force.
    fn follow(&mut self, store: &Arc<Store>) {
        let is_same = self
            .store
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, store));
        if !is_same {
            *self = Self {
                store: Some(Arc::clone(store)),
                ..Self::default()
            };
        }
    }

    /// Notes what the store has, and returns its entries; what no gateway of this version writes is logged and left there.
    fn receive(&mut self, found: SharedRules) -> Vec<RuleEntry> {
        self.version = Some(found.version);
        self.published = None;
        self.entries.clear();
        let mut entries = Vec::new();
        for (id, text) in &found.entries {
            let written = serde_json::from_str::<WrittenEntry>(text);
            let read = written.map_err(|error| error.to_string());
            match read.and_then(|written| written.read()) {
                Ok(entry) => {
                    self.entries.insert(entry.id(), entry.clone());
                    entries.push(entry);
                }
                Err(why) => warn!("the temporary rule {id:?} of the store is ignored: {why}"),
            }
        }
        entries
    }

    /// Returns the entries of `own` that the store lacks, and an empty text for each that has ended.
    fn missing(&self, own: Vec<RuleEntry>, now: Timestamp) -> Vec<UnpublishedEntry> {
        let lacks = |entry: &RuleEntry| match self.entries.get(&entry.id()) {
            None => true,
            Some(RuleEntry::InForce(_)) => matches!(entry, RuleEntry::Removed(..)),
            Some(RuleEntry::Removed(..)) => false,
        };
        let own = own
            .iter()
            .filter(|entry| entry.until() > now && lacks(entry));
        let texts = own.filter_map(|entry| {
            let text = serde_json::to_string(&WrittenEntry::new(entry)).ok()?;
            Some(UnpublishedEntry {
                written: (entry.id().to_string(), text),
                until: entry.until(),
            })
        });
        let ended = self.entries.iter().filter_map(|(id, stored)| {
            let until = stored.until();
            let is_late = until.saturating_add(LATE) < now;
            is_late.then(|| UnpublishedEntry {
                written: (id.to_string(), String::new()),
                until: now,
            })
        });
        texts.chain(ended).collect()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_decide::temporary_rules::{
        RuleEffect, RuleLifetime, RuleScope, RuleTarget, TemporaryRule,
    };

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn after(seconds: u64) -> Timestamp {
        NOW.saturating_add(Duration::from_secs(seconds))
    }

    fn rule(id: u64) -> RuleEntry {
        let lifetime = RuleLifetime {
            from: NOW,
            until: after(60),
        };
        let target = RuleTarget::parse("192.0.2.1").unwrap();
        let id = RuleId::from_bits(id);
        let rule = TemporaryRule::new(id, RuleEffect::Block, target, lifetime);
        RuleEntry::InForce(Arc::new(rule))
    }

    fn removed(id: u64) -> RuleEntry {
        RuleEntry::Removed(RuleId::from_bits(id), after(60), RuleScope::Fleet)
    }

    fn stored(entries: &[RuleEntry]) -> SharedRules {
        let text = |entry| serde_json::to_string(&WrittenEntry::new(entry)).unwrap();
        let mut entries: Vec<_> = entries
            .iter()
            .map(|entry| (entry.id().to_string(), text(entry)))
            .collect();
        entries.push(("else".to_owned(), "{}".to_owned()));
        SharedRules {
            version: "7".to_owned(),
            entries,
        }
    }

    /// Goal: the store gets what it lacks and nothing else. Method: rules and removals here and there, and an hour later.
    #[test]
    fn the_store_gets_what_it_lacks() {
        let mut view = StoreView::default();
        let there = [rule(1), rule(2), removed(3), removed(4)];
        assert_eq!(view.receive(stored(&there)).len(), 4);
        let own = || {
            vec![
                rule(1),
                removed(2),
                rule(3),
                removed(4),
                rule(5),
                removed(6),
            ]
        };
        let names = |missing: Vec<UnpublishedEntry>| {
            let names = missing.into_iter().map(|entry| {
                let (id, text) = entry.written;
                (id.trim_start_matches('0').to_owned(), text.is_empty())
            });
            names.collect::<Vec<_>>()
        };
        let named = |id: &str, is_end: bool| (id.to_owned(), is_end);
        assert_eq!(
            names(view.missing(own(), NOW)),
            ["2", "5", "6"].map(|id| named(id, false))
        );
        assert_eq!(
            names(view.missing(own(), after(3600))),
            ["1", "2", "3", "4"].map(|id| named(id, true))
        );
    }
}
