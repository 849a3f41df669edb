//! Looks up one key in the store for an operator, and clears or sets it there.

use std::sync::Arc;

use sluicegate_limiter::{Cost, Decision, Policy, Timestamp};

use super::Store;
use sluicegate_decide::store::KeyChange;
use sluicegate_decide::store::{KeyName, StoreAsk};

/// One key of one limit in the store.
#[derive(Clone, Debug)]
pub struct StoreKey {
    store: Arc<Store>,
    name: KeyName,
}

impl StoreKey {
    /// Returns the key of this name.
    #[must_use]
    pub fn new(store: &Arc<Store>, name: KeyName) -> Self {
        Self {
            store: Arc::clone(store),
            name,
        }
    }

    /// Returns the decision for a request of cost 1; writes nothing.
    ///
    /// # Errors
    /// The cause for which the store gives no decision.
    pub async fn peek(&self, policy: &Policy, now: Timestamp) -> Result<Decision, String> {
        let ask = self.ask(policy, Cost::ONE);
        let decided = self.store.peek(&ask, now).await;
        let decided = decided.map_err(|error| error.to_string())?;
        let result = decided.results.into_iter().next();
        result
            .map(|result| result.decision)
            .ok_or_else(|| "the store gave no answer".to_owned())
    }

    /// Deletes the key, charges `used` if there is any, and publishes this `change` to the other gateways.
    ///
    /// # Errors
    /// The cause for which the store did not do it.
    pub async fn set(
        &self,
        policy: &Policy,
        used: Option<Cost>,
        change: KeyChange,
        now: Timestamp,
    ) -> Result<(), String> {
        let ask = self.ask(policy, used.unwrap_or(Cost::ONE));
        let forgotten = self.store.forget(&self.name).await;
        forgotten.map_err(|error| error.to_string())?;
        if used.is_some() {
            let forced = self.store.charge_unchecked(&ask, now).await;
            forced.map_err(|error| error.to_string())?;
        }
        let published = self.store.publish_change(&self.name, change).await;
        published.map_err(|error| error.to_string())
    }

    fn ask<'a>(&'a self, policy: &'a Policy, cost: Cost) -> StoreAsk<'a> {
        StoreAsk {
            policy,
            name: &self.name,
            cost,
        }
    }
}
