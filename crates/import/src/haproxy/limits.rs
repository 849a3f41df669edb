//! Makes limits of what the rules give, each once.

use super::evaluation::CellLimit;
use super::samples::CounterKind;
use super::tables::StickTables;
use crate::client_fields::ProxyFieldUse;
use crate::ledger::Ledger;
use crate::model::{Limit, LimitAction, LimitAlgorithm, TableRemarks};
use crate::names::NamePool;

/// The place of the rule in the sources of a limit: behind the table and the line that tracks.
const RULE: usize = 2;

/// The limits that were made.
pub(super) struct LimitTable<'s> {
    tables: &'s StickTables,
    names: NamePool,
    known: Vec<(CellLimit, String)>,
    pub(super) limits: Vec<Limit>,
}

impl<'s> LimitTable<'s> {
    pub(super) fn new(tables: &'s StickTables) -> Self {
        Self {
            tables,
            names: NamePool::default(),
            known: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// Returns the fields by which limits count and that only a proxy may write.
    pub(super) fn proxy_fields(&self) -> Vec<ProxyFieldUse> {
        let known = self.known.iter();
        known
            .filter_map(|(limit, _)| limit.proxy_field.clone())
            .collect()
    }

    /// Returns the name of a limit, which is made if it is new.
    pub(super) fn name(&mut self, wanted: &CellLimit, ledger: &mut Ledger) -> String {
        if let Some((_, name)) = self.known.iter().find(|(known, _)| known == wanted) {
            return name.clone();
        }
        let ending = match wanted.kind {
            CounterKind::Requests => "requests",
            CounterKind::Errors => "errors",
            CounterKind::InFlight => "in-flight",
        };
        let name = self.names.unique(&format!("{}-{ending}", wanted.table));
        if let Ok(table) = self.tables.get(&wanted.table) {
            ledger.translated(table.section);
        }
        for id in &wanted.sources {
            ledger.translated(*id);
        }
        if let Some(last) = wanted.sources.get(RULE) {
            for what in &wanted.to_fill_in {
                ledger.fill_in_for(*last, what);
            }
            for difference in &wanted.differences {
                ledger.differs(*last, difference.clone());
            }
        }
        let capacity = self
            .tables
            .get(&wanted.table)
            .ok()
            .and_then(|it| it.capacity);
        self.limits.push(Limit {
            name: name.clone(),
            remarks: TableRemarks {
                sources: wanted.sources.clone(),
                differences: wanted.differences.clone(),
            },
            key: wanted.key.clone(),
            on_missing: wanted.on_missing,
            rate: (wanted.most, period(wanted.period.unwrap_or(1))),
            algorithm: LimitAlgorithm::SlidingWindow,
            action: LimitAction::Reject,
            capacity,
            concurrency: (wanted.kind == CounterKind::InFlight).then_some(wanted.most),
            count_if: (wanted.kind == CounterKind::Errors)
                .then_some("response.status in 400..=499"),
            status: wanted.status,
        });
        self.known.push((wanted.clone(), name.clone()));
        name
    }
}

/// Returns a period as the configuration writes it.
fn period(seconds: u64) -> String {
    match seconds {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3_600 => "hour".to_owned(),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}
