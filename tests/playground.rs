//! The playground: its one file for the documents is made from `ui/playground/`, and a real browser runs each scene.
//!
//! `BLESS=1 cargo test --test playground` writes `docs/playground.html` anew; read the difference before it is committed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says what is wrong by panicking"
)]

#[path = "playground/browser.rs"]
mod browser;
#[path = "playground/bundle.rs"]
mod bundle;
#[path = "e2e/harness/chromium.rs"]
mod chromium;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use browser::{Browser, served};

/// Most bytes of the one file. A page is to load under 100 KB, so what a scene or a control adds is read here before it is too much.
const MOST_BYTES: usize = 68_000;
/// Most bytes of its sources, with their comments.
const MOST_SOURCE_BYTES: usize = 82_000;
const BUNDLE: &str = "docs/playground.html";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn source() -> PathBuf {
    root().join("ui/playground")
}

/// The files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The names of the scenes, in the order of the page.
fn scenes() -> Vec<String> {
    let text = fs::read_to_string(source().join("scenes.js")).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.strip_suffix(": {"));
    names
        .map(|name| name.trim_matches('\'').to_owned())
        .collect()
}

/// Goal: the file of the documents is that of the sources. Method: made anew and compared.
#[test]
fn the_file_of_the_documents_is_up_to_date() {
    let made = bundle::bundle(&source());
    let path = root().join(BUNDLE);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == written,
        "{BUNDLE} is stale; run BLESS=1 cargo test --test playground and read the difference"
    );
}

/// Goal: the page works under `default-src 'self'`, behind any prefix and without another host, and stays small. Method: the texts.
#[test]
fn the_sources_need_no_other_host_and_no_inline_script() {
    let mut bytes = 0;
    for path in files_below(&source()) {
        let text = fs::read_to_string(&path).unwrap();
        bytes += text.len();
        let foreign = [
            "http://",
            "https://",
            "=\"/",
            "innerHTML",
            "eval(",
            "<style",
            " style=",
            " onclick",
        ];
        for word in foreign {
            // The name of a namespace is no address.
            let uses = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!uses.contains(word), "{}: {word}", path.display());
        }
        for (number, line) in text.lines().enumerate() {
            assert!(
                line.chars().count() <= 140 || line.contains("look:"),
                "{}:{}: break the line",
                path.display(),
                number + 1
            );
            assert!(
                line.trim_end() == line,
                "{}:{}: white space",
                path.display(),
                number + 1
            );
        }
    }
    assert!(
        bytes <= MOST_SOURCE_BYTES,
        "{bytes} bytes, at most {MOST_SOURCE_BYTES}"
    );
    let bundled = fs::read_to_string(root().join(BUNDLE)).unwrap().len();
    assert!(
        bundled <= MOST_BYTES,
        "{BUNDLE}: {bundled} bytes, at most {MOST_BYTES}"
    );
}

/// Goal: each algorithm's section leads to its scene, and no link to a scene leads nowhere. Method: the links of all documents.
#[test]
fn documents_link_to_scenes_that_exist() {
    let scenes: BTreeSet<String> = scenes().into_iter().collect();
    let mut linked = BTreeSet::new();
    for path in files_below(&root().join("docs")) {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("playground.html#scene=") {
            let rest = &text[at + "playground.html#scene=".len()..];
            let name: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            assert!(
                scenes.contains(&name),
                "{}: there is no scene {name}",
                path.display()
            );
            linked.insert(name);
        }
    }
    assert_eq!(linked, scenes, "every scene is linked from a document");
}

/// The lanes of a scene, each with the requests that pass, that wait before, and that are refused, and the most in any period.
type SceneCounts = (&'static str, &'static [(&'static str, [usize; 4])]);

/// The counts at the end of each scene. Each rate is 10 per 10 s, and 20 where bursts are throttled; the scene of rates has 20 per 60 s
/// too.
const SCENES: &[SceneCounts] = &[
    // Twice the count at the edge of a fixed window; one more than the count where the window before still weighs.
    (
        "edge",
        &[
            ("exact", [20, 0, 10, 10]),
            ("sliding-window", [21, 0, 9, 11]),
            ("fixed-window", [30, 0, 0, 20]),
        ],
    ),
    (
        "sliding-window",
        &[
            ("exact", [30, 0, 18, 10]),
            ("sliding-window", [29, 0, 19, 12]),
        ],
    ),
    (
        "exact",
        &[("exact", [26, 0, 6, 10]), ("fixed-window", [28, 0, 4, 14])],
    ),
    // 2 · count − 1.
    (
        "first-request",
        &[
            ("exact", [11, 0, 9, 10]),
            ("first-request", [20, 0, 0, 19]),
            ("fixed-window", [11, 0, 9, 10]),
        ],
    ),
    // Ten in each window of each client; by key the windows of two clients begin apart from each other and from the clock's.
    (
        "herd",
        &[
            ("by-key", [71, 0, 49, 17]),
            ("fixed-window", [62, 0, 58, 11]),
        ],
    ),
    (
        "token-bucket",
        &[
            ("exact", [20, 0, 14, 10]),
            ("token-bucket", [24, 0, 10, 14]),
            ("token-bucket-interval", [22, 0, 12, 12]),
        ],
    ),
    // One algorithm from two sides.
    (
        "gcra",
        &[
            ("exact", [20, 0, 16, 10]),
            ("gcra", [18, 0, 18, 12]),
            ("token-bucket", [18, 0, 18, 12]),
        ],
    ),
    // Of fifteen at once one leaves, a queue of eight waits, six are refused.
    (
        "leaky-bucket",
        &[
            ("leaky-bucket", [15, 13, 6, 9]),
            ("token-bucket", [16, 0, 5, 10]),
        ],
    ),
    (
        "clients",
        &[
            ("sliding-window", [36, 0, 71, 13]),
            ("gcra", [42, 0, 65, 19]),
        ],
    ),
    // The third burst is refused by the longer rate; what it took from neither is free a minute after the first.
    (
        "rates",
        &[
            ("exact", [30, 0, 16, 10]),
            ("sliding-window", [21, 0, 25, 10]),
            ("fixed-window", [30, 0, 16, 10]),
        ],
    ),
    (
        "pause",
        &[
            ("exact", [24, 0, 20, 10]),
            ("sliding-window", [30, 0, 14, 15]),
            ("fixed-window", [31, 0, 13, 16]),
            ("gcra", [34, 0, 10, 18]),
        ],
    ),
    // Of forty twenty pass, one leaves the queue at once, ten wait, and the rest is refused.
    (
        "throttling",
        &[("throttling", [31, 10, 9, 31]), ("exact", [20, 0, 20, 20])],
    ),
];

/// Goal: each scene runs to its end without an error and shows the counts that its algorithms must give. Method: the static file as it lies
/// on a disk, in a browser, at the end of each scene.
#[test]
fn every_scene_of_the_static_file_ends_with_the_counts_that_it_must_show() {
    let names: Vec<&str> = SCENES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, scenes(), "every scene has its counts here");
    let Some(browser) = Browser::find() else {
        return;
    };
    let file = format!("file://{}", root().join(BUNDLE).display());
    for (scene, lanes) in SCENES {
        let page = browser.dump(&format!("{file}#scene={scene}&at=end"));
        assert_eq!(page.lanes(), lanes.len(), "{scene}");
        for (lane, counts) in *lanes {
            assert_eq!(page.counts(lane), *counts, "{scene}: {lane}");
        }
    }
}

/// Goal: the page works under a strict policy, and time that passes frame by frame ends where a jump does. Method: the modules from a
/// server that sends the policy; the first scene plays, in frames of 70 ms.
#[test]
fn a_scene_plays_under_a_strict_content_security_policy() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let server = served(&source(), "default-src 'self'");
    let page = browser.dump(&format!("http://{}/play.html#scene=edge", server.address()));
    for (lane, counts) in SCENES[0].1 {
        assert_eq!(page.counts(lane), *counts, "{lane}");
    }
    assert!(
        page.contains("id=\"clock\">30.00 s<"),
        "it stops at its end"
    );
    let address = format!("http://{}/playground.html#scene=edge", server.address());
    let calm = browser.dump_calm(&address);
    assert!(
        calm.contains("id=\"clock\">30.00 s<"),
        "who asked for less motion sees the end at once"
    );
}

/// Goal: a limit of several rates is judged as a whole, and the page says what the longer rate has left. Method: pages of two rates at
/// their end: counts, the next response, and the numbers that the form shows; periods that are not in order.
#[test]
fn a_page_has_several_rates() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let file = format!("file://{}", root().join(BUNDLE).display());
    let page = browser.dump(&format!(
        "{file}#lanes=exact,gcra&burst=3&count2=12&period2=60&requests=1000x10-10,12000x10-10&span=20000&at=end"
    ));
    assert_eq!(page.counts("exact"), [12, 0, 8, 10]);
    // A unit of twelve a minute comes back every five seconds; the burst belongs to one rate and is none of these.
    assert_eq!(page.counts("gcra"), [14, 0, 6, 10]);
    for part in [
        "; 12 used of 12 per 60 s<",
        ">429 Too Many Requests: 12 per 60 s<",
        "at most 10 in 10 s, 12 in 60 s",
        "\"demo-60s\";r=0",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for (name, is_hidden) in [
        ("period2", false),
        ("count3", false),
        ("period3", true),
        ("burst", true),
    ] {
        let label = page.label_of(&format!("number-{name}"));
        assert_eq!(label.contains("hidden"), is_hidden, "{name}: {label}");
    }
    let page = browser.dump(&format!("{file}#lanes=exact&count2=5&period2=3&at=end"));
    assert!(page.contains("10 per 10 s and 5 per 11 s"));
}

/// Goal: the controls do what they say, numbers are applied to what was, and the address holds the page. Method: a script that presses
/// them; then the address that it left, opened again.
#[test]
fn controls_send_requests_and_the_address_repeats_them() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let server = served(&source(), "default-src 'self'");
    let host = format!("http://{}", server.address());
    let page = browser.dump(&format!(
        "{host}/press.html#lanes=exact,leaky-bucket&queue=5"
    ));
    let hash = page.attribute("<body", "hash");
    let full = page.attribute("<body", "full");
    assert!(full.contains("2000 requests"), "a stream ends: {full}");
    assert_eq!(page.attribute("<body", "clock"), "0.10 s");
    assert_eq!(
        page.attribute("<body", "said"),
        "exact: passes; leaky-bucket: passes"
    );
    // Fourteen of one client, one of another: by twenty per 10 s all of them pass.
    assert_eq!(page.counts("exact"), [15, 0, 0, 14]);
    assert_eq!(page.counts("leaky-bucket"), [7, 5, 8, 6]);
    let again = browser.dump(&format!(
        "{host}/playground.html{}&at=end",
        hash.replace("&amp;", "&")
    ));
    assert_eq!(again.counts("exact"), [11, 0, 4, 10]);
    // Whatever a link says is brought into bounds.
    let fragments = [
        "lanes=__proto__,gcra&count=1e99&period=-1&span=x&requests=5x9999-999999,b,x,7*0&at=1e9",
        "scene=__proto__&at=end",
    ];
    for (fragment, lanes) in fragments.into_iter().zip([1, 3]) {
        let page = browser.dump(&format!("{host}/playground.html#{fragment}"));
        assert_eq!(page.lanes(), lanes, "{fragment}");
    }
}
