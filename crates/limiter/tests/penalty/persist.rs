//! Bans outlive the process: restarts, edits, kills, and files whose pages are of different ages.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluicegate_limiter::{
    ActiveBan, BanRules, Bans, Limit, OpenOutcome, Rates, Seed, StateDir, StrikeOutcome, TableId,
};
use sluicegate_limiter::{Period, Rate};

use super::common::alone;
use super::{START, after, capacity, key, rules};

/// Where a child finds its state directory.
const HOME: &str = "SLUICEGATE_TEST_BANS";
const MEANING: TableId<'static> = TableId {
    name: "otp",
    key: "client.ip",
};
/// Bytes before the first bucket of a file, of a bucket, and before its overflow word.
const HEADER: u64 = 4096;
const BUCKET: u64 = 128;
const OVERFLOW: u64 = 8;

fn state(home: &Path) -> StateDir {
    StateDir::open(home, Seed::from_bytes([3; 16])).expect("a state directory")
}

fn open(home: &Path, rules: BanRules, keys: u64) -> (Bans, OpenOutcome) {
    Bans::open(&state(home), MEANING, rules, capacity(keys), START).expect("bans")
}

/// Goal: bans, levels and pardons are found again, under whatever rules. Method: reopen; a limit of the same meaning has
/// a file of its own.
#[test]
fn a_restart_forgets_no_ban() {
    let home = tempfile::tempdir().expect("a directory");
    let (bans, adopted) = open(home.path(), rules(10, 1000), 100);
    assert_eq!(adopted, OpenOutcome::Fresh);
    let _ = [0, 10].map(|secs| bans.strike(key(1), after(secs)));
    let _ = [2, 3].map(|number| bans.strike(key(number), START));
    assert!(bans.lift(key(3), START).is_some());
    let before: Vec<_> = (1..5)
        .map(|number| {
            (
                bans.active(key(number), after(10)),
                bans.level(key(number), after(10)),
            )
        })
        .collect();
    drop(bans);
    let rate = Rate::new(5, Period::from_secs(60).expect("a period")).expect("a rate");
    let rates = Rates::new([rate]).expect("rates");
    let (_limit, adopted) =
        Limit::open(&state(home.path()), MEANING, rates, capacity(100), START).expect("a limit");
    assert_eq!(adopted, OpenOutcome::Fresh);
    let (bans, adopted) = alone(|| open(home.path(), rules(10, 2000), 100));
    assert_eq!(adopted, OpenOutcome::Continued);
    let found: Vec<_> = (1..5)
        .map(|number| {
            (
                bans.active(key(number), after(10)),
                bans.level(key(number), after(10)),
            )
        })
        .collect();
    assert_eq!(found, before);
    let (other, adopted) = open(home.path(), rules(10, 2000), 100);
    assert_eq!(adopted, OpenOutcome::Joined);
    assert!(matches!(
        other.strike(key(9), START),
        StrikeOutcome::Begun(_)
    ));
    assert!(
        matches!(bans.strike(key(9), START), StrikeOutcome::InForce(_)),
        "both ban in one table"
    );
    let (_, adopted) = open(home.path(), rules(10, 2000), 1000);
    assert_eq!(
        adopted,
        OpenOutcome::Fresh,
        "another capacity is another file"
    );
}

/// Goal: an edited capacity survives in its new file. Method: edit there and back, reopen after each.
#[test]
fn edited_bans_survive_in_their_new_shape() {
    let home = tempfile::tempdir().expect("a directory");
    let state = state(home.path());
    let rules = rules(1000, 10_000);
    let (mut bans, _) = Bans::open(&state, MEANING, rules, capacity(100), START).expect("bans");
    for (edit, keys) in [1000, 100, 2000].into_iter().enumerate() {
        assert!(bans.strike(key(edit as u64), START).banned().is_some());
        let (edited, kept) = bans.edited_in(&state, MEANING, rules, capacity(keys), START);
        kept.expect("there is room");
        assert!(
            bans.strike(key(100 + edit as u64), START)
                .banned()
                .is_some(),
            "a request that is late"
        );
        drop((edited, bans));
        let (reopened, adopted) =
            alone(|| Bans::open(&state, MEANING, rules, capacity(keys), START).expect("bans"));
        assert_eq!(adopted, OpenOutcome::Continued);
        for edit in 0..=edit as u64 {
            assert!(
                [edit, 100 + edit]
                    .iter()
                    .all(|number| reopened.active(key(*number), START).is_some())
            );
        }
        bans = reopened;
    }
}

/// Goal: no ban is missed for a signpost that is older than it, and none leads astray for ever. Method: the signposts of a
/// full table, cleared and all set, as pages of another age would have them.
#[test]
fn signposts_are_mended_when_a_file_is_adopted() {
    const KEYS: u64 = 2000;
    let home = tempfile::tempdir().expect("a directory");
    let (bans, _) = open(home.path(), rules(1000, 10_000), KEYS);
    let kept: Vec<u64> = (0..KEYS)
        .filter(|number| bans.strike(key(*number), START).banned().is_some())
        .collect();
    let buckets = bans.bytes() as u64 / BUCKET;
    drop(bans);
    let identity = Bans::identity(MEANING, capacity(KEYS));
    let path = home.path().join(identity.file_name());
    for scrawl in [0, u64::MAX] {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("the file");
        let mut posts = Vec::new();
        for bucket in 0..buckets {
            let at = HEADER + bucket * BUCKET + OVERFLOW;
            let mut post = [0; 8];
            file.read_exact_at(&mut post, at).expect("it is there");
            posts.push(u64::from_le_bytes(post));
            file.write_all_at(&scrawl.to_le_bytes(), at)
                .expect("it is there");
        }
        assert!(posts.iter().any(|post| *post != 0) && posts.iter().any(|post| *post != u64::MAX));
        let (bans, adopted) = alone(|| open(home.path(), rules(1000, 10_000), KEYS));
        assert_eq!(adopted, OpenOutcome::Continued);
        assert!(
            kept.iter()
                .all(|number| bans.active(key(*number), START).is_some())
        );
    }
}

/// A child's life, when the test binary is run as one: strikes one key after the other and says which, until it is killed.
/// Each new key after the first hundred takes over a slot of which nothing is remembered.
#[test]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let (bans, _) = open(Path::new(&home), rules(1, 1), 100);
    let mut said = std::io::stderr();
    for turn in 0_u64.. {
        let number = u64::from(std::process::id()) << 32 | turn;
        let begun = matches!(
            bans.strike(key(number), after(turn / 20)),
            StrikeOutcome::Begun(_)
        );
        if !begun || said.write_all(&number.to_le_bytes()).is_err() {
            return;
        }
    }
}

fn spawn(home: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this is one"))
        .args(["--exact", "persist::child", "--nocapture"])
        .env(HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Goal: a ban that was told survives `kill -9`, and nobody is banned who was not struck. Method: children are killed
/// somewhere in the middle of taking over slots; the latest that each told is found, and whoever is found was struck.
#[test]
fn bans_outlive_kills() {
    let home = tempfile::tempdir().expect("a directory");
    let mut words = 40;
    for round in 0..25 {
        let mut child = spawn(home.path());
        let mut said = vec![0; 8 * words];
        let pipe = child.stderr.as_mut().expect("it is piped");
        pipe.read_exact(&mut said).expect("it goes on");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        child
            .stderr
            .take()
            .expect("it is piped")
            .read_to_end(&mut said)
            .expect("it is there");
        words = 40 + (words * 31 + round) % 600;
        let told: Vec<u64> = said
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let last = told[told.len() - 1];
        let (bans, adopted) = open(home.path(), rules(1, 1), 100);
        assert_ne!(adopted, OpenOutcome::Joined);
        let now = after((last & 0xffff_ffff) / 20);
        let left = std::time::Duration::from_secs(1);
        assert_eq!(
            bans.active(key(last), now),
            Some(ActiveBan { left, level: 1 })
        );
        // What was struck, one more that was not told, and bits of hashes that a table does not keep.
        let struck: Vec<u64> = told
            .iter()
            .copied()
            .chain([last + 1])
            .map(|number| key(number).bits() | 1)
            .collect();
        let banned: Vec<_> = bans
            .banned_keys(now)
            .filter(|offender| offender.banned.is_some())
            .collect();
        assert!(
            banned
                .iter()
                .all(|offender| struck.contains(&(offender.key.bits() | 1)))
        );
        drop(bans);
        // Every round begins at the same moment: what is banned in it was struck in it.
        std::fs::remove_file(
            home.path()
                .join(Bans::identity(MEANING, capacity(100)).file_name()),
        )
        .expect("it is there");
    }
}
