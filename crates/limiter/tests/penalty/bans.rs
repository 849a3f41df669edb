//! Bans: one for any number of refusals at a time, longer each time, and nobody's is forgotten to make room.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_limiter::{ActiveBan, BanStats, Bans, StrikeOutcome};

use super::{START, after, capacity, key, random, rules, together};

fn bans(first: u64, max: u64, keys: u64) -> Bans {
    Bans::new(rules(first, max), capacity(keys))
}

fn banned(secs: u64, level: u8) -> ActiveBan {
    let left = Duration::from_secs(secs);
    ActiveBan { left, level }
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Operation {
    Strike(u64),
    Lift(u64),
    Wait(u64),
    Edit(u64),
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..6_u64).prop_map(Operation::Strike),
        1 => (0..6_u64).prop_map(Operation::Lift),
        5 => prop_oneof![0..30_u64, 0..2_000_u64].prop_map(Operation::Wait),
        1 => (40..80_u64).prop_map(Operation::Edit),
    ]
}

/// What a plain list of bans says of a key: when the latest ends, and how many in a row there were.
type Listed = HashMap<u64, (u64, u32)>;

proptest! {
    /// Goal: every key's ban is what a plain list says, whatever happens to others and whatever is edited. Method: random
    /// strikes, pardons, waits and edits of the capacity beside a list.
    #[test]
    fn bans_are_what_a_plain_list_says(operations in prop::collection::vec(any_operation(), 1..120)) {
        const FIRST: u64 = 10;
        const MAX: u64 = 100;
        let (mut bans, mut listed, mut secs) = (bans(FIRST, MAX, 64), Listed::new(), 0);
        let length = |level: u32| (FIRST << (level - 1)).min(MAX);
        for operation in operations {
            match operation {
                Operation::Strike(number) => {
                    let (end, level) = listed.get(&number).copied().unwrap_or_default();
                    let struck = bans.strike(key(number), after(secs));
                    if secs < end {
                        prop_assert_eq!(struck, StrikeOutcome::InForce(banned(end - secs, level as u8)));
                    } else {
                        let forgotten = u32::try_from((secs - end) / MAX).expect("few");
                        let level = (level.saturating_sub(forgotten) + 1).min(5);
                        prop_assert_eq!(struck, StrikeOutcome::Begun(banned(length(level), level as u8)));
                        listed.insert(number, (secs + length(level), level));
                    }
                }
                Operation::Lift(number) => {
                    let active = bans.active(key(number), after(secs));
                    prop_assert_eq!(bans.lift(key(number), after(secs)), active);
                    listed.remove(&number);
                }
                Operation::Wait(more) => secs += more,
                Operation::Edit(keys) => bans = bans.edited(*bans.rules(), capacity(keys), after(secs)),
            }
            let mut remembered = 0;
            for number in 0..6 {
                let (end, level) = listed.get(&number).copied().unwrap_or_default();
                let active = (secs < end).then(|| banned(end - secs, level as u8));
                prop_assert_eq!(bans.active(key(number), after(secs)), active);
                let level = u64::from(level).saturating_sub(secs.saturating_sub(end) / MAX);
                prop_assert_eq!(u64::from(bans.level(key(number), after(secs))), level);
                remembered += u64::from(level > 0);
            }
            prop_assert_eq!(bans.banned_keys(after(secs)).count() as u64, remembered);
            prop_assert_eq!(bans.occupancy(after(secs)).live, remembered);
        }
    }
}

/// Goal: racing refusals make one ban. Method: eight threads strike new keys at one moment, then again when the bans are
/// over; each key has begun once a round, and all are told the same.
#[test]
fn racing_strikes_make_one_ban() {
    const KEYS: u64 = 2000;
    let bans = bans(10, 100, KEYS);
    for (secs, level) in [(0, 1), (10, 2), (30, 3)] {
        let begun: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        together(8, |_| {
            for (number, begun) in begun.iter().enumerate() {
                let struck = bans.strike(key(number as u64), after(secs));
                assert_eq!(struck.banned(), Some(banned(10 << (level - 1), level)));
                if let StrikeOutcome::Begun(_) = struck {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert!(begun.iter().all(|begun| begun.load(Ordering::Relaxed) == 1));
    }
    assert_eq!(bans.stats().begun, 3 * KEYS);
}

/// Goal: who goes on asking does not lengthen his ban. Method: strikes all along.
#[test]
fn a_strike_in_force_changes_nothing() {
    let bans = bans(10, 100, 10);
    for secs in 0..10 {
        assert_eq!(
            bans.strike(key(1), after(secs)).banned(),
            Some(banned(10 - secs, 1))
        );
    }
    assert_eq!(bans.active(key(1), after(10)), None);
    assert_eq!(bans.level(key(1), after(109)), 1);
    assert_eq!(
        bans.level(key(1), after(110)),
        0,
        "one level is forgotten for each max"
    );
}

/// Goal: nobody is forgotten to make room, and who finds none is told so. Method: a hundred times the capacity in
/// strikes; those that were kept are banned to the end, the others never were, and the statistics say how many.
#[test]
fn a_flood_of_strikes_makes_nobody_forgotten() {
    let bans = bans(60, 600, 200);
    let (bytes, mut kept, mut not_kept) = (bans.bytes(), Vec::new(), Vec::new());
    for number in 0..20_000 {
        match bans.strike(key(number), START) {
            StrikeOutcome::Begun(_) => kept.push(number),
            StrikeOutcome::InForce(_) => unreachable!("it was never struck"),
            StrikeOutcome::NotKept => not_kept.push(number),
        }
    }
    assert!(kept.len() >= 200 && not_kept.len() > 10_000);
    // Remembered, though not banned any more: they are not forgotten either.
    for (secs, active) in [(59, Some(banned(1, 1))), (60, None), (659, None)] {
        for number in &kept {
            assert_eq!(bans.active(key(*number), after(secs)), active);
            assert_eq!(bans.level(key(*number), after(secs)), 1);
        }
        for number in &not_kept {
            assert_eq!(bans.active(key(*number), after(secs)), None);
        }
        assert_eq!(
            bans.strike(key(not_kept[0]), after(secs)),
            StrikeOutcome::NotKept
        );
    }
    let stats = BanStats {
        begun: kept.len() as u64,
        not_kept: not_kept.len() as u64 + 3,
        slots_reused: 0,
    };
    assert_eq!((bans.stats(), bans.bytes()), (stats, bytes));
    assert_eq!(bans.occupancy(after(659)).live, kept.len() as u64);
    assert_eq!(
        bans.strike(key(not_kept[0]), after(660)).banned(),
        Some(banned(60, 1)),
        "all is forgotten now"
    );
    assert_eq!(bans.stats().slots_reused, 1);
}

/// Goal: a ban is found in whichever bucket it was seated. Method: tables filled to their capacity, in which many keys
/// live in their second bucket; none but those that were struck is banned.
#[test]
fn every_ban_of_a_full_table_is_found() {
    const KEYS: u64 = 50_000;
    let bans = bans(60, 600, KEYS);
    for number in 0..KEYS {
        assert!(
            bans.strike(key(number), START).banned().is_some(),
            "capacity holds what it says"
        );
    }
    assert!((0..KEYS).all(|number| bans.active(key(number), START).is_some()));
    assert!((KEYS..2 * KEYS).all(|number| bans.active(key(number), START).is_none()));
}

/// Goal: a clock that steps back makes no ban longer than its length from then. Method: steps of all sizes during a ban
/// of the third level; it ends as told.
#[test]
fn a_clock_that_steps_back_makes_no_ban_longer_than_it_is() {
    for back in [1, 30, 3_600, 1_000_000_000] {
        let bans = bans(10, 1_000, 10);
        for secs in [0, 10, 30] {
            assert!(bans.strike(key(1), after(secs)).banned().is_some());
        }
        let now = after(40).saturating_sub(Duration::from_secs(back));
        let left = Duration::from_secs((30 + back).min(40));
        assert_eq!(bans.active(key(1), now), Some(ActiveBan { left, level: 3 }));
        assert_eq!(
            bans.strike(key(1), now),
            StrikeOutcome::InForce(ActiveBan { left, level: 3 })
        );
        let over = now.saturating_add(left);
        assert!(
            bans.active(key(1), over.saturating_sub(Duration::from_millis(1)))
                .is_some()
        );
        assert_eq!(bans.active(key(1), over), None);
    }
}

/// Goal: an edit of the rules continues bans and keeps levels. Method: longer and shorter rules during a ban.
#[test]
fn an_edit_of_the_rules_continues_what_is_in_force() {
    let old = bans(10, 100, 100);
    let [_, second] = [0, 10].map(|secs| old.strike(key(1), after(secs)));
    assert_eq!(second.banned(), Some(banned(20, 2)));
    let longer = old.edited(rules(60, 600), capacity(100), after(15));
    assert_eq!(longer.active(key(1), after(15)), Some(banned(15, 2)));
    assert_eq!(
        longer.strike(key(1), after(30)).banned(),
        Some(banned(240, 3))
    );
    // In force under either: they share the table.
    let shorter = longer.edited(rules(5, 10), capacity(100), after(40));
    assert_eq!(
        shorter.active(key(1), after(40)),
        Some(banned(10, 3)),
        "no longer than the new rules make it"
    );
    assert_eq!(shorter.active(key(1), after(50)), None);
    assert_eq!(shorter.level(key(1), after(50)), 3);
}

/// Goal: an edit of the capacity loses no ban, and one that is too small loses first what is only remembered. Method: edit
/// a full table up and down.
#[test]
fn an_edit_of_the_capacity_takes_bans_along() {
    let old = bans(60, 600, 1000);
    for number in 0..1000 {
        let secs = if number < 900 { 0 } else { 100 };
        assert!(old.strike(key(number), after(secs)).banned().is_some());
    }
    let now = after(100);
    let larger = old.edited(*old.rules(), capacity(5000), now);
    assert!((0..1000).all(|number| larger.level(key(number), now) == 1));
    assert_eq!(larger.stats(), old.stats());
    assert!(
        old.strike(key(2000), now).banned().is_some(),
        "a request that is late"
    );
    assert!(larger.active(key(2000), now).is_some());
    let smaller = larger.edited(*old.rules(), capacity(120), now);
    assert!((900..1000).all(|number| smaller.active(key(number), now).is_some()));
    let forgotten = (0..900)
        .filter(|number| smaller.level(key(*number), now) == 0)
        .count() as u64;
    assert!(forgotten > 500);
    assert_eq!(smaller.stats().not_kept, forgotten);
    assert!(
        larger.lift(key(950), now).is_some(),
        "a pardon reaches the newest"
    );
    assert_eq!(smaller.active(key(950), now), None);
}

/// Goal: no ban is lost between tables while the capacity is edited. Method: threads strike new keys by whatever handle
/// they have while another edits; every ban that was told is found in the end.
#[test]
fn bans_that_begin_during_an_edit_are_found_after_it() {
    const EACH: u64 = 4000;
    let current = RwLock::new(bans(6_000, 60_000, 6 * EACH));
    together(4, |thread| {
        for turn in 0..EACH {
            let mine = current.read().expect("no thread panics").clone();
            if thread < 3 {
                let struck = mine.strike(key(EACH * thread as u64 + turn), START);
                assert!(matches!(struck, StrikeOutcome::Begun(_)));
            } else if turn < 40 {
                let edited = mine.edited(*mine.rules(), capacity(6 * EACH + turn % 2), START);
                *current.write().expect("no thread panics") = edited;
            }
        }
    });
    let bans = current.into_inner().expect("no thread panicked");
    assert!((0..3 * EACH).all(|number| bans.active(key(number), START) == Some(banned(6_000, 1))));
    assert_eq!(bans.banned_keys(START).count() as u64, 3 * EACH);
    assert_eq!(bans.stats().not_kept, 0);
}

/// Goal: invariants of the table while slots change hands all the time: no key is banned that was not struck, none that was
/// struck and kept is not. Method: rounds at one moment each, more keys than slots, bans of a second.
#[test]
fn nobody_is_banned_for_another_while_slots_change_hands() {
    const KEYS: u64 = 40;
    let bans = Bans::with_buckets(rules(1, 1), 2);
    for round in 0..2000_u64 {
        // Three seconds after a ban nothing is remembered.
        let now = after(3 * round);
        let kept: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        together(4, |thread| {
            let mut state = round * 4 + thread as u64;
            for _ in 0..6 {
                let number = random(&mut state) % KEYS;
                if let StrikeOutcome::Begun(ban) = bans.strike(key(number), now) {
                    assert_eq!(ban, banned(1, 1));
                    kept[number as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for (number, kept) in kept.into_iter().enumerate() {
            let kept = kept.into_inner();
            assert!(kept <= 1);
            assert_eq!(bans.active(key(number as u64), now).is_some(), kept == 1);
        }
    }
    let stats = bans.stats();
    assert!(
        stats.slots_reused > 1000 && stats.not_kept > 100,
        "the test met its cases: {stats:?}"
    );
}

/// Goal: operators see who is banned for longest. Method: bans of several ages and levels.
#[test]
fn the_longest_bans_are_told_first() {
    let bans = bans(10, 100, 100);
    for number in 0..30 {
        assert!(bans.strike(key(number), after(number)).banned().is_some());
    }
    // Of 30 keys 10 are banned still; of those that are not, one has been twice.
    assert!(bans.strike(key(3), after(14)).banned().is_some());
    let top = bans.top(12, after(34));
    let told: Vec<_> = top
        .iter()
        .map(|offender| (offender.banned, offender.level))
        .collect();
    let (longest, last) = (told[0], told[4]);
    assert_eq!(longest, (Some(banned(5, 1)), 1));
    assert_eq!(last, (Some(banned(1, 1)), 1));
    assert_eq!(told[5], (None, 2));
    assert_eq!(top[5].key.bits() | 1, key(3).bits() | 1);
    assert_eq!((top.len(), bans.top(5000, after(34)).len()), (12, 30));
}
