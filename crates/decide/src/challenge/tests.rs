//! Properties of challenges as a whole: what was made is accepted, and nothing else is.

use std::time::Duration;

use http::HeaderValue;
use http::header::COOKIE;
use proptest::prelude::*;
use ring::digest::{SHA256, digest};
use sluicegate_base::received::ReceivedFields;
use sluicegate_base::secret::Secret;
use sluicegate_config::rules::{ChallengeMethods, ChallengeRules};
use sluicegate_limiter::{KeyHash, Seed, Timestamp};

use super::*;
use crate::url_scheme::UrlScheme;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const VALID: Duration = Duration::from_secs(3_600);

fn rules(methods: ChallengeMethods) -> ChallengeRules {
    ChallengeRules {
        methods,
        difficulty: 8,
        max_difficulty: 12,
        ..ChallengeRules::default()
    }
}

fn challenge(limit: &str, keys: &[&str]) -> ActiveChallenge {
    let keys: Vec<Secret> = keys.iter().map(|key| Secret::new(key)).collect();
    let keys = SigningKeys::new(&keys, &Seed::from_bytes([7; 16]));
    ActiveChallenge::new(limit.into(), rules(ChallengeMethods::WorkOrWait), keys)
}

/// The hash of a key of the limit, under a seed.
fn hash(key: u64) -> impl Fn(Seed) -> Option<KeyHash> {
    move |seed| {
        let mut hasher = seed.hasher();
        hasher.part(&key.to_le_bytes());
        Some(hasher.finish())
    }
}

/// The cookies that solve a challenge for `key`, by work and by a wait, and its bits.
fn solutions(of: &ActiveChallenge, key: u64, used: u8) -> (String, String, u32) {
    let binding = of.binding(hash(key)).unwrap();
    let open = of.open(
        PresentedSolution::Nothing,
        PageVisit::Fresh,
        used,
        binding,
        NOW,
    );
    let page = of.page(&open, UrlScheme::Http).unwrap();
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    let setting = |name: &str| {
        let (_, rest) = html.split_once(&format!(" data-{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let (token, bits) = (setting("token"), setting("bits").parse().unwrap());
    let solves = |counter: &u64| {
        let hash = digest(&SHA256, format!("{token}.{counter}").as_bytes());
        let first = u32::from_be_bytes(*hash.as_ref().first_chunk().unwrap());
        first.leading_zeros() >= bits
    };
    let counter = (0..).find(solves).unwrap();
    let work = format!("{}={token}.{counter}", setting("cookie"));
    let wait = page.cookie.unwrap().to_str().unwrap().to_owned();
    (work, wait.split_once(';').unwrap().0.to_owned(), bits)
}

fn presented(to: &ActiveChallenge, cookie: &str, key: u64, now: Timestamp) -> PresentedSolution {
    let mut headers = ReceivedFields::new();
    headers.insert(COOKIE, HeaderValue::from_str(cookie).unwrap());
    to.presented(&headers, hash(key), now)
}

fn passes(presented: PresentedSolution) -> bool {
    matches!(presented, PresentedSolution::Passed(_))
}

/// Goal: a solution holds from its time to its end, and a wait only once it is over; clocks of gateways may differ by a minute. Method:
/// both solutions at the edges of their times.
#[test]
fn a_solution_has_its_time() {
    let challenge = challenge("pages", &["a"]);
    let (work, wait, _) = solutions(&challenge, 1, 0);
    let wait_over = Duration::from_secs(5);
    let just = Duration::from_nanos(1);
    for (cookie, from) in [(&work, Duration::ZERO), (&wait, wait_over)] {
        let at = |now| presented(&challenge, cookie, 1, now);
        assert!(passes(at(NOW.saturating_add(from))));
        assert!(passes(at(NOW.saturating_add(VALID - just))));
        assert_eq!(at(NOW.saturating_add(VALID)), PresentedSolution::Nothing);
        let minute = Duration::from_secs(60);
        let late = at(NOW.saturating_sub(minute + just));
        assert_eq!(late, PresentedSolution::Failed(1));
    }
    assert!(passes(presented(
        &challenge,
        &work,
        1,
        NOW.saturating_sub(Duration::from_secs(60))
    )));
    let early = presented(&challenge, &wait, 1, NOW.saturating_add(wait_over - just));
    assert!(matches!(early, PresentedSolution::Unripe(_)), "{early:?}");
}

/// Goal: work and wait of one page are one solution, and those of two pages are two. Method: the keys that they count by.
#[test]
fn one_page_is_one_quota() {
    let challenge = challenge("pages", &["a"]);
    let (work, wait, _) = solutions(&challenge, 1, 0);
    let later = NOW.saturating_add(Duration::from_secs(30));
    let key = |cookie: &str| match presented(&challenge, cookie, 1, later) {
        PresentedSolution::Passed(pass) => pass.key(KeyHash::from_bits(1)),
        other => panic!("{other:?}"),
    };
    assert_eq!(key(&work), key(&wait));
    // Its failures and its wait are part of the terms; the time is the same.
    let (harder, _, _) = solutions(&challenge, 1, 100);
    assert_ne!(key(&work), key(&harder));
    assert_ne!(key(&harder), KeyHash::from_bits(1));
}

/// Goal: a method that is switched off solves nothing. Method: both solutions under each choice.
#[test]
fn only_the_methods_of_the_rules_solve() {
    let all = challenge("pages", &["a"]);
    let (work, wait, _) = solutions(&all, 1, 0);
    let later = NOW.saturating_add(Duration::from_secs(30));
    for (methods, works, waits) in [
        (ChallengeMethods::WorkOrWait, true, true),
        (ChallengeMethods::Work, true, false),
        (ChallengeMethods::Wait, false, true),
    ] {
        let some = ActiveChallenge::new("pages".into(), rules(methods), all.keys.clone());
        assert_eq!(
            passes(presented(&some, &work, 1, later)),
            works,
            "{methods:?}"
        );
        assert_eq!(
            passes(presented(&some, &wait, 1, later)),
            waits,
            "{methods:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: a solution counts for its limit and key, under a key that is in force, and the difficulty lies between the two of the rules.
    /// Method: any keys and any share of the pages used.
    #[test]
    fn a_solution_is_bound(key: u64, other: u64, used in 0_u8..=100) {
        let first = challenge("pages", &["old"]);
        let (work, _, bits) = solutions(&first, key, used);
        prop_assert!((8..=12).contains(&bits));
        for (limit, keys, to, accepted) in [
            ("pages", &["old"][..], key, true),
            ("pages", &["new", "old"], key, true),
            ("pages", &["new"], key, false),
            ("pages", &[], key, false),
            ("page", &["old"], key, false),
            ("pages", &["old"], other, other == key),
        ] {
            let to_this = challenge(limit, keys);
            // Cookies of another limit have another name.
            let work = work.replace("-pages-", &format!("-{limit}-"));
            prop_assert_eq!(passes(presented(&to_this, &work, to, NOW)), accepted);
        }
    }

    /// Goal: no cookie makes the reader panic or pass. Method: any text as a cookie, and one changed character of a solution.
    #[test]
    fn what_was_not_made_here_fails(text in "[ -~]{0,120}", at in 0_usize..64, to in "[A-Za-z0-9_-]") {
        let challenge = challenge("pages", &["a"]);
        let (work, wait, _) = solutions(&challenge, 1, 0);
        let (name, value) = wait.split_once('=').unwrap();
        let any = presented(&challenge, &format!("{name}={text}"), 1, NOW);
        prop_assert!(!passes(any));
        prop_assert!(!passes(presented(&challenge, &text, 1, NOW)));
        let mut changed = value.to_owned();
        changed.replace_range(at..=at, &to);
        let later = NOW.saturating_add(Duration::from_secs(30));
        let is_same = changed == value;
        prop_assert_eq!(passes(presented(&challenge, &format!("{name}={changed}"), 1, later)), is_same);
        prop_assert!(passes(presented(&challenge, &work, 1, later)));
    }
}
