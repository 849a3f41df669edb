//! The house style as a test: what a machine can check of it, a reviewer need not.
//!
//! A ratchet rather than a wall: a rule that the tree does not keep everywhere yet lists its exceptions in this file, and the
//! list may only get shorter. Every complaint says where, what, and what to do instead.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

#[path = "tidy/advisories.rs"]
mod advisories;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/dialect.rs"]
mod dialect;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/signatures.rs"]
mod signatures;
#[path = "tidy/way.rs"]
mod way;
#[path = "tidy/wording.rs"]
mod wording;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines with its tests.
const MAX_LINES: usize = 600;
/// Longest line, in characters; rustfmt breaks code earlier, this is for comments and literals.
const MAX_COLUMNS: usize = 140;
/// Files that are longer than they should be, with the length that they may not exceed. Only ever shrink it.
const LONG_FILES: &[(&str, usize)] = &[];

/// The only files that read a clock: the gateway's, and that of tokio's timers, which tests pause.
const CLOCK: &str = "crates/base/src/clock.rs";
const TIMER_CLOCK: &str = "crates/transport/src/timer.rs";
const CLOCK_READS: &[&str] = &["SystemTime::now", "Instant::now", "clock_gettime"];
/// Reads one too, where `Instant` is the standard library's; the limiter, whose filters have a method of that name, has no such thing.
const ELAPSED: &str = ".elapsed()";

/// Words that say nothing about what a type owns.
const EMPTY_WORDS: &[&str] = &[
    "Manager", "Helper", "Util", "Utils", "Handler", "Data", "Info",
];
/// Names of that kind that a foreign trait asks for.
const FOREIGN_NAMES: &[&str] = &["process_new", "process_new_http"];

/// One Rust file of the tree.
struct Source {
    /// Relative to the root, with forward slashes.
    path: String,
    text: String,
}

impl Source {
    /// Whether it is part of the product, as opposed to tests and benches.
    fn is_shipped(&self) -> bool {
        let in_product = self.path.starts_with("src/")
            || (self.path.starts_with("crates/") && self.path.contains("/src/"));
        in_product && !self.path.ends_with("tests.rs") && !self.path.contains("/tests/")
    }

    fn is_in(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| {
            self.path
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/') || rest.starts_with(".rs"))
        })
    }

    /// All lines, numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .split('\n')
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// The number of lines that ship: the tests stand last in a file.
    fn shipped_lines(&self) -> usize {
        let lines: Vec<&str> = self.text.split('\n').map(str::trim_end).collect();
        let tests = lines.windows(2).position(|pair| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        });
        if self.is_shipped() {
            tests.unwrap_or(usize::MAX)
        } else {
            0
        }
    }

    /// The lines that ship, without comments.
    fn shipped_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines()
            .take(self.shipped_lines())
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folders with the sources of the crates, the program's first.
fn folders_of_crates() -> Vec<String> {
    let mut folders = vec!["src".to_owned()];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        folders.push(format!("crates/{name}/src"));
    }
    folders
}

/// Every file below these folders whose name ends so.
fn files(folders: &[&str], ending: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                let relative = path
                    .strip_prefix(root())
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push(Source {
                    path: relative,
                    text: fs::read_to_string(&path).unwrap(),
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn rust_files() -> Vec<Source> {
    let found = files(&["src", "crates", "tests", "benches", "fuzz"], ".rs");
    assert!(
        found.len() > 5,
        "the walk found too little: {}",
        found.len()
    );
    found
}

/// Markdown at the root and in the folders that hold documents.
fn documents() -> Vec<Source> {
    let mut found = files(&["docs", "crates", "benches", "conf", "fuzz"], ".md");
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.push(Source {
                path: name,
                text: fs::read_to_string(&path).unwrap(),
            });
        }
    }
    found
}

type Complaints = Vec<String>;

/// Fails with every complaint at once.
fn assert_none(complaints: Complaints) {
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

fn every_file(rule: fn(&Source) -> Complaints) {
    assert_none(rust_files().iter().flat_map(rule).collect());
}

fn length(file: &Source) -> Complaints {
    let lines = file.text.lines().count();
    let listed = LONG_FILES
        .iter()
        .find(|(path, _)| *path == file.path)
        .map(|(_, lines)| *lines);
    match listed {
        None if lines > MAX_LINES => {
            vec![format!(
                "{}: {lines} lines, at most {MAX_LINES}; split it by what it decides or owns",
                file.path
            )]
        }
        Some(allowed) if lines > allowed => {
            vec![format!(
                "{}: grew from {allowed} to {lines} lines; it must shrink to {MAX_LINES}",
                file.path
            )]
        }
        Some(allowed) if lines < allowed => {
            vec![format!(
                "{}: shrank to {lines} lines, well done; lower or drop its entry in LONG_FILES",
                file.path
            )]
        }
        _ => Vec::new(),
    }
}

fn opening(file: &Source) -> Complaints {
    if file.text.starts_with("//!") {
        return Vec::new();
    }
    vec![format!(
        "{}:1: opens without `//!`; say first what the file decides or owns, then why it is shaped so",
        file.path
    )]
}

fn layout(file: &Source) -> Complaints {
    let mut complaints = Vec::new();
    for (number, line) in file.lines() {
        let at = format!("{}:{number}", file.path);
        if line.contains('\t') {
            complaints.push(format!("{at}: a tab; indent with four spaces"));
        }
        if line.ends_with([' ', '\r']) {
            complaints.push(format!(
                "{at}: white space at the end of the line; remove it"
            ));
        }
        let columns = line.chars().count();
        if columns > MAX_COLUMNS {
            complaints.push(format!(
                "{at}: {columns} columns, at most {MAX_COLUMNS}; break the line"
            ));
        }
    }
    if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
        complaints.push(format!(
            "{}: ends without or with more than one line end; keep exactly one",
            file.path
        ));
    }
    complaints
}

fn markers(file: &Source) -> Complaints {
    // Put together here, so that this file does not contain them.
    let notes = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    let macros = [
        concat!("dbg", "!("),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
    ];
    let mut complaints = Vec::new();
    for (number, line) in file.lines() {
        let at = format!("{}:{number}", file.path);
        for note in notes
            .iter()
            .filter(|note| words(line).any(|word| word == **note))
        {
            complaints.push(format!(
                "{at}: {note}; do it, or open an issue and say here what holds today"
            ));
        }
        for name in macros.iter().filter(|name| line.contains(**name)) {
            complaints.push(format!(
                "{at}: {name}…); finish it, or return an error that says what is missing"
            ));
        }
    }
    complaints
}

fn panics(file: &Source) -> Complaints {
    let mut complaints = Vec::new();
    for (number, line) in file.shipped_code() {
        let at = format!("{}:{number}", file.path);
        if line.contains(".unwrap()") {
            complaints.push(format!(
                "{at}: unwrap() in shipped code; return an error, or expect(\"why it holds\")"
            ));
        }
        if line.contains(".expect(\"\")") {
            complaints.push(format!("{at}: expect without a reason; say why it holds"));
        }
    }
    complaints
}

fn clocks(file: &Source) -> Complaints {
    let mut complaints = Vec::new();
    for (number, line) in file
        .shipped_code()
        .filter(|_| file.path != CLOCK && file.path != TIMER_CLOCK)
    {
        let elapsed = [ELAPSED]
            .into_iter()
            .filter(|_| !file.is_in(&["crates/limiter"]));
        let reads = CLOCK_READS.iter().copied().chain(elapsed);
        for read in reads.filter(|read| line.contains(*read)) {
            complaints.push(format!(
                "{}:{number}: {read} reads a clock; take the time as an argument, and read it through {CLOCK}",
                file.path
            ));
        }
    }
    complaints
}

fn names(file: &Source) -> Complaints {
    let mut complaints = Vec::new();
    for (number, line) in file
        .lines()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
    {
        let at = format!("{}:{number}", file.path);
        let mut previous = "";
        for word in words(line) {
            let names_type = matches!(previous, "struct" | "enum" | "trait" | "type" | "union");
            if let Some(empty) =
                camel_words(word).find(|part| names_type && EMPTY_WORDS.contains(part))
            {
                complaints.push(format!(
                    "{at}: `{word}`: {empty} says nothing; name it after what it owns or decides"
                ));
            }
            let empty_verb = word.starts_with("process_") || word.starts_with("do_");
            if previous == "fn" && empty_verb && !FOREIGN_NAMES.contains(&word) {
                complaints.push(format!(
                    "{at}: `{word}` says nothing; name it after what it does"
                ));
            }
            previous = word;
        }
    }
    complaints
}

/// The identifiers and keywords of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// `RequestInfo` → `Request`, `Info`.
fn camel_words(name: &str) -> impl Iterator<Item = &str> {
    let starts: Vec<usize> = name
        .char_indices()
        .filter(|(_, c)| c.is_uppercase())
        .map(|(at, _)| at)
        .collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([name.len()]).collect();
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| &name[start..end])
}

#[test]
fn no_file_is_too_long() {
    every_file(length);
    for (path, _) in LONG_FILES {
        assert!(
            root().join(path).exists(),
            "{path} is gone, well done; drop its entry in LONG_FILES"
        );
    }
}

#[test]
fn every_file_opens_with_what_it_owns() {
    every_file(opening);
}

#[test]
fn no_line_has_tabs_trailing_space_or_too_many_columns() {
    every_file(layout);
}

#[test]
fn nothing_is_left_for_later() {
    every_file(markers);
}

#[test]
fn shipped_code_does_not_unwrap() {
    every_file(panics);
}

#[test]
fn only_the_files_of_the_clocks_read_one() {
    every_file(clocks);
}

#[test]
fn no_name_is_an_empty_word() {
    every_file(names);
}

#[test]
fn the_rules_bite() {
    // Goal: a rule that finds nothing is a rule that the tree keeps, not one that is broken. Method: one file with every
    // mistake, and one with the same words where they are allowed.
    let bad = Source {
        path: "src/admission/value.rs".to_owned(),
        text: format!(
            "\tstruct HopInfo; \nfn process_hop() {{ x.unwrap(); Instant::now(); }}\n// {}\n{}\n{}",
            concat!("TO", "DO: later"),
            "x".repeat(MAX_COLUMNS + 1),
            "\n".repeat(MAX_LINES)
        ),
    };
    for rule in [length, opening, layout, markers, panics, clocks, names] {
        assert!(!rule(&bad).is_empty());
    }
    let good = Source {
        path: "src/admission/value.rs".to_owned(),
        text: "//! Owns words: Instant::now in a comment.\nstruct Database;\n#[cfg(test)]\nmod tests {\n    \
               fn a() { x.unwrap(); }\n}\n"
            .to_owned(),
    };
    for rule in [length, opening, layout, markers, panics, clocks, names] {
        assert_eq!(rule(&good), Complaints::new());
    }
}

/// What follows each `start` in a text, as long as its characters satisfy `inside`.
fn tokens<'a>(
    text: &'a str,
    start: &'a str,
    inside: fn(char) -> bool,
) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).map(move |(at, _)| {
        let rest = &text[at + start.len()..];
        &rest[..rest.find(|c| !inside(c)).unwrap_or(rest.len())]
    })
}

#[test]
fn every_metric_is_explained_and_every_explained_metric_exists() {
    // Goal: docs/operations/metrics.md and the registry name the same metrics, and no other page there names one that does not exist.
    // Method: the string literals of src against the words of the pages; a histogram's own endings are not names of their own.
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let base = |name: &str| {
        let endings = ["_bucket", "_sum", "_count"];
        let stripped = endings.iter().find_map(|ending| name.strip_suffix(ending));
        stripped.unwrap_or(name).to_owned()
    };
    let folders = folders_of_crates();
    let names = |text: &str, start: &str| -> BTreeSet<String> {
        let is_crate = |name: &str| {
            let folder = format!("crates/{}/src", name.replace('_', "-"));
            name.is_empty() || folders.contains(&folder)
        };
        let names = tokens(text, start, in_name).filter(|name| !is_crate(name));
        names.map(base).collect()
    };
    let registered: BTreeSet<String> = files(&["src", "crates"], ".rs")
        .iter()
        .flat_map(|file| names(&file.text, "\"sluicegate_"))
        .collect();
    let document =
        fs::read_to_string(root().join("docs/operations/metrics.md")).unwrap_or_default();
    let explained = names(&document, "sluicegate_");
    let pages = files(&["docs/operations"], ".md");
    let mentioned = pages
        .iter()
        .flat_map(|page| names(&page.text, "sluicegate_"));
    let mentioned: BTreeSet<String> = mentioned.collect();
    let missing = registered.difference(&explained).map(|name| {
        format!(
            "docs/operations/metrics.md: sluicegate_{name} is not explained; say what it counts, its unit and its labels"
        )
    });
    let invented = mentioned.difference(&registered).map(|name| {
        format!(
            "docs/operations: sluicegate_{name} does not exist in the code; remove or rename it"
        )
    });
    assert_none(missing.chain(invented).collect());
}

#[test]
fn every_decision_is_listed() {
    let index = fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    let decisions = files(&["docs/decisions"], ".md")
        .into_iter()
        .map(|file| file.path);
    let names = decisions.filter_map(|path| path.rsplit('/').next().map(str::to_owned));
    let unlisted =
        names.filter(|name| name != "README.md" && !index.contains(&format!("({name})")));
    assert_none(
        unlisted
            .map(|name| format!("docs/decisions/README.md: link {name}"))
            .collect(),
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut complaints = Complaints::new();
    for document in documents() {
        let folder = root()
            .join(&document.path)
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default();
        for link in tokens(&document.text, "](", |c| c != ')' && c != '\n') {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(&document.path),
                _ => folder.join(file),
            };
            let is_missing = !target.exists()
                || (!anchor.is_empty()
                    && target.extension().is_some_and(|it| it == "md")
                    && !anchors(&target).contains(anchor));
            if is_missing && !file.contains(':') {
                complaints.push(format!(
                    "{}: links to {link}, which does not exist",
                    document.path
                ));
            }
        }
    }
    assert_none(complaints);
}

/// Returns the anchors of the headings of a document, as GitHub makes them.
fn anchors(path: &Path) -> HashSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut found = HashSet::new();
    let mut is_fenced = false;
    for line in text.lines() {
        is_fenced ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_fenced) else {
            continue;
        };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor: String = heading.chars().filter(kept).collect();
        found.insert(anchor.replace(' ', "-"));
    }
    found
}

#[test]
fn files_that_the_architecture_names_exist() {
    // Goal: the map fits the land. Method: every `src/…` or `crates/…` in backticks.
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let in_path = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    let mut complaints = Complaints::new();
    for start in ["src/", "crates/", "tests/", "benches/", "conf/", "docs/"] {
        for rest in tokens(&text, &format!("`{start}"), in_path) {
            if !root().join(start).join(rest).exists() {
                complaints.push(format!(
                    "ARCHITECTURE.md: {start}{rest} does not exist; name what took its place"
                ));
            }
        }
    }
    assert_none(complaints);
}
