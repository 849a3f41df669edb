//! Lets a table take over what a store says of a key.
//!
//! A table that adopts is a view: what it counts is what the store said last, and a refusal by it is one that the store has
//! given or would give. It is a memory, not the truth: what is lost of it is asked again.

use crate::key::KeyHash;
use crate::limit::Limit;
use crate::status::KeyPlacement;
use crate::time::Timestamp;

use crate::remote_state::RemoteState;

impl Limit {
    /// Makes `key` have used what a store says, at this moment of the store's clock, whatever was counted here before.
    ///
    /// A new key that owes something gets a slot. [`KeyPlacement::Overflow`] says that it got none: what it shares with others
    /// counts at least as much as the store does. After an edit of the structure a handle of the old counters tells the new
    /// ones nothing: they learn it with the next answer.
    pub fn adopt(&self, key: KeyHash, state: &RemoteState, now: Timestamp) -> KeyPlacement {
        let words = state.words(&self.policy().compiled_rates());
        self.put_words(key, &words, state, now)
    }
}
