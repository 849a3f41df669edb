//! Keeps the texts of a limit's keys that operators ask about: an address, a user, a number in place of a hash.
//!
//! The tables of a limit have hashes alone. A text is known only while a request with the key is at hand, so the keys whose text is wanted
//! are known before: the heaviest, which the walk of the table names, and those that a list on the admin listener shows. Rejected and
//! banned keys have their text from the rejection. While a limit has few keys, the texts of all are kept.
//!
//! Nothing is kept where `[log] keys` is `hash`, or without a token on the admin listener: then nobody is shown a text.
//!
//! # Concurrency
//! A request reads one atomic where no text is wanted, and looks into a set of atomics otherwise; it never waits. A text is taken under a
//! lock that is tried once: a request that does not get it leaves the text to the next one.
//!
//! # Limits
//! [`KEY_TEXTS`] keys of each kind for a limit, twice as many of those that are seen, [`KEY_TEXT`] bytes each; fewer of each where all
//! limits together would have more than [`KEY_TEXTS_BYTES`].

mod key_marks;
mod table;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_base::bounds::{KEY_TEXT, KEY_TEXTS, KEY_TEXTS_BYTES, LOGGED_KEY_VALUE};
use sluicegate_limiter::KeyHash;

use key_marks::KeyMarks;
use sluicegate_config::rules::{LoggedKeys, Rules};
use table::TextTable;

pub use table::KeyNamer;
pub(super) use table::{BanSource, KeyText};

/// The least keys of each kind that a limit has, however many limits there are.
const LEAST: usize = 4;
/// Texts of a limit for each key of a kind: two of keys that are seen, one of a rejected and one of a banned key.
const KINDS: u64 = 4;
/// Bytes beside each text: a hash in two tables, a pointer, the values' lengths.
const OVERHEAD: u64 = 128;

/// The form of texts, and the number of keys of each kind that a limit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTextRules {
    shown: LoggedKeys,
    most: usize,
}

/// The texts of one limit's keys.
#[derive(Debug)]
pub struct KeyTexts {
    rules: KeyTextRules,
    /// A [`TextsWanted`].
    wanted: AtomicU8,
    /// The keys that are known where all are wanted, and those that are wanted otherwise.
    marks: KeyMarks,
    table: ApartFromMarks<Mutex<TextTable>>,
}

/// Keeps the lock, which rejections take, off the cache lines that every request reads.
#[derive(Debug)]
#[repr(align(64))]
struct ApartFromMarks<T>(T);

/// The keys whose texts are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum TextsWanted {
    None,
    /// Those that are marked.
    Marked,
    /// All that are not marked.
    AllOthers,
}

impl KeyTextRules {
    /// Returns the rules of a configuration; `None` where no text is ever shown.
    #[must_use]
    pub fn new(rules: &Rules) -> Option<Self> {
        let shown = rules.log.keys;
        if shown == LoggedKeys::Hash || rules.admin.token_file.is_none() {
            return None;
        }
        let limits = rules.limits.len().max(1) as u64;
        let room = KEY_TEXTS_BYTES / limits / (KINDS * (KEY_TEXT as u64 + OVERHEAD));
        let most = usize::try_from(room).map_or(KEY_TEXTS, |most| most.clamp(LEAST, KEY_TEXTS));
        Some(Self { shown, most })
    }
}

impl KeyTexts {
    /// Returns the texts `before`, if they have the form and the bounds of these rules, else none yet.
    #[must_use]
    pub fn new(rules: KeyTextRules, before: Option<&Arc<Self>>) -> Arc<Self> {
        let before = before.filter(|before| before.rules == rules);
        before.map(Arc::clone).unwrap_or_else(|| {
            Arc::new(Self {
                rules,
                wanted: AtomicU8::new(TextsWanted::AllOthers as u8),
                marks: KeyMarks::new(TextTable::most_seen(rules.most)),
                table: ApartFromMarks(Mutex::new(TextTable::new(rules.most))),
            })
        })
    }

    /// Returns the form of the texts.
    #[must_use]
    pub fn shown(&self) -> LoggedKeys {
        self.rules.shown
    }

    /// Returns the text of a key; `None` where it is unknown.
    pub(super) fn text(&self, key: KeyHash) -> Option<KeyText> {
        self.lock().text(key.kept_bits()).cloned()
    }

    /// Takes the text of a key that is at hand, if it is wanted.
    #[inline]
    pub(super) fn offer(&self, key: KeyHash, text: impl FnOnce() -> Vec<String>) {
        if self.wants(key.kept_bits()) {
            self.learn(key.kept_bits(), text);
        }
    }

    #[inline]
    fn wants(&self, key: u64) -> bool {
        // Relaxed: the lock orders what is kept. A request that reads a former value leaves its text to the next one.
        match self.wanted.load(Ordering::Relaxed) {
            wanted if wanted == TextsWanted::None as u8 => false,
            wanted if wanted == TextsWanted::Marked as u8 => self.marks.has(key),
            _ => !self.marks.has(key),
        }
    }

    #[cold]
    fn learn(&self, key: u64, text: impl FnOnce() -> Vec<String>) {
        if let Ok(mut table) = self.table.0.try_lock() {
            let had_room = table.has_room();
            table.see(key, cut(text()));
            match had_room && table.has_room() {
                true => self.marks.add(key),
                false => self.mark(&table),
            }
        }
    }

    /// Names the keys whose texts are wanted, those that matter most first.
    pub fn name(&self, namer: KeyNamer, keys: impl Iterator<Item = KeyHash>) {
        let mut table = self.lock();
        table.name(namer, keys.map(KeyHash::kept_bits));
        self.mark(&table);
    }

    /// Counts the rejection of a key, which may be banned.
    pub(super) fn note_rejection(
        &self,
        key: KeyHash,
        ban: Option<BanSource>,
        text: impl FnOnce() -> Vec<String>,
    ) {
        if let Ok(mut table) = self.table.0.try_lock() {
            let known = table.text(key.kept_bits()).cloned();
            let text = known.unwrap_or_else(|| cut(text()));
            table.reject(key.kept_bits(), &text);
            if let Some(source) = ban {
                table.ban(key.kept_bits(), &text, source);
            }
        }
    }

    /// Keeps the text of a key that an operator has banned.
    pub(super) fn note_ban_by_operator(
        &self,
        key: KeyHash,
        text: impl FnOnce() -> Option<Vec<String>>,
    ) {
        let mut table = self.lock();
        let known = table.text(key.kept_bits()).cloned();
        if let Some(text) = known.or_else(|| text().map(cut)) {
            table.ban(key.kept_bits(), &text, BanSource::Operator);
        }
    }

    /// Forgets the texts of bans that have ended.
    pub fn forget_bans(&self, is_banned: impl Fn(KeyHash) -> bool) {
        let is_banned = |key| is_banned(KeyHash::from_bits(key));
        self.lock().forget_bans(is_banned);
    }

    /// Marks the keys by which requests find out whether their text is wanted.
    fn mark(&self, table: &TextTable) {
        let wanted = if table.has_room() {
            self.marks.replace(table.seen());
            TextsWanted::AllOthers
        } else {
            self.marks.replace(table.wanted());
            match table.wanted().next() {
                Some(_) => TextsWanted::Marked,
                None => TextsWanted::None,
            }
        };
        self.wanted.store(wanted as u8, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, TextTable> {
        // Each text is whole, whatever a thread that panicked had begun.
        self.table.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the values of a key, cut as lines of the access log cut them, and all of them together at [`KEY_TEXT`] bytes.
fn cut(values: Vec<String>) -> KeyText {
    let mut left = KEY_TEXT;
    let cut = values.into_iter().map(|value| {
        let bytes = value.len().min(LOGGED_KEY_VALUE).min(left);
        let kept = &value[..value.floor_char_boundary(bytes)];
        left -= kept.len();
        match kept.len() == value.len() {
            true => value,
            false => format!("{kept}…"),
        }
    });
    cut.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(most: usize) -> Arc<KeyTexts> {
        let shown = LoggedKeys::Plain;
        KeyTexts::new(KeyTextRules { shown, most }, None)
    }

    fn key(number: u64) -> KeyHash {
        KeyHash::from_bits(number << 1)
    }

    fn offer(texts: &KeyTexts, number: u64) {
        texts.offer(key(number), || vec![number.to_string()]);
    }

    /// Goal: a request pays for a text only while its own is wanted. Method: keys until there is no more room; then keys that a walk names,
    /// and others.
    #[test]
    fn only_wanted_texts_are_taken() {
        let texts = texts(8);
        for number in 1..=16 {
            assert!(texts.wants(key(number).kept_bits()));
            offer(&texts, number);
            assert!(!texts.wants(key(number).kept_bits()), "{number}");
        }
        assert_eq!(texts.text(key(16)).as_deref(), Some(&["16".to_owned()][..]));
        assert!(!texts.wants(key(17).kept_bits()));
        texts.offer(key(17), || unreachable!("it is not wanted"));
        // Of those that are kept, the walk still names two; there is room for others then.
        texts.name(KeyNamer::Nearest, [100].map(key).into_iter());
        assert!(texts.wants(key(100).kept_bits()) && !texts.wants(key(17).kept_bits()));
        offer(&texts, 100);
        assert!(texts.text(key(100)).is_some() && !texts.wants(key(100).kept_bits()));
        texts.name(KeyNamer::Walk, [1, 2, 200].map(key).into_iter());
        // One of the first gave up its place to the hundredth.
        let known = (1..=200).filter(|number| texts.text(key(*number)).is_some());
        assert!((2..=3).contains(&known.count()));
        assert!(texts.text(key(100)).is_some());
        assert!(texts.wants(key(200).kept_bits()) && texts.wants(key(17).kept_bits()));
    }

    /// Goal: no client makes a text long. Method: values beyond each bound, in letters of two bytes.
    #[test]
    fn long_values_are_cut() {
        let long = "\u{e9}".repeat(500);
        let values = cut(vec![long.clone(), "short".to_owned(), long.clone(), long]);
        let bytes: usize = values.iter().map(String::len).sum();
        assert!(bytes <= KEY_TEXT + 3 * "…".len(), "{bytes}");
        assert_eq!(values[1], "short");
        assert!(values[0].ends_with('…') && values[0].len() <= LOGGED_KEY_VALUE + "…".len());
    }

    /// Goal: texts of one form are never shown as another. Method: rules that change, and rules that stay.
    #[test]
    fn texts_of_another_form_are_dropped() {
        let before = texts(8);
        offer(&before, 1);
        let plain = before.rules;
        assert!(KeyTexts::new(plain, Some(&before)).text(key(1)).is_some());
        let shown = LoggedKeys::Masked;
        let masked = KeyTexts::new(KeyTextRules { shown, ..plain }, Some(&before));
        assert_eq!(masked.text(key(1)), None);
    }
}
