//! C4: counters survive their process, whenever it is killed.
#![cfg(all(feature = "mmap", not(miri)))]

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{START, admits, after, alone, capacity, left, rates};
use sluicegate_limiter::{
    Ask, Cost, KeyHash, Limit, OpenOutcome, Outcome, Seed, StateDir, TableId, decide,
};

/// Where a child finds its counters.
const HOME: &str = "SLUICEGATE_SURVIVE_HOME";
/// Keys that a child charges in turn.
const KEYS: u64 = 8;
/// No rate of the children's refuses.
const PLENTY: u32 = 1_000_000;
const MONTH: u32 = 2_678_400;

fn open(home: &Path, name: &str, numbers: &[(u32, u32)], keys: u64) -> (Limit, OpenOutcome) {
    let state = StateDir::open(home, Seed::from_bytes([3; 16])).expect("a state directory");
    let meaning = TableId {
        name,
        key: "client.ip",
    };
    Limit::open(&state, meaning, rates(numbers), capacity(keys), START).expect("a limit")
}

/// The limit whose counts are compared with what the children said.
fn kept(home: &Path) -> (Limit, OpenOutcome) {
    open(home, "kept", &[(PLENTY, MONTH - 1), (PLENTY, MONTH)], 100)
}

/// A child's life, when the test binary is run as one: charges and says so, until it is killed. Beside what is compared
/// it seats new keys in slots of others, so that it can be killed in the middle of that.
#[test]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let home = Path::new(&home);
    let (kept, _) = kept(home);
    let (spent, _) = open(home, "spent", &[(5, MONTH)], 100);
    let (churning, _) = open(home, "churning", &[(3, 1), (3, 2)], 20);
    let mut said = std::io::stderr();
    for turn in 0_u64.. {
        let number = turn % KEYS;
        let mut word = [b'0' + number as u8];
        if !admits(&kept, number, START) || admits(&spent, 1, START) {
            word = *b"!";
        }
        for newcomer in 0..5 {
            let number = 1000 * u64::from(std::process::id()) + 5 * turn + newcomer;
            admits(&churning, number, after(100 * turn));
        }
        if said.write_all(&word).is_err() {
            return;
        }
    }
}

fn spawn(home: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this is one"))
        .args(["--exact", "child", "--nocapture"])
        .env(HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Listens to a child for so many words.
fn listen(child: &mut Child, words: usize, heard: &mut [u64]) {
    let mut said = vec![0; words];
    let pipe = child.stderr.as_mut().expect("it is piped");
    pipe.read_exact(&mut said).expect("it goes on");
    count(&said, heard);
}

/// Kills a child in the middle of whatever it is doing, and hears the rest.
fn kill(mut child: Child, heard: &mut [u64]) {
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let mut said = Vec::new();
    let pipe = child.stderr.as_mut().expect("it is piped");
    pipe.read_to_end(&mut said).expect("it is there");
    count(&said, heard);
}

fn count(said: &[u8], heard: &mut [u64]) {
    for word in said {
        let number = word
            .checked_sub(b'0')
            .filter(|number| u64::from(*number) < KEYS);
        let number = number.expect("every charge of plenty passes, none of what is spent");
        heard[usize::from(number)] += 1;
    }
}

/// Goal: what was said to have been charged is charged, and a client that is refused stays so. Method: two children at a
/// time share their counters and are killed somewhere, one while the other goes on, 50 in all; then counts against what
/// was heard.
#[test]
fn counts_outlive_fifty_kills() {
    const ROUNDS: u64 = 25;
    let home = tempfile::tempdir().expect("a directory");
    let (spent, _) = open(home.path(), "spent", &[(5, MONTH)], 100);
    assert!((0..5).all(|_| admits(&spent, 1, START)));
    drop(spent);
    let mut heard = [0; KEYS as usize];
    let mut chance = 1_u64;
    let mut some = |most: u64| {
        // Any sequence will do; where the children are by then nobody knows.
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        1 + ((chance >> 33) % most) as usize
    };
    for _ in 0..ROUNDS {
        let (mut one, mut other) = (spawn(home.path()), spawn(home.path()));
        listen(&mut one, some(2000), &mut heard);
        listen(&mut other, some(2000), &mut heard);
        kill(one, &mut heard);
        listen(&mut other, some(500), &mut heard);
        kill(other, &mut heard);
    }
    let (kept, adopted) = alone(|| kept(home.path()));
    assert_eq!(adopted, OpenOutcome::Continued);
    for (number, heard) in heard.iter().enumerate() {
        let used = u64::from(PLENTY - left(&kept, number as u64, START));
        // Each of those killed may have charged once more than it said.
        assert!(
            (*heard..=heard + 2 * ROUNDS).contains(&used),
            "{used} used, {heard} heard"
        );
    }
}

/// Goal: the counts of the rates are not part of what counters mean, all else is. Method: reopen with other numbers.
#[test]
fn a_restart_with_other_counts_goes_on_and_with_other_periods_begins_anew() {
    let home = tempfile::tempdir().expect("a directory");
    let (limit, adopted) = open(home.path(), "otp", &[(5, 60)], 100);
    assert_eq!(adopted, OpenOutcome::Fresh);
    assert!((0..5).all(|_| admits(&limit, 1, START)));
    drop(limit);
    let (limit, adopted) = alone(|| open(home.path(), "otp", &[(8, 60)], 100));
    assert_eq!(
        (adopted, left(&limit, 1, START)),
        (OpenOutcome::Continued, 3)
    );
    for (numbers, keys) in [
        (&[(8, 30)][..], 100),
        (&[(8, 60)], 1000),
        (&[(8, 60), (9, 90)], 100),
    ] {
        let (limit, adopted) = open(home.path(), "otp", numbers, keys);
        assert_eq!((adopted, left(&limit, 1, START)), (OpenOutcome::Fresh, 8));
    }
    let (limit, adopted) = open(home.path(), "otp", &[(8, 60)], 100);
    assert_eq!((adopted, left(&limit, 1, START)), (OpenOutcome::Joined, 3));
}

/// Goal: an edit's counts survive as the limit's do. Method: edit there and back while it counts, reopen after each;
/// what an older file of the same shape counted is not gone back to.
#[test]
fn an_edited_limit_survives_in_its_new_shape() {
    let home = tempfile::tempdir().expect("a directory");
    let state = StateDir::open(home.path(), Seed::from_bytes([3; 16])).expect("a directory");
    let meaning = TableId {
        name: "otp",
        key: "client.ip",
    };
    let shapes = [100, 1000, 100].map(capacity);
    let reopen =
        |keys| Limit::open(&state, meaning, rates(&[(9, 60)]), keys, START).expect("a limit");
    let (mut limit, _) = reopen(shapes[0]);
    for (edits, keys) in shapes.into_iter().enumerate() {
        let (edited, kept) = limit.edited_in(&state, meaning, rates(&[(9, 60)]), keys, START);
        kept.expect("there is room");
        assert!(admits(&limit, 1, START) && admits(&edited, 1, START));
        drop(edited);
        drop(limit);
        let (reopened, adopted) = alone(|| reopen(keys));
        assert_eq!(adopted, OpenOutcome::Continued);
        // Twice a round, of which one round's is at most counted double, by the copy of what was charged meanwhile.
        assert_eq!(left(&reopened, 1, START), 9 - 2 * (1 + edits as u32));
        limit = reopened;
    }
}

/// Goal: keys are found under the kept seed. Method: a key hashed before and after, though another seed is offered.
#[test]
fn a_key_hashed_under_the_kept_seed_finds_its_count() {
    let home = tempfile::tempdir().expect("a directory");
    let key = |state: &StateDir| -> KeyHash { state.seed().hasher().part(b"client").finish() };
    let meaning = TableId {
        name: "otp",
        key: "client.ip",
    };
    for start in 0..3_u8 {
        let state =
            StateDir::open(home.path(), Seed::from_bytes([start; 16])).expect("a directory");
        let (limit, _) =
            Limit::open(&state, meaning, rates(&[(2, 60)]), capacity(10), START).expect("a limit");
        let ask = Ask {
            limit: &limit,
            key: key(&state),
            cost: Cost::ONE,
            payer: None,
        };
        let passes = decide(&[ask], START).outcome() == Outcome::Admitted;
        assert_eq!(passes, start < 2);
    }
}
