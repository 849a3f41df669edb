//! Declares `[challenge]`: the keys that sign challenges, and `[limit.NAME.challenge]`: what a browser has to do.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluicegate_base::secret::Secret;
use sluicegate_config_derive::Table;

use crate::declaration::{DurationIn, IntegerIn, ListBy, ReadBy, TEXT};
use crate::field::{KeyField, quoted, text_of};
use crate::section::TableSection;

pub(crate) const EXAMPLE: &str = "{ key_file = \"/etc/sluicegate/challenge.key\" }";

/// Least length of a key: as many hexadecimal digits as 128 bits have.
const SHORTEST_KEY: usize = 32;

/// Most keys of a file: the one that signs, and the one before.
const MOST_KEYS: usize = 2;

/// Leading zero bits that a proof may need. A script of a browser makes about a million hashes a second: 24 bits take it 16 seconds.
const BITS: RangeInclusive<u64> = 8..=24;

/// Shortest and longest wait of a browser without script.
const WAITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(300);

/// Shortest and longest validity of a solution.
const VALIDITIES: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(86_400);

/// The keys that sign challenges and their solutions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Table)]
#[table(path = "challenge")]
pub struct ChallengeKeyRules {
    /// A file, watched like this one, with one or two keys, one per line, of 32 or more visible characters each: openssl rand -hex 32. The
    /// first key signs; both are accepted. To rotate, put the new key first and remove the old one after `valid_for`. All gateways of a
    /// fleet need the same file. Default: a random key of this gateway, kept for the lifetime of the process, or in its state_dir.
    #[key(
        example = "\"/etc/sluicegate/challenge.key\"",
        shown = "\"challenge.key\"",
        default = Vec::new(),
        reader = ReadBy(signing_keys, TEXT)
    )]
    pub key_file: Vec<Secret>,
}

/// The ways in which a browser may solve a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeMethods {
    /// By work, and where it runs no script by a wait.
    WorkOrWait,
    /// By work alone.
    Work,
    /// By a wait alone, without any script.
    Wait,
}

/// The challenge of a limit with action = "challenge". Difficulty and wait grow from the first value to the maximum as the limit named by
/// `unsolved` fills up. docs/challenges.md describes what this stops, and what it does not.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "limit.NAME.challenge", check = check_order)]
pub struct ChallengeRules {
    /// The methods of solution: "work", SHA-256 by a script of the page; "wait", a signed wait, for browsers without script.
    #[key(
        example = "[\"work\", \"wait\"]",
        default = ChallengeMethods::WorkOrWait,
        reader = ListBy(methods, TEXT)
    )]
    pub methods: ChallengeMethods,
    /// Leading zero bits of the SHA-256 that the script searches, 8 to 24; each further bit doubles the work. 16 bits take a laptop a tenth
    /// of a second, 20 some seconds.
    #[key(example = "15", default = 15, reader = IntegerIn(BITS))]
    pub difficulty: u8,
    /// The maximum number of bits, `difficulty` to 24.
    #[key(example = "19", default = 19, reader = IntegerIn(BITS))]
    pub max_difficulty: u8,
    /// The wait of a browser without script, 1s to 5m.
    #[key(example = "\"5s\"", default = Duration::from_secs(5), reader = DurationIn(WAITS))]
    pub wait: Duration,
    /// The maximum wait, `wait` to 5m.
    #[key(example = "\"30s\"", default = Duration::from_secs(30), reader = DurationIn(WAITS))]
    pub max_wait: Duration,
    /// The lifetime of a solution, which gives the browser a quota of its own, counted from the page on. 1m to 1d.
    #[key(example = "\"1h\"", default = Duration::from_secs(3_600), reader = DurationIn(VALIDITIES))]
    pub valid_for: Duration,
}

impl ChallengeMethods {
    /// Returns whether work solves a challenge.
    #[must_use]
    pub fn has_work(self) -> bool {
        matches!(self, Self::WorkOrWait | Self::Work)
    }

    /// Returns whether a wait solves a challenge.
    #[must_use]
    pub fn has_wait(self) -> bool {
        matches!(self, Self::WorkOrWait | Self::Wait)
    }

    /// Returns the words of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkOrWait => "work or a wait",
            Self::Work => "work",
            Self::Wait => "a wait",
        }
    }
}

impl Default for ChallengeRules {
    fn default() -> Self {
        Self {
            methods: ChallengeMethods::WorkOrWait,
            difficulty: 15,
            max_difficulty: 19,
            wait: Duration::from_secs(5),
            max_wait: Duration::from_secs(30),
            valid_for: Duration::from_secs(3_600),
        }
    }
}

fn check_order(keys: &ChallengeRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if let (Some(least), Some(most)) = (keys.difficulty, keys.max_difficulty)
        && most < least
    {
        return section.refuse(
            if section.has("max_difficulty") {
                "max_difficulty"
            } else {
                "difficulty"
            },
            format!("the difficulty begins at {least} bits and ends at {most}"),
            "write a max_difficulty that is not below `difficulty`",
        );
    }
    if let (Some(least), Some(most)) = (keys.wait, keys.max_wait)
        && most < least
    {
        return section.refuse(
            if section.has("max_wait") {
                "max_wait"
            } else {
                "wait"
            },
            format!("the wait begins at {least:?} and ends at {most:?}"),
            "write a max_wait that is not below `wait`",
        );
    }
    Some(())
}

/// Reads the words of `methods`.
fn methods(field: &KeyField<'_>) -> Option<ChallengeMethods> {
    let words = [("work", true), ("wait", false)];
    let list = field.list()?;
    let read = list
        .iter()
        .map(|element| element.word(&words, |got| format!("no challenge is solved by {got}")));
    let read: Vec<bool> = crate::field::all(read)?;
    Some(match (read.contains(&true), read.contains(&false)) {
        (true, true) => ChallengeMethods::WorkOrWait,
        (true, false) => ChallengeMethods::Work,
        // A list has at least one element.
        (false, _) => ChallengeMethods::Wait,
    })
}

/// Reads the keys of a file, one a line.
fn signing_keys(field: &KeyField<'_>) -> Option<Vec<Secret>> {
    let advice = "put a key there, for example with: openssl rand -hex 32";
    let (path, text) = text_of(field, advice)?;
    let path = quoted(&path.display().to_string());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let is_key = |line: &&str| {
        line.len() >= SHORTEST_KEY && line.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if lines.is_empty() || !lines.iter().all(is_key) {
        return field.refuse(
            format!("{path} has a line that is no key of {SHORTEST_KEY} visible characters or more, or no line"),
            advice,
        );
    }
    if lines.len() > MOST_KEYS {
        return field.refuse(
            format!("{path} holds {} keys", lines.len()),
            "keep two: the one that signs, and behind it the one before",
        );
    }
    Some(lines.into_iter().map(Secret::new).collect())
}
