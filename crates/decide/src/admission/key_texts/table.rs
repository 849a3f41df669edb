//! Decides which texts of a limit's keys are kept: those of the banned keys, of the heaviest, of those that operators look at, and of those
//! that were rejected most.
//!
//! # Invariants
//! 1. The text of a banned key stays while its ban is in force, whatever other keys come; that of a ban by hand takes the place of another
//!    one where there is none.
//! 2. The text of a key that is named stays until it is no longer named.
//! 3. The text of a rejected key goes only to one that takes its place in [`SpaceSaving`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sluicegate_base::space_saving::SpaceSaving;

use super::super::overrides::AsItIs;

/// The values of a key in the form that operators see, one for each part; empty where all requests share the key.
pub(in crate::admission) type KeyText = Arc<[String]>;

/// The reader that names keys whose texts are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyNamer {
    /// The walk that finds the heaviest keys.
    Walk,
    /// The list of the keys that are nearest to the limit.
    Nearest,
    /// The list of the banned keys.
    Bans,
}

/// The source of a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) enum BanSource {
    /// The limit.
    Limit,
    /// An operator.
    Operator,
}

/// A map by keyed hashes.
type ByHash<T> = HashMap<u64, T, AsItIs>;

/// The texts of one limit.
#[derive(Debug)]
pub(super) struct TextTable {
    /// Keys of each kind that it may have.
    most: usize,
    /// The texts of named keys, and of others while there is room.
    seen: ByHash<KeyText>,
    /// The keys that each namer has named last.
    named: [HashSet<u64, AsItIs>; 3],
    rejected: SpaceSaving<u64>,
    texts_of_rejected: ByHash<KeyText>,
    banned: ByHash<(KeyText, BanSource)>,
}

impl TextTable {
    /// Has no text, and room for so many keys of each kind.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            seen: ByHash::default(),
            named: Default::default(),
            rejected: SpaceSaving::new(most),
            texts_of_rejected: ByHash::default(),
            banned: ByHash::default(),
        }
    }

    /// Returns the text of a key.
    pub(super) fn text(&self, key: u64) -> Option<&KeyText> {
        let banned = self.banned.get(&key).map(|(text, _)| text);
        let seen = banned.or_else(|| self.seen.get(&key));
        seen.or_else(|| self.texts_of_rejected.get(&key))
    }

    /// Returns the most texts of seen keys, which are those of all keys that are named and some more.
    pub(super) const fn most_seen(most: usize) -> usize {
        2 * most
    }

    /// Returns whether there is room for the text of any key.
    pub(super) fn has_room(&self) -> bool {
        self.seen.len() < Self::most_seen(self.most)
    }

    /// Returns the keys whose texts are known since they were seen.
    pub(super) fn seen(&self) -> impl Iterator<Item = u64> {
        self.seen.keys().copied()
    }

    /// Returns the keys that are named and whose text is unknown.
    pub(super) fn wanted(&self) -> impl Iterator<Item = u64> {
        let named = self.named.iter().flatten().copied();
        named.filter(|key| !self.seen.contains_key(key))
    }

    /// Takes the text of a key that is seen, if there is room or it is named.
    pub(super) fn see(&mut self, key: u64, text: KeyText) {
        if self.seen.contains_key(&key) {
            return;
        }
        if !self.has_room() {
            if !self.is_named(key) {
                return;
            }
            // Fewer are named than there is room for, so one is not.
            let out = self.seen().find(|seen| !self.is_named(*seen));
            if let Some(out) = out {
                self.seen.remove(&out);
            }
        }
        self.seen.insert(key, text);
    }

    /// Notes the keys that are named now, of which the first are taken. Keys that nobody names give up their places.
    pub(super) fn name(&mut self, namer: KeyNamer, keys: impl Iterator<Item = u64>) {
        let most = match namer {
            KeyNamer::Walk => self.most,
            KeyNamer::Nearest | KeyNamer::Bans => self.most / 2,
        };
        self.named[namer as usize] = keys.take(most).collect();
        for key in self.wanted().collect::<Vec<_>>() {
            // It was rejected or banned before.
            if let Some(text) = self.text(key).cloned() {
                self.see(key, text);
            }
        }
        if namer == KeyNamer::Walk {
            let named = &self.named;
            self.seen
                .retain(|key, _| named.iter().any(|keys| keys.contains(key)));
        }
    }

    /// Counts a rejection of a key.
    pub(super) fn reject(&mut self, key: u64, text: &KeyText) {
        if let Some(out) = self.rejected.add(&key) {
            self.texts_of_rejected.remove(&out);
        }
        self.texts_of_rejected
            .entry(key)
            .or_insert_with(|| Arc::clone(text));
    }

    /// Keeps the text of a banned key, if there is room: a ban by hand takes the place of another one.
    pub(super) fn ban(&mut self, key: u64, text: &KeyText, source: BanSource) {
        if let Some((_, before)) = self.banned.get_mut(&key) {
            if source == BanSource::Operator {
                *before = source;
            }
            return;
        }
        if self.banned.len() >= self.most && source == BanSource::Operator {
            let mut banned = self.banned.iter();
            let other = banned.find(|(_, (_, source))| *source == BanSource::Limit);
            if let Some(key) = other.map(|(key, _)| *key) {
                self.banned.remove(&key);
            }
        }
        if self.banned.len() < self.most {
            self.banned.insert(key, (Arc::clone(text), source));
        }
    }

    /// Forgets the texts of bans that have ended.
    pub(super) fn forget_bans(&mut self, is_banned: impl Fn(u64) -> bool) {
        self.banned.retain(|key, _| is_banned(*key));
    }

    fn is_named(&self, key: u64) -> bool {
        self.named.iter().any(|keys| keys.contains(&key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(key: u64) -> KeyText {
        [format!("value {key}")].into()
    }

    #[derive(Clone, Debug)]
    enum Event {
        See(u64),
        Name(KeyNamer, Vec<u64>),
        Reject(u64),
        Ban(u64, BanSource),
        Unban(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        let key = 0_u64..60;
        let namer =
            proptest::sample::select(vec![KeyNamer::Walk, KeyNamer::Nearest, KeyNamer::Bans]);
        let source = proptest::sample::select(vec![BanSource::Limit, BanSource::Operator]);
        prop_oneof![
            4 => key.clone().prop_map(Event::See),
            1 => (namer, proptest::collection::vec(key.clone(), 0..12)).prop_map(|(namer, keys)| Event::Name(namer, keys)),
            4 => key.clone().prop_map(Event::Reject),
            2 => (key.clone(), source).prop_map(|(key, source)| Event::Ban(key, source)),
            1 => key.prop_map(Event::Unban),
        ]
    }

    proptest! {
        /// Goal: the bounds and the first two invariants hold, and each text is that of its key. Method: random events over few keys and
        /// few places, with the bans beside them.
        #[test]
        fn texts_are_bounded_and_those_of_their_keys(events in proptest::collection::vec(event(), 0..300), most in 2_usize..8) {
            let mut table = TextTable::new(most);
            let mut bans = HashSet::new();
            for event in events {
                let pinned: Vec<u64> = table.banned.keys().filter(|key| bans.contains(*key)).copied().collect();
                let by_hand = matches!(event, Event::Ban(_, BanSource::Operator));
                match event {
                    Event::See(key) => {
                        let is_wanted = table.has_room() || table.is_named(key);
                        table.see(key, text(key));
                        prop_assert!(!is_wanted || table.text(key).is_some());
                    }
                    Event::Name(namer, keys) => {
                        let known: Vec<u64> = keys.iter().copied().filter(|key| table.seen.contains_key(key)).collect();
                        table.name(namer, keys.into_iter());
                        prop_assert!(known.iter().all(|key| table.seen.contains_key(key) || !table.is_named(*key)));
                    }
                    Event::Reject(key) => {
                        table.reject(key, &text(key));
                        prop_assert!(table.text(key).is_some());
                    }
                    Event::Ban(key, source) => {
                        bans.insert(key);
                        table.ban(key, &text(key), source);
                    }
                    Event::Unban(key) => {
                        bans.remove(&key);
                    }
                }
                let lost = pinned.iter().filter(|key| bans.contains(*key) && !table.banned.contains_key(*key)).count();
                prop_assert!(lost <= usize::from(by_hand));
                prop_assert!(table.seen.len() <= 2 * most && table.banned.len() <= most && table.texts_of_rejected.len() <= most);
                for key in 0..60 {
                    prop_assert!(table.text(key).is_none_or(|found| **found == *text(key)));
                }
            }
        }
    }

    /// Goal: an attacker with many keys pushes out no text that matters. Method: a heavy, a banned and a much rejected key; then thousands
    /// of others that are seen, rejected and banned, with walks between.
    #[test]
    fn many_keys_push_out_no_text_that_matters() {
        const HEAVY: u64 = 1;
        const BANNED: u64 = 2;
        const REJECTED: u64 = 3;
        let mut table = TextTable::new(64);
        table.see(HEAVY, text(HEAVY));
        table.ban(BANNED, &text(BANNED), BanSource::Limit);
        for number in 0..5_000 {
            let key = 1_000 + number;
            if number % 100 == 0 {
                table.name(KeyNamer::Walk, [HEAVY].into_iter().chain(key - 50..key));
            }
            if number % 10 == 0 {
                table.reject(REJECTED, &text(REJECTED));
            }
            table.see(key, text(key));
            table.reject(key, &text(key));
            table.ban(key, &text(key), BanSource::Limit);
        }
        for key in [HEAVY, BANNED, REJECTED] {
            assert_eq!(table.text(key), Some(&text(key)), "{key}");
        }
        // It takes the place of any ban by the limit.
        table.ban(4, &text(4), BanSource::Operator);
        assert_eq!(table.text(4), Some(&text(4)));
    }
}
