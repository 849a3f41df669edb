//! Decides what becomes of what is owed to a store when a reload puts another in its place, or none.
//!
//! What is owed follows the counters. Where limits go on in another store that names keys alike, the debts are told there: nobody asks the
//! one that was left any more, and it may be left because it is dead. Pushes in doubt keep their numbers, so that a replica that takes its
//! master's place counts them once. The first gateway that comes to an empty store brings the seed of the one it left, so that keys have
//! the same names there; and whom the one before had refused is refused on, until the new one says something else.
//!
//! Where nothing follows, since `[store]` is gone, or keys have other names from now on, the debts are told to the store that is left:
//! other gateways may still count there. It has [`PATIENCE`] for that, in which requests that began before the reload are settled too.
//!
//! # Limits
//! A store that is left is forgotten after [`PATIENCE`], whatever it still is to be told; that is said in the log.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sluicegate_redis_link::Link;
use tracing::warn;

use super::Store;
use super::client::SharedState;
use super::replication::{SyncQueues, SyncSession};
use super::sync::HURRY;
use crate::clock;
use crate::config::rules::StoreSeed;

/// How long one that is left is told what it is owed: what a request may last that counts by its answer, mostly.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells a store that is in force no more what it is owed, and lets it go.
pub(super) async fn leave(store: Arc<Store>) {
    let since = clock::now();
    while clock::since(since) < PATIENCE {
        store.sync().await;
        // Whoever else holds it may still charge.
        if store.owes() == 0 && Arc::strong_count(&store) == 1 {
            return;
        }
        tokio::time::sleep(HURRY).await;
    }
    let keys = store.owes();
    if keys > 0 {
        warn!(
            "store: the one that was left is not told what {keys} keys owe; this gateway alone counts it"
        );
    }
}

impl Store {
    /// Keys that it is yet to be told of.
    fn owes(&self) -> usize {
        let ledger = &self.ledger;
        let unanswered = usize::from(ledger.pushed.oldest_unanswered().is_some());
        ledger.owed.backlog().keys + ledger.unsent.keys() + unanswered
    }

    /// Whether it is known that names of keys mean here what they were made for. Where they do not, since the store hashes keys under
    /// another seed, what is owed under them is forgotten, and counted as lost: this gateway goes on counting it.
    pub(super) fn knows_names(&self, exchange: &mut SyncSession, books: SyncQueues<'_>) -> bool {
        let Some(seed) = Link::seed(self) else {
            return false;
        };
        let before = self.ledger.named_under(seed);
        if before.is_some_and(|before| before != seed) {
            exchange.give_up(books);
            let lost = books
                .owed
                .forget_due()
                .saturating_add(books.unsent.forget());
            if lost > 0 {
                _ = books.owed.lose(lost);
                warn!(
                    "store: it hashes keys under another seed, so {lost} units cannot be told to it; this gateway alone counts them"
                );
            }
        }
        true
    }
}

impl SharedState {
    /// What names were made with until now; from now on this is it.
    fn named_under(&self, seed: StoreSeed) -> Option<StoreSeed> {
        // It is replaced whole, so a poisoned lock still holds one.
        let mut under = self.under.lock().unwrap_or_else(PoisonError::into_inner);
        under.replace(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::rules::StoreRules;
    use crate::record::StoreCallCounts;

    fn rules(place: &str) -> StoreRules {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:80\"\n[store]\n{place}\n\
             [limit.a]\nkey = \"global\"\nrates = [\"1 per 1s\"]\nstore = \"shared\"\n\
             [[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = {{ status = 200 }}\n"
        );
        let rules = parse("gateway.toml", &text).expect("a configuration").rules;
        rules.store.expect("a store")
    }

    fn store(rules: StoreRules, before: Option<&Store>) -> Store {
        Store::new(rules, Arc::<StoreCallCounts>::default(), before)
    }

    /// Goal: debts follow the names of keys. Method: edits of how the store is reached, of where it is, and of what keys are called there.
    #[test]
    fn debts_go_where_keys_have_the_same_names() {
        let url = "url = \"redis://127.0.0.1:1\"";
        let old = store(rules(url), None);
        let mut secret = rules(url);
        secret.secret = Some(StoreSeed([7; 16]));
        for (after, follows) in [
            (rules(&format!("{url}\ntimeout = \"9ms\"")), true),
            (rules("url = \"redis://127.0.0.1:2\""), true),
            (rules("cluster = [\"127.0.0.1:2\"]"), true),
            (rules(&format!("{url}\nprefix = \"b\"")), false),
            (secret, false),
        ] {
            let new = store(after, Some(&old));
            assert_eq!(new.follows(&old), follows, "{:?}", new.rules());
        }
    }
}
