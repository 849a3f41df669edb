//! Ban states compared with a calendar that is advanced day by day, and under clocks and words of any kind.

use proptest::prelude::*;

use super::*;
use crate::bans::BanFactor;

const MARK: KeyMark = KeyMark::from_bits(0x5a5);
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn any_rules() -> impl Strategy<Value = BanRules> {
    let factor = prop_oneof![Just(100_u32), Just(200), 100..1000_u32, Just(10_000)];
    let lengths = (1_000..4_000_u64, 0..60_000_u64);
    (lengths, factor).prop_map(|((first, more), factor)| {
        let factor = BanFactor::from_hundredths(factor).expect("a factor");
        let [first, max] = [first, first + more].map(Duration::from_millis);
        BanRules::new(first, factor, max).expect("rules")
    })
}

/// The plainest thing that does the same: a count of bans that goes down by one at each of its days.
#[derive(Default)]
struct Calendar {
    end: Duration,
    level: u8,
    /// When the next level is forgotten.
    forgets: Duration,
}

impl Calendar {
    /// Turns it to `now`, in time since the beginning.
    fn turn(&mut self, rules: &BanRules, now: Duration) {
        while self.level > 0 && now >= self.forgets {
            self.level -= 1;
            self.forgets += rules.max();
        }
    }

    fn strike(&mut self, rules: &BanRules, now: Duration) {
        if now < self.end {
            return;
        }
        if self.level == 0
            || rules.length(self.level) < rules.max() && rules.factor() > BanFactor::ONE
        {
            self.level += 1;
        }
        self.end = now + rules.length(self.level);
        self.forgets = self.end + rules.max();
    }
}

proptest! {
    /// Goal: bans begin, end, rise and fade as told. Method: strikes at random moments, word against calendar.
    #[test]
    fn a_word_says_what_a_calendar_says(
        rules in any_rules(),
        steps in prop::collection::vec((prop_oneof![0..5_000_u64, 0..400_000_u64], any::<bool>()), 1..80),
    ) {
        let (mut ban_state, mut calendar) = (BanState::none(MARK), Calendar::default());
        let mut passed = Duration::ZERO;
        for (millis, strikes) in steps {
            passed += Duration::from_millis(millis);
            let now = START.saturating_add(passed);
            calendar.turn(&rules, passed);
            if strikes {
                calendar.strike(&rules, passed);
                if let Some(next) = ban_state.after_strike(&rules, now) {
                    ban_state = BanState::from_word(next.word(), MARK);
                }
            }
            let left = calendar.end.saturating_sub(passed);
            let banned = (left > Duration::ZERO).then_some(ActiveBan { left, level: calendar.level });
            prop_assert_eq!(ban_state.active(&rules, now), banned);
            prop_assert_eq!(ban_state.level(&rules, now), calendar.level);
            prop_assert_eq!(BanWeight { rules: &rules, now }.owes(ban_state.word()), calendar.level > 0);
            prop_assert_eq!(ban_state.clamped(&rules, now), None);
        }
    }

    /// Goal: whatever the word and the clock, nothing panics, no ban is longer than its length from now, what is said to
    /// be left is true, and a strike begins a ban exactly when none is in force. Method: any bits, any moment.
    #[test]
    fn any_word_at_any_moment_bans_for_no_longer_than_its_level(
        rules in any_rules(), bits in any::<u64>(), now in any::<u64>(), mark in any::<u64>(), ours in any::<bool>(),
    ) {
        let mark = KeyMark::from_bits(if ours { bits } else { mark });
        let (ban_state, now) = (BanState::from_word(Word::from_bits(bits), mark), Timestamp::from_nanos(now));
        let active = ban_state.active(&rules, now);
        if let Some(banned) = active {
            prop_assert!(banned.left > Duration::ZERO && banned.left <= rules.length(banned.level));
            let clamped = ban_state.clamped(&rules, now).unwrap_or(ban_state);
            prop_assert_eq!(clamped.active(&rules, now), active);
            prop_assert_eq!(clamped.clamped(&rules, now), None);
            let over = now.saturating_add(banned.left);
            prop_assert!(over == Timestamp::from_nanos(u64::MAX) || clamped.active(&rules, over).is_none());
        }
        match ban_state.after_strike(&rules, now) {
            None => prop_assert!(active.is_some()),
            Some(next) => {
                prop_assert!(active.is_none());
                prop_assert!(next.level >= 1 && next.level >= ban_state.level(&rules, now));
                prop_assert!(next.active(&rules, now).is_some());
                prop_assert_eq!(BanState::from_word(next.word(), mark), next);
            }
        }
    }
}

/// Goal: a word that a claim left behind bans nobody else. Method: the word of one mark under another.
#[test]
fn a_word_of_another_mark_says_nothing() {
    let rules = BanRules::new(
        Duration::from_secs(60),
        BanFactor::TWO,
        Duration::from_secs(600),
    );
    let rules = rules.expect("rules");
    let after_strike = BanState::none(MARK)
        .after_strike(&rules, START)
        .expect("none is in force");
    let other = BanState::from_word(after_strike.word(), KeyMark::from_bits(0x5a6));
    assert_eq!(
        (other.active(&rules, START), other.level(&rules, START)),
        (None, 0)
    );
}

/// Goal: an edit of the rules keeps levels, and a ban no longer than the new rules make it. Method: a ban of the highest
/// level under rules with a lower one.
#[test]
fn levels_outlive_the_rules_that_made_them() {
    let rules = |first, max| {
        let [first, max] = [first, max].map(Duration::from_secs);
        BanRules::new(first, BanFactor::TWO, max).expect("rules")
    };
    let (long, short) = (rules(60, 3_840), rules(10, 20));
    let mut ban_state = BanState::none(MARK);
    let mut now = START;
    for _ in 0..9 {
        ban_state = ban_state.after_strike(&long, now).expect("it is over");
        now = now.saturating_add(long.length(ban_state.level));
    }
    assert_eq!((ban_state.level, long.top()), (7, 7));
    let during = now.saturating_sub(Duration::from_secs(3_000));
    let banned = |left, level| {
        Some(ActiveBan {
            left: Duration::from_secs(left),
            level,
        })
    };
    assert_eq!(ban_state.active(&long, during), banned(3_000, 7));
    assert_eq!(ban_state.active(&short, during), banned(20, 7));
    let again = ban_state.after_strike(&short, now).expect("it is over");
    assert_eq!(again.active(&short, now), banned(20, 7));
}
