//! Begins bans by hand.

use std::time::Duration;

use crate::key::KeyHash;
use crate::time::Timestamp;

use super::{Bans, StrikeOutcome};

impl Bans {
    /// Bans `key` for `length` from now on, at most for as long as the rules make the longest ban; a ban in force is replaced.
    ///
    /// The level is the lowest whose bans last as long, and never lower than what is remembered of the key: the next strike after the
    /// ban leads on from there.
    pub fn ban(&self, key: KeyHash, length: Duration, now: Timestamp) -> StrikeOutcome {
        self.begin(key, now, |ban_state| {
            ban_state.banned_for(self.rules(), length, now)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bans::BanRules;
    use crate::bans::rules::BanFactor;
    use crate::capacity::Capacity;

    fn bans() -> Bans {
        let secs = Duration::from_secs;
        let rules = BanRules::new(secs(60), BanFactor::TWO, secs(3600));
        let capacity = Capacity::new(64).expect("a capacity");
        Bans::new(rules.expect("rules"), capacity)
    }

    proptest! {
        /// Goal: a ban by hand lasts as asked, up to the longest of the rules, whatever was remembered, and lifting it ends it whole.
        /// Method: any length after any number of strikes; the ban in force, then the lift, then the level.
        #[test]
        fn a_ban_by_hand_lasts_as_asked(length in 1_u64..10_000, strikes in 0_usize..4) {
            let bans = bans();
            let key = KeyHash::from_bits(0xabc0);
            let mut now = Timestamp::from_secs(1_800_000_000);
            for _ in 0..strikes {
                if let Some(banned) = bans.strike(key, now).banned() {
                    now = banned.until(now);
                }
            }
            let begun = bans.ban(key, Duration::from_secs(length), now).banned();
            let wanted = Duration::from_secs(length.min(3600));
            prop_assert_eq!(begun.map(|banned| banned.left), Some(wanted));
            prop_assert_eq!(bans.active(key, now).map(|banned| banned.left), Some(wanted));
            prop_assert!(bans.lift(key, now).is_some());
            prop_assert!(bans.active(key, now).is_none() && bans.level(key, now) == 0);
        }
    }
}
