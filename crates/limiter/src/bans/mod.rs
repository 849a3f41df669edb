//! Owns the bans: the keys that exceeded their limit, the remaining time, and the number of bans before.
//!
//! A limit refuses while it has no room; a ban refuses longer, and longer each time. Callers check for a ban
//! first ([`Bans::active`]): a banned request charges nothing. When a limit refuses they strike ([`Bans::strike`]).
//!
//! # Guarantee
//! *One ban for any number of refusals at a time:* a strike while a ban is in force changes nothing, and of strikes that
//! race one begins the ban; the others find it. So a ban lasts as long as its level says from the strike that began it,
//! and a client that goes on asking does not lengthen it.
//!
//! *Levels.* The first ban has level 1 and lasts [`BanRules::first`]. A strike after its end leads one level higher, and
//! each level lasts `factor` times the one below, up to `max`. For every `max` without a ban since the end of the latest
//! one level is forgotten. So a key that is banned more often than once in `max` is banned for longer and longer, one that is banned
//! more seldom always for the first length, and the longest ban is remembered for as many `max` as there are levels to
//! it. (To forget a level in the time of the last ban instead would need less memory, but a client that waits as long as it
//! was banned would never rise.)
//!
//! *No key is forgotten to make room.* Slots are taken over only from keys of which nothing is remembered. When all slots
//! that a key could use are taken, its strike is not kept ([`StrikeOutcome::NotKept`], [`BanStats::not_kept`]), and nothing else
//! happens: the limit goes on refusing it.
//!
//! *Time.* A ban is never longer than its length from now, whatever the clock does: a clock that steps back makes it
//! begin anew, at most. [`ActiveBan::left`] is true: once it has passed the ban is over.
//!
//! # Memory
//! A table as a limit's with one rate: fixed, 30 bytes a key at full capacity. Capacity must hold the keys that were banned
//! and are not forgotten: those of the last `max` and its multiples for keys that are banned again.
//!
//! # Concurrency
//! As in `table`. Looking at a key that has no slot reads one bucket: its overflow word, which bans do not need, is a set
//! of *signposts*, one bit of 64 for a key that was seated in its second bucket. A signpost is put up before the key is
//! seated and never taken down while the table is in use: a search that it misleads reads both.

mod ban_state;
mod edit;
mod operator;
#[cfg(feature = "mmap")]
mod persist;
mod rules;
mod top_keys;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::algorithm::Word;
use crate::capacity::Capacity;
use crate::key::KeyHash;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::table::single_word::{CandidateBucket, ClaimOutcome, WordOutcome};
use crate::table::{KeyAddress, Table, TableStats};
use crate::time::Timestamp;

use ban_state::{BanState, BanWeight, KeyMark};
pub use rules::{BanError, BanFactor, BanRules};
pub use top_keys::{BannedKey, BannedKeys};

/// The bans of all keys, and the rules for their lengths.
#[derive(Clone)]
pub struct Bans {
    rules: BanRules,
    capacity: Capacity,
    ban_table: Arc<BanTable>,
}

/// The ban states of all keys, and where they went when the capacity was edited.
struct BanTable {
    table: Table<1>,
    counts: BanCounts,
    /// Set after `successor` is set, as in `limit`.
    moved: AtomicBool,
    successor: OnceLock<Bans>,
    /// Held by an edit and by an operator that lifts a ban; requests never take it.
    edits: Mutex<()>,
}

/// The statistics as they grow. All Relaxed: each is a fact by itself and publishes nothing.
#[derive(Default)]
#[repr(align(128))]
struct BanCounts {
    begun: AtomicU64,
    not_kept: AtomicU64,
}

/// A ban in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveBan {
    /// Remaining time, more than zero; the ban is over when this has passed.
    pub left: Duration,
    /// Position in the row of bans, 1 to 127.
    pub level: u8,
}

/// The result of a strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a strike that was not kept bans nobody"]
pub enum StrikeOutcome {
    /// A ban begins.
    Begun(ActiveBan),
    /// One is in force already, and stays as it is.
    InForce(ActiveBan),
    /// There is no room to remember this key: every slot that it could use belongs to another that is banned or
    /// remembered.
    NotKept,
}

/// Statistics since the bans were made, edits included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BanStats {
    /// Bans that began.
    pub begun: u64,
    /// Strikes that were not kept, and keys that an edit to a smaller capacity had no room for.
    pub not_kept: u64,
    /// Slots taken over from a key of which nothing was remembered any more.
    pub slots_reused: u64,
}

impl ActiveBan {
    /// The end of the ban.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.left)
    }
}

impl StrikeOutcome {
    /// The ban that is in force now, if any.
    #[must_use]
    pub fn banned(self) -> Option<ActiveBan> {
        match self {
            Self::Begun(banned) | Self::InForce(banned) => Some(banned),
            Self::NotKept => None,
        }
    }
}

impl Bans {
    /// Bans without any entry. Memory is for `capacity` keys that are banned or remembered at the same time; none of it is
    /// allocated later.
    #[must_use]
    pub fn new(rules: BanRules, capacity: Capacity) -> Self {
        let table = Table::new(capacity, 0, TableStats::default());
        Self::within(rules, capacity, BanTable::new(table))
    }

    /// Bans in so many buckets: for tests that need keys to collide.
    #[doc(hidden)]
    #[must_use]
    pub fn with_buckets(rules: BanRules, buckets: usize) -> Self {
        let capacity = Capacity::new(buckets as u64).unwrap_or_default();
        let table = Table::with_buckets(buckets, 0, TableStats::default());
        Self::within(rules, capacity, BanTable::new(table))
    }

    fn within(rules: BanRules, capacity: Capacity, ban_table: BanTable) -> Self {
        let ban_table = Arc::new(ban_table);
        Self {
            rules,
            capacity,
            ban_table,
        }
    }

    /// The rules for the lengths of bans.
    #[must_use]
    pub fn rules(&self) -> &BanRules {
        &self.rules
    }

    /// Keys that can be banned or remembered at the same time.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Memory of the table, fixed when it was made.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ban_table.table.bytes()
    }

    /// Computes [`bytes`](Self::bytes) of new bans before any of it is allocated.
    #[must_use]
    pub fn bytes_for(capacity: Capacity) -> u64 {
        Table::<1>::bucket_bytes_for(capacity)
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> BanStats {
        let BanTable { table, counts, .. } = &*self.ban_table;
        BanStats {
            begun: counts.begun.load(Ordering::Relaxed),
            not_kept: counts.not_kept.load(Ordering::Relaxed),
            slots_reused: table.stats().slots_reused,
        }
    }

    /// The ban of `key` that is in force. Of a key that never was banned it mostly reads one bucket, and writes nothing; it
    /// writes only to moderate a ban whose end has come too far ahead.
    #[must_use]
    #[inline]
    pub fn active(&self, key: KeyHash, now: Timestamp) -> Option<ActiveBan> {
        let at = self.ban_table.table.address(key);
        let word = self.ban_table.table.word_by_signpost(at)?;
        self.standing_by(word, at, now)
    }

    /// The ban that a key's word says is in force.
    fn standing_by(&self, word: Word, at: KeyAddress, now: Timestamp) -> Option<ActiveBan> {
        let mark = mark(at);
        let ban_state = BanState::from_word(word, mark);
        let banned = ban_state.active(&self.rules, now)?;
        if ban_state.clamped(&self.rules, now).is_some() {
            let moderate = |word| {
                BanState::from_word(word, mark)
                    .clamped(&self.rules, now)
                    .map(BanState::word)
            };
            // What another thread has made of it meanwhile is as good.
            let _ = self.ban_table.table.change_word(at, moderate);
        }
        Some(banned)
    }

    /// Number of bans in a row that are remembered of `key`, the one in force included. Writes nothing.
    #[must_use]
    pub fn level(&self, key: KeyHash, now: Timestamp) -> u8 {
        let at = self.ban_table.table.address(key);
        let word = self.ban_table.table.word_at(at);
        word.map_or(0, |word| {
            BanState::from_word(word, mark(at)).level(&self.rules, now)
        })
    }

    /// Bans a key that exceeded its limit, unless it is banned already.
    pub fn strike(&self, key: KeyHash, now: Timestamp) -> StrikeOutcome {
        self.begin(key, now, |ban_state| {
            ban_state.after_strike(&self.rules, now)
        })
    }

    /// Begins the ban that `next` makes of what is remembered of a key, unless it makes none.
    fn begin(
        &self,
        key: KeyHash,
        now: Timestamp,
        next: impl Fn(BanState) -> Option<BanState>,
    ) -> StrikeOutcome {
        let at = self.ban_table.table.address(key);
        // Another round means that another thread seated this key, or had its turn taken away.
        let word = loop {
            let change = |word| next(BanState::from_word(word, mark(at))).map(BanState::word);
            match self.ban_table.table.change_word(at, change) {
                WordOutcome::Written(word, _) => break word,
                WordOutcome::Left(word) => {
                    if let Some(banned) = self.standing_by(word, at, now) {
                        return StrikeOutcome::InForce(banned);
                    }
                }
                WordOutcome::Nowhere => {
                    let none = BanState::none(mark(at));
                    let first = next(none).unwrap_or(none).word();
                    match self.claim_slot(at, first, now) {
                        ClaimOutcome::Claimed(word, _) => break word,
                        ClaimOutcome::Lost(_) => {}
                        ClaimOutcome::NoRoom => return self.not_kept(key, now),
                    }
                }
            }
        };
        let newest = self.tell_successors(key, word, now);
        newest
            .ban_table
            .counts
            .begun
            .fetch_add(1, Ordering::Relaxed);
        match BanState::from_word(word, mark(at)).active(&self.rules, now) {
            Some(banned) => StrikeOutcome::Begun(banned),
            // A ban lasts a second at least; there is none only at the end of time.
            None => StrikeOutcome::NotKept,
        }
    }

    /// Seats a key with its first word.
    fn claim_slot(&self, at: KeyAddress, first: Word, now: Timestamp) -> ClaimOutcome {
        let table = &self.ban_table.table;
        let rules = &self.rules;
        let Some(turn) = table.turn(at) else {
            return ClaimOutcome::Lost(None);
        };
        let put = |_, bucket_index| {
            if bucket_index == CandidateBucket::Second {
                table.put_signpost(at);
            }
            first
        };
        let claimed = table.claim_word(&turn, at, &BanWeight { rules, now }, put);
        if let ClaimOutcome::Lost(Some((mine, slot_ref))) = claimed {
            // It says nothing of the slot's owner, but would keep it from new keys.
            table.change_word_at(slot_ref, |word| (word == mine).then_some(Word::UNUSED));
        }
        claimed
    }
}

/// The mark of a key: other bits than those that name its signpost and its buckets.
fn mark(at: KeyAddress) -> KeyMark {
    KeyMark::from_bits(at.middle())
}

impl BanTable {
    fn new(table: Table<1>) -> Self {
        Self {
            table,
            counts: BanCounts::default(),
            moved: AtomicBool::new(false),
            successor: OnceLock::new(),
            edits: Mutex::new(()),
        }
    }
}

impl BanCounts {
    /// Goes on from what was counted before. What is counted there at this very moment may be missed.
    fn add(&self, before: &Self) {
        for (count, before) in [
            (&self.begun, &before.begun),
            (&self.not_kept, &before.not_kept),
        ] {
            count.fetch_add(before.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Bans {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Bans")
            .field("rules", &self.rules)
            .field("capacity", &self.capacity)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
