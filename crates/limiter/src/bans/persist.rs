//! Opens bans that survive the process, and edits them so that they go on surviving: as `limit::persist` does for
//! counters.
//!
//! The file is named after the limit, what its keys are, and the capacity. The rules are not part of it: no ban state
//! depends on them.

use std::sync::Arc;

use crate::capacity::Capacity;
use crate::limit::TableId;
use crate::region::{FileIdentity, LayoutId, OpenOutcome, Region, StateError, StateLocation};
use crate::table::{Table, TableStats};
use crate::time::Timestamp;

use super::{BanRules, BanTable, Bans};

/// Names the layout: one word a slot, signposts for overflow words, ban states as `ban_state` packs them. Another packing
/// takes another number than 1 above the rest.
const LAYOUT: u64 = 1 << 16 | Table::<1>::LAYOUT;

impl Bans {
    /// The identity of the bans of this meaning, which may be that of a limit, too. A sweep asks for those in use.
    #[must_use]
    pub fn identity(meaning: TableId<'_>, capacity: Capacity) -> FileIdentity {
        let keys = capacity.keys().to_le_bytes();
        let parts: [&[u8]; 3] = [meaning.key.as_bytes(), b"bans", &keys];
        FileIdentity::new(
            meaning.name,
            LayoutId(LAYOUT),
            Table::<1>::bucket_words_for(capacity),
            &parts,
        )
    }

    /// Bans that go on from those in this place, or begin there.
    ///
    /// Keys must be hashed under the place's seed, and moments come from one clock with those of earlier bans there.
    ///
    /// # Errors
    /// No room for the file, or the system's. [`Bans::new`] bans without a file.
    pub fn open<'a>(
        place: impl Into<StateLocation<'a>>,
        meaning: TableId<'_>,
        rules: BanRules,
        capacity: Capacity,
        now: Timestamp,
    ) -> Result<(Self, OpenOutcome), StateError> {
        let identity = Self::identity(meaning, capacity);
        let heal = |region: &Region| {
            Table::<1>::heal(region);
            Table::<1>::mend_signposts(region);
        };
        let (region, adopted) = place.into().turn()?.region(&identity, now, heal)?;
        let table = Table::within(region, 0, TableStats::default());
        let ban_table = Arc::new(BanTable::new(table));
        let bans = Self {
            rules,
            capacity,
            ban_table,
        };
        Ok((bans, adopted))
    }

    /// Edits like [`edited`](Self::edited); another capacity gets another file, which is found under its name once
    /// all bans are in it.
    ///
    /// # Errors
    /// The bans are edited whatever becomes of the file. An error says that what begins from now on will not survive.
    pub fn edited_in<'a>(
        &self,
        place: impl Into<StateLocation<'a>>,
        meaning: TableId<'_>,
        rules: BanRules,
        capacity: Capacity,
        now: Timestamp,
    ) -> (Self, Result<(), StateError>) {
        let place = place.into();
        let mut drafted = Ok(None);
        let edited = self.edited_with(rules, capacity, now, |before| {
            match place.draft(&Self::identity(meaning, capacity), now) {
                Ok((region, draft)) => {
                    drafted = Ok(Some(draft));
                    Table::within(region, 0, before)
                }
                Err(error) => {
                    drafted = Err(error);
                    Table::new(capacity, 0, before)
                }
            }
        });
        let kept = drafted.and_then(|draft| match draft {
            Some(draft) => draft.publish(),
            None => Ok(()),
        });
        (edited, kept)
    }
}
