//! C4 for logs: what was charged counts, whoever is killed while he holds a log.
#![cfg(all(feature = "mmap", not(miri)))]

mod common;

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use common::{START, admits, after, alone, ask, capacity, key, left, rates};
use sluicegate_limiter::{
    Algorithm, Ask, Cost, Limit, OpenOutcome, Policy, Seed, StateDir, TableId, reserve,
};

/// Where a child finds its counters.
const HOME: &str = "SLUICEGATE_SURVIVE_EXACT_HOME";
/// Which round a child lives in: later ones begin later.
const ROUND: &str = "SLUICEGATE_SURVIVE_EXACT_ROUND";
/// Keys that a child charges in turn: together they have room for what all children are heard to charge.
const KEYS: u8 = 120;
const COUNT: u32 = 1024;
const MONTH: u32 = 2_678_400;
/// Longer than a child is silent that is alive.
const SILENCE: Duration = Duration::from_secs(60);
/// Set in what a child says of a charge, so that nothing else is taken for it.
const CHARGED: u8 = 0x80;
/// What a child says of a charge that was refused.
const REFUSED: u8 = b'.';

fn open(home: &Path, name: &str, numbers: &[(u32, u32)]) -> (Limit, OpenOutcome) {
    let state = StateDir::open(home, Seed::from_bytes([3; 16])).expect("a state directory");
    let meaning = TableId {
        name,
        key: "client.ip",
    };
    let policy = Policy::new(Algorithm::Exact, rates(numbers)).expect("a policy");
    Limit::open(&state, meaning, policy, capacity(150), START).expect("a limit")
}

/// The limit whose counts are compared with what the children said.
fn kept(home: &Path) -> (Limit, OpenOutcome) {
    open(home, "kept", &[(COUNT, MONTH - 1), (COUNT, MONTH)])
}

/// Logs that children fill and empty by hundreds of entries at a time, so that most are killed while they hold one.
fn churning(home: &Path) -> Limit {
    open(home, "churning", &[(COUNT, 1)]).0
}

/// A child's life, when the test binary is run as one: charges and says so, until it is killed.
#[test]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let home = Path::new(&home);
    let round = std::env::var(ROUND).expect("it is told");
    let begin = 3_600_000 * round.parse::<u64>().expect("a number");
    let ((kept, _), churning) = (kept(home), churning(home));
    let (spent, _) = open(home, "spent", &[(5, MONTH)]);
    let mut said = std::io::stderr();
    for turn in 0_u64.. {
        let number = turn % u64::from(KEYS);
        let word = if admits(&spent, 1, START) {
            b'!'
        } else if admits(&kept, number, START) {
            CHARGED | number as u8
        } else {
            REFUSED
        };
        if said.write_all(&[word]).is_err() {
            return;
        }
        // Both children the same few keys at about the same time; new keys among them, in slots of others.
        for number in [turn % 3, 3 + turn / 100] {
            let ask = Ask {
                cost: Cost::new(300).expect("a cost"),
                ..ask(&churning, number)
            };
            let now = after(begin + turn);
            if let (_, Some(reservation)) = reserve(&[ask], now) {
                reservation.release(now);
            }
        }
    }
}

/// A child with what it says, byte by byte.
struct Talker {
    child: Child,
    said: Receiver<u8>,
}

impl Talker {
    fn spawn(home: &Path, round: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this is one"))
            .args(["--exact", "child", "--nocapture"])
            .env(HOME, home)
            .env(ROUND, round.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let pipe = child.stderr.take().expect("it is piped");
        let (say, said) = mpsc::channel();
        // Read at once, so that what is heard was said just now: a pipe holds thousands of words.
        thread::spawn(move || {
            for word in BufReader::new(pipe).bytes() {
                if word.is_err() || say.send(word.expect("it is one")).is_err() {
                    return;
                }
            }
        });
        Self { child, said }
    }

    /// Listens for so many words.
    fn listen(&self, words: usize, heard: &mut [u32]) {
        for _ in 0..words {
            let word = self.said.recv_timeout(SILENCE);
            count(word.expect("it waits for no dead one"), heard);
        }
    }

    /// Kills the child in the middle of whatever it is doing, and hears the rest.
    fn kill(mut self, heard: &mut [u32]) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.said.iter().for_each(|word| count(word, heard));
    }
}

impl Drop for Talker {
    /// Leaves none behind when the test fails.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(word: u8, heard: &mut [u32]) {
    if word != REFUSED {
        let number = word.checked_sub(CHARGED).filter(|number| *number < KEYS);
        let number = number.expect("nothing passes that is spent, and nobody panics");
        heard[usize::from(number)] += 1;
    }
}

/// Goal: what was said to have been charged is charged, a client that is refused stays so, and nobody waits for the dead.
/// Method: two children at a time share their logs and are killed somewhere, one while the other goes on, 40 in all; then
/// counts against what was heard.
#[test]
fn logs_outlive_forty_kills() {
    const ROUNDS: u64 = 20;
    let home = tempfile::tempdir().expect("a directory");
    let (spent, _) = open(home.path(), "spent", &[(5, MONTH)]);
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
    for round in 0..ROUNDS {
        let [one, other] = [0, 1].map(|_| Talker::spawn(home.path(), round));
        one.listen(some(1000), &mut heard);
        other.listen(some(1000), &mut heard);
        one.kill(&mut heard);
        // What it said by then does not tell whether it goes on.
        other
            .said
            .try_iter()
            .for_each(|word| count(word, &mut heard));
        other.listen(2000, &mut heard);
        other.kill(&mut heard);
    }
    let (kept, adopted) = alone(|| kept(home.path()));
    assert_eq!(adopted, OpenOutcome::Continued);
    for (number, heard) in heard.iter().enumerate() {
        let used = COUNT - left(&kept, number as u64, START);
        // Each of those killed may have charged once more than it said; a claim that met a dead one may count twice.
        assert!(
            (*heard..=heard + 2 * ROUNDS as u32 + 1).contains(&used),
            "{used} used, {heard} heard"
        );
    }
    // What the dead had in hand expires with the rest.
    let churning = churning(home.path());
    let later = after(3_600_000 * ROUNDS);
    for number in 0..10 {
        let decision = churning.peek(key(number), Cost::new(COUNT).expect("a cost"), later);
        assert_eq!(decision.statuses()[0].remaining, COUNT);
        assert!(admits(&churning, number, later));
    }
}
