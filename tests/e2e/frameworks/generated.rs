//! Generated queries, forms and cookies: whatever a framework reads as the value of the key was counted, or did not reach it.
//!
//! `FRAMEWORKS_SEED=N` repeats a failure, `FRAMEWORKS_MESSAGES=N` sends more messages to each place.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{before_each_framework, limits_by, started};
use crate::harness::*;

/// Messages for each place, unless more are asked for.
const MESSAGES: u64 = 120;

/// One request for each value; what the gateway cannot read reaches no origin.
fn rules() -> String {
    let keys = [
        ("form", "body.form.user_id"),
        ("query", "query.user_id"),
        ("cookie", "cookie.user_id"),
    ];
    limits_by(&keys, "refuse", "1 per 1h")
}

/// What stands in and around names and values of parameters.
const TRICKS: [&str; 40] = [
    "",
    "",
    "",
    "[",
    "]",
    "[]",
    "[0]",
    "[x]",
    ".",
    "_",
    "-",
    ":",
    "!",
    "@",
    "~",
    "$",
    "+",
    "%20",
    "%00",
    "%09",
    "%0a",
    "%5B",
    "%5D",
    "%",
    "%u0020",
    "%C2%A0",
    "%E2%80%8B",
    "%FF",
    "%26",
    "%3D",
    "%3B",
    "=",
    "?",
    ",",
    "\"",
    "\\",
    "/",
    "x",
    "X",
    "'",
];

/// What stands between parameters.
const SEPARATORS: [&str; 8] = ["&", "&", "&", "&&", ";", "?", "&;", "%26"];

/// What stands in and around cookies.
const COOKIE_TRICKS: [&str; 36] = [
    "", "", "", "[", "]", "[]", "[x]", ".", "_", "-", ":", " ", "  ", "\t", "\"", "\\", ",", "=",
    "%20", "%00", "%3D", "%22", "+", "{", "}", "(", ")", "<", "@", "/", "?", "&", "|", "$", "x",
    "'",
];

const COOKIE_SEPARATORS: [&str; 14] = [
    "; ", "; ", "; ", ";", ",", ", ", " ", "\t", "[", "]", "\"", "; ;", ";  ", ";\t",
];

/// A source of choices that a seed repeats: splitmix64.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    fn pick<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        let at = self.below(texts.len() as u64);
        texts[usize::try_from(at).unwrap()]
    }

    /// A name that some parser may take for the key's, or the key's.
    fn name(&mut self, tricks: &[&str]) -> String {
        match self.below(8) {
            0..3 => "user_id".to_owned(),
            3 => "USER_ID".to_owned(),
            4 => "%75ser_id".to_owned(),
            5 => format!("user{}id", self.pick(tricks)),
            6 => format!("{}user_id", self.pick(tricks)),
            _ => format!("user_id{}", self.pick(tricks)),
        }
    }

    /// The limited value, as a parser may find it, or a fresh one.
    fn value(&mut self, tricks: &[&str]) -> String {
        match self.below(8) {
            0..3 => format!("F{}", self.below(1 << 40)),
            3 => "R".to_owned(),
            4 => "%52".to_owned(),
            5 => format!("{}R", self.pick(tricks)),
            6 => format!("R{}{}", self.pick(tricks), self.below(1 << 40)),
            _ => format!("R{}", self.pick(tricks)),
        }
    }

    /// One to four pairs.
    fn message(&mut self, tricks: &[&str], separators: &[&str]) -> String {
        let mut text = String::new();
        for at in 0..=self.below(4) {
            if at > 0 {
                text.push_str(self.pick(separators));
            }
            let is_other = self.below(6) == 0;
            let name = if is_other {
                format!("a{}", self.pick(tricks))
            } else {
                self.name(tricks)
            };
            write!(text, "{name}={}", self.value(tricks)).unwrap();
        }
        text
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn typed(target: &str, body: String) -> Request {
    post(target)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
}

before_each_framework!(reach_no_origin_uncounted);

async fn reach_no_origin_uncounted(framework: Framework) {
    // Goal: once a value has had its request, no message shows it to the origin under the key's name. Method: messages of names, values
    // and separators that parsers read in different ways; the application says what it found.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("FRAMEWORKS_SEED").unwrap_or(now.as_secs());
    let mut choices = Choices(seed);
    let (_server, gateway) = started(framework, &rules()).await;
    let mut client = gateway.client().await;
    for plain in [
        typed("/form", "user_id=R".into()),
        get("/query?user_id=R"),
        get("/cookie").header("cookie", "user_id=R"),
    ] {
        assert_ne!(client.send(plain).await.status, 429);
    }
    for _ in 0..number("FRAMEWORKS_MESSAGES").unwrap_or(MESSAGES) {
        let pairs = choices.message(&TRICKS, &SEPARATORS);
        let other = choices.message(&TRICKS, &SEPARATORS);
        let cookies = choices.message(&COOKIE_TRICKS, &COOKIE_SEPARATORS);
        type Source = fn(&Reading) -> Vec<&str>;
        let messages: [(String, Request, Source); 4] = [
            (pairs.clone(), typed("/form", pairs.clone()), |reading| {
                reading.form("user_id")
            }),
            (
                pairs.clone(),
                get(&format!("/query?{}", escaped(&pairs))),
                |reading| reading.query("user_id"),
            ),
            (
                format!("{pairs} beside {other}"),
                typed(&format!("/form?{}", escaped(&other)), pairs),
                |reading| [reading.form("user_id"), reading.query("user_id")].concat(),
            ),
            (
                cookies.clone(),
                get("/cookie").header("cookie", &cookies),
                |reading| reading.cookie("user_id"),
            ),
        ];
        for (shown, request, source) in messages {
            let answer = client.send(request).await;
            let found = Reading::of(&answer);
            let found = found.as_ref().map(source).unwrap_or_default();
            assert!(
                !found.iter().any(|value| value.trim() == "R"),
                "FRAMEWORKS_SEED={seed}: {framework:?} finds {found:?} in {shown:?}"
            );
        }
    }
}

/// A query without what a target cannot hold.
fn escaped(pairs: &str) -> String {
    pairs.replace('"', "%22").replace('\\', "%5C")
}
