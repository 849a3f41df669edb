//! Looks up and changes a key of a limit, in the store too where the limit counts there.

use std::sync::Arc;

use sluicegate_limiter::{Cost, KeyPlacement, Timestamp};

use sluicegate_decide::admission::{ActiveLimit, KeyState, NamedKey};
use sluicegate_decide::store::KeyChange;
use sluicegate_process::snapshot::Snapshot;
use sluicegate_store::{Store, StoreKey};

/// The store in which limits count; `None` where the configuration has none.
#[derive(Clone)]
pub(super) struct SharedKeys(Option<Arc<Store>>);

impl SharedKeys {
    /// Returns the keys in the store of a configuration.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        Self(snapshot.store.clone())
    }

    fn find(&self, limit: &ActiveLimit, named: &NamedKey) -> Option<StoreKey> {
        let name = limit.store_name(named)?;
        Some(StoreKey::new(self.0.as_ref()?, name))
    }

    /// Returns the state of the key, for a shared limit by a call to the store where that is possible.
    pub(super) async fn state(
        &self,
        limit: &ActiveLimit,
        named: &NamedKey,
        now: Timestamp,
    ) -> KeyState {
        let remote = match self.find(limit, named) {
            Some(key) => {
                let policy = limit.counters_of(named).policy();
                key.peek(policy, now).await.ok()
            }
            None => None,
        };
        limit.key_state(named, remote, now)
    }

    /// Clears the counts of the key and its bans, here and in the store; permits of requests in flight stay. With `used`, every rate of
    /// the key counts so much afterwards. The other gateways get the `change`.
    ///
    /// # Errors
    /// The reason why the store was not changed; the counts of this gateway are changed all the same.
    pub(super) async fn set(
        &self,
        limit: &ActiveLimit,
        named: &NamedKey,
        used: Option<Cost>,
        change: KeyChange,
        now: Timestamp,
    ) -> Result<KeyPlacement, String> {
        limit.forget_pending(named);
        let remote = match self.find(limit, named) {
            Some(key) => {
                let policy = limit.counters_of(named).policy();
                key.set(policy, used, change, now).await
            }
            None => Ok(()),
        };
        let counted = limit.set_counts(named, used, now);
        remote.map(|()| counted)
    }
}
