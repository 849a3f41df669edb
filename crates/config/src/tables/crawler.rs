//! Declares `[crawler.NAME]`: who claims to be a crawler, and what proves it. Routes and lists name crawlers by the values that
//! `client.crawler` has.
//!
//! A file of ranges is read whole with the configuration and is watched with it. A file that is broken is a warning: its content in force
//! stays, and at the start it proves nobody, so that its crawler is limited like everybody who only claims to be it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;
use sluicegate_base::address::CidrSet;
use sluicegate_base::bounds::{
    CRAWLER_BLOCKS, CRAWLER_NAMES, CRAWLER_RANGE_FILES, CRAWLER_USER_AGENT_BYTES,
    CRAWLER_USER_AGENTS,
};
use sluicegate_base::crawler::{
    CrawlerIdentity, HostDomain, KeySet, KnownCrawler, NONE, UNVERIFIED,
};
use sluicegate_config_derive::Table;

use super::crawler_domains;
use crate::cidr;
use crate::declaration::{ListBy, ParsedText, ReadBy, TEXT};
use crate::field::{BROKEN_FILE, KeyField, all, quoted, text_or_warning};
use crate::problem::ParseError;
use crate::rules::{FileState, Name};
use crate::section::{TableSection, is_name};

pub(crate) const EXAMPLE: &str =
    "with user_agents = [\"Googlebot\"] and ranges = [\"googlebot.json\"]";

/// Beginnings of the user agents of browsers, by which every browser would claim to be a crawler.
const OF_BROWSERS: [&str; 8] = [
    "mozilla",
    "compatible",
    "applewebkit",
    "chrome",
    "safari",
    "gecko",
    "like",
    "http",
];

/// Bytes of the shortest user agent: fewer are in the user agents of browsers.
const SHORTEST: usize = 3;

/// Least prefix lengths of published blocks, IPv4 and IPv6: a file with a wider one would prove everybody, so it is a mistake.
const WIDEST: (u8, u8) = (8, 16);

#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
/// A crawler, for `client.crawler` in keys, and for `crawlers` of routes and lists. docs/crawlers.md says what proves one.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "crawler.NAME", check = check_claim)]
pub struct CrawlerRules {
    /// Parts of the User-Agent field, in any case, by which a client claims to be this crawler, at most 16. A client that claims it without
    /// proof is "unverified". Default: none, the proofs alone decide.
    #[key(example = "[\"Googlebot\"]", default = Vec::new(), reader = ListBy(user_agents, TEXT))]
    pub user_agents: Vec<Arc<str>>,
    /// Files with the blocks that its operator publishes, at most 8: JSON with "prefixes" as Google, Bing, OpenAI and others publish it, or
    /// one block per line. They are read again when they change; a broken file keeps the previous blocks. Default: none.
    #[key(
        example = "[\"googlebot.json\"]",
        default = Vec::new(),
        reader = ListBy(ranges, TEXT)
    )]
    pub ranges: Vec<RangeFile>,
    /// A JWKS file with the Ed25519 keys that sign its requests (Web Bot Auth). It is read again when it changes; a broken file keeps the
    /// previous keys. Needs `signed_hosts` in `[client]`. Default: none.
    #[key(example = "\"crawler.jwks.json\"", reader = ReadBy(jwks_file, TEXT))]
    pub jwks_file: Option<CrawlerKeys>,
    /// Domains in which the names of its addresses are, at most 16: a client that claims to be this crawler is verified if its address has
    /// such a name in DNS, and that name the address. Addresses are looked up in the background, so the first requests of each are
    /// "unverified". Needs `user_agents`. Default: none.
    #[key(
        example = "[\"googlebot.com\"]",
        shown = "[\"googlebot.com\", \"google.com\"]",
        default = Vec::new(),
        reader = ListBy(crawler_domains::read, TEXT)
    )]
    pub domains: Vec<HostDomain>,
    /// A name shared with other crawlers: `client.crawler` has this value for all of them. Default: none, the value is the crawler's own
    /// name.
    #[key(example = "\"search\"", reader = ParsedText(group))]
    pub group: Option<Name>,
}

/// A file with blocks of a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeFile {
    /// Its path; it is watched.
    pub path: PathBuf,
    /// The state of its content.
    pub state: FileState,
    /// The blocks of that content.
    pub blocks: Arc<CidrSet>,
}

/// The file with the keys of a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrawlerKeys {
    /// Its path; it is watched.
    pub path: PathBuf,
    /// The state of its content.
    pub state: FileState,
    /// The keys of that content.
    pub keys: Arc<KeySet>,
}

impl CrawlerRules {
    /// Returns the crawler as requests are compared with it.
    #[must_use]
    pub fn crawler(&self, name: &Name) -> KnownCrawler {
        let identity = CrawlerIdentity {
            name: Arc::clone(name),
            group: self.group.clone(),
        };
        let ranges = self.ranges.iter().map(|file| &file.blocks);
        KnownCrawler::new(identity, &self.user_agents)
            .with_ranges(ranges)
            .with_keys(self.jwks_file.as_ref().map(|file| &file.keys))
            .with_domains(&self.domains)
    }
}

/// The crawlers that a route or a list names, and those behind `!`.
#[derive(Default)]
pub(super) struct NamedCrawlers {
    pub(super) of: Vec<Name>,
    pub(super) except: Vec<Name>,
}

/// Reads the crawlers that a route or a list names; `!` before one excepts it. Whether they are defined is judged when all are known.
pub(super) fn named(field: &KeyField<'_>) -> Option<NamedCrawlers> {
    let elements = field.elements()?;
    if elements.len() > CRAWLER_NAMES {
        let message = format!("{} crawlers are too many here", elements.len());
        return field.refuse(
            message,
            format!("keep at most {CRAWLER_NAMES}; a group can hold them all"),
        );
    }
    let mut named = NamedCrawlers::default();
    let mut sound = true;
    for element in &elements {
        let Some(text) = element.text() else {
            sound = false;
            continue;
        };
        let (into, other, name) = match text.strip_prefix('!') {
            Some(name) => (&mut named.except, &named.of, name.trim_start()),
            None => (&mut named.of, &named.except, text),
        };
        let name = Name::from(name);
        if !other.is_empty() {
            element.refuse::<()>(
                "names and exceptions cannot stand together: whatever is not named is excepted already",
                "write all of them with !, or none",
            );
            sound = false;
        } else if into.contains(&name) {
            element.refuse::<()>("the crawler stands here already", "write it once");
            sound = false;
        } else {
            into.push(name.clone());
            field.report.note_crawler(element.placed(name));
        }
    }
    named.of.sort_unstable();
    named.except.sort_unstable();
    sound.then_some(named)
}

/// Returns the bytes by which a key counts a value, as a row of overrides or an operator names it.
pub(crate) fn counted_by(text: &str) -> Result<Vec<u8>, ParseError> {
    if is_name(text) {
        return Ok(text.into());
    }
    Err(ParseError::with_advice(
        format!("{} is no crawler", quoted(text)),
        "write the name of one or of its group, \"unverified\" or \"none\"",
    ))
}

fn check_claim(keys: &CrawlerRulesKeys, section: &TableSection<'_>) -> Option<()> {
    let lists = [
        keys.user_agents.as_ref().map(Vec::len),
        keys.ranges.as_ref().map(Vec::len),
    ];
    if keys
        .domains
        .as_ref()
        .is_some_and(|domains| !domains.is_empty())
        && lists[0] == Some(0)
    {
        section.report.error(
            &section.place_of("domains"),
            "the address of every client would be looked up, since nothing says who claims to be this crawler",
            "write user_agents = [\"Googlebot\"]",
        );
        return None;
    }
    let is_proved = section.has("jwks_file") || section.has("domains");
    let says_nothing = lists.iter().all(|list| *list == Some(0)) && !is_proved;
    if says_nothing {
        section.report.absent(
            &section.place,
            "nothing is said about who this crawler is",
            "write user_agents = [\"Googlebot\"], and ranges = [\"googlebot.json\"] to prove it",
        );
        return None;
    }
    Some(())
}

fn group(text: &str) -> Result<Name, ParseError> {
    if is_name(text) && ![NONE, UNVERIFIED].contains(&text) {
        return Ok(text.into());
    }
    Err(ParseError::with_advice(
        format!("{} cannot be the name of a group", quoted(text)),
        "write 1 to 64 of the characters a-z A-Z 0-9 _ - . as in group = \"search\", but neither \"unverified\" nor \"none\"",
    ))
}

fn user_agents(field: &KeyField<'_>) -> Option<Vec<Arc<str>>> {
    let elements = field.elements()?;
    if elements.len() > CRAWLER_USER_AGENTS {
        let message = format!(
            "{} user agents are too many for one crawler",
            elements.len()
        );
        return field.refuse(message, format!("keep at most {CRAWLER_USER_AGENTS}"));
    }
    all(elements
        .iter()
        .map(|element| element.parsed(user_agent))
        .collect::<Vec<_>>())
}

fn user_agent(text: &str) -> Result<Arc<str>, ParseError> {
    let is_sent = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_sent || !(SHORTEST..=CRAWLER_USER_AGENT_BYTES).contains(&text.len()) {
        return Err(ParseError::with_advice(
            format!(
                "{} is no part of a user agent by which a crawler is known",
                quoted(text)
            ),
            format!(
                "write {SHORTEST} to {CRAWLER_USER_AGENT_BYTES} characters of ASCII such as \"Googlebot\""
            ),
        ));
    }
    let lower = text.to_ascii_lowercase();
    if OF_BROWSERS
        .iter()
        .any(|part| part.starts_with(&*lower) || lower == format!("{part}/5.0"))
    {
        return Err(ParseError::with_advice(
            format!(
                "{} is in the user agents of browsers, so all of them would claim to be this crawler",
                quoted(text)
            ),
            "write the crawler's own name, such as \"Googlebot\"",
        ));
    }
    Ok(text.into())
}

fn ranges(field: &KeyField<'_>) -> Option<Vec<RangeFile>> {
    let elements = field.elements()?;
    if elements.len() > CRAWLER_RANGE_FILES {
        let message = format!("{} files are too many for one crawler", elements.len());
        return field.refuse(message, format!("keep at most {CRAWLER_RANGE_FILES}"));
    }
    all(elements.iter().map(range_file).collect::<Vec<_>>())
}

fn range_file(field: &KeyField<'_>) -> Option<RangeFile> {
    let (path, text) = text_or_warning(field)?;
    let blocks = text.map(|text| published_blocks(&text));
    let (state, blocks) = match blocks {
        Some(Ok(blocks)) => (FileState::Read, blocks),
        Some(Err(wrong)) => {
            let shown = quoted(&path.display().to_string());
            field.warn(format!("{shown} {wrong}"), BROKEN_FILE);
            (FileState::Lost, Vec::new())
        }
        None => (FileState::Lost, Vec::new()),
    };
    Some(RangeFile {
        path,
        state,
        blocks: Arc::new(CidrSet::new(blocks)),
    })
}

fn jwks_file(field: &KeyField<'_>) -> Option<CrawlerKeys> {
    let (path, text) = text_or_warning(field)?;
    let read = text.map(|text| KeySet::parse(&text));
    let (state, keys) = match read {
        Some(Ok(keys)) => (FileState::Read, keys),
        Some(Err(wrong)) => {
            let shown = quoted(&path.display().to_string());
            field.warn(format!("{shown} {wrong}"), BROKEN_FILE);
            (FileState::Lost, KeySet::default())
        }
        None => (FileState::Lost, KeySet::default()),
    };
    let keys = Arc::new(keys);
    Some(CrawlerKeys { path, state, keys })
}

/// Returns the blocks of a published file: JSON where it begins with a brace, else one a line.
///
/// # Errors
/// What is wrong with it. No part of such a file counts, since it may be half written.
fn published_blocks(text: &str) -> Result<Vec<IpNet>, String> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let blocks = if text.starts_with('{') {
        prefixes(text)?
    } else {
        let lines = cidr::lines(text);
        let block = |(line, entry): (usize, &str)| {
            cidr::block(entry)
                .map_err(|mistake| format!("has a mistake in line {line}: {}", mistake.message))
        };
        lines.map(block).collect::<Result<_, _>>()?
    };
    if blocks.is_empty() {
        return Err("has no block of addresses".to_owned());
    }
    if blocks.len() > CRAWLER_BLOCKS {
        return Err(format!("has more than {CRAWLER_BLOCKS} blocks"));
    }
    let is_too_wide = |block: &&IpNet| match block.addr() {
        IpAddr::V4(_) => block.prefix_len() < WIDEST.0,
        IpAddr::V6(_) => block.prefix_len() < WIDEST.1,
    };
    match blocks.iter().find(is_too_wide) {
        Some(block) => Err(format!(
            "has the block {block}, which would prove too many to be this crawler"
        )),
        None => Ok(blocks),
    }
}

/// Returns the blocks of `{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"},{"ipv6Prefix":"2001:db8::/32"}]}`.
fn prefixes(text: &str) -> Result<Vec<IpNet>, String> {
    let read: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    let prefixes = read.get("prefixes").and_then(Value::as_array);
    let prefixes = prefixes.ok_or("has no list \"prefixes\"")?;
    let mut blocks = Vec::new();
    for (at, prefix) in prefixes.iter().enumerate() {
        let texts =
            ["ipv4Prefix", "ipv6Prefix"].map(|family| prefix.get(family).and_then(Value::as_str));
        let before = blocks.len();
        for text in texts.into_iter().flatten() {
            let block = cidr::block(text);
            blocks.push(block.map_err(|mistake| {
                format!("has a mistake in prefix {}: {}", at + 1, mistake.message)
            })?);
        }
        if blocks.len() == before {
            return Err(format!(
                "has neither ipv4Prefix nor ipv6Prefix in prefix {}",
                at + 1
            ));
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Result<Vec<String>, String> {
        let blocks = published_blocks(text)?;
        Ok(blocks.iter().map(ToString::to_string).collect())
    }

    /// Goal: the files that operators publish are read, and a half of one proves nobody. Method: both forms, then cut, empty and hostile
    /// ones.
    #[test]
    fn published_files_are_read_whole_or_not_at_all() {
        let json = r#"{"creationTime":"2026-11-20T23:00:00","prefixes":[{"ipv6Prefix":"2001:db8:10::/64"},{"ipv4Prefix":"192.0.2.0/27"}]}"#;
        assert_eq!(
            blocks(json),
            Ok(vec![
                "2001:db8:10::/64".to_owned(),
                "192.0.2.0/27".to_owned()
            ])
        );
        let lines = "# crawler\n192.0.2.7\n\n2001:db8::/32 ; home\n";
        assert_eq!(
            blocks(lines),
            Ok(vec!["192.0.2.7/32".to_owned(), "2001:db8::/32".to_owned()])
        );
        for at in 1..json.len() {
            assert!(blocks(&json[..at]).is_err(), "{at} bytes");
        }
        for (text, wrong) in [
            ("", "has no block of addresses"),
            ("{\"prefixes\":[]}", "has no block of addresses"),
            ("{\"prefixes\":{}}", "has no list \"prefixes\""),
            (
                "{\"prefixes\":[{\"ipv4\":\"192.0.2.0/24\"}]}",
                "has neither ipv4Prefix nor ipv6Prefix in prefix 1",
            ),
            (
                "{\"prefixes\":[{\"ipv4Prefix\":\"0.0.0.0/0\"}]}",
                "has the block 0.0.0.0/0, which would prove too many to be this crawler",
            ),
            (
                "::/0",
                "has the block ::/0, which would prove too many to be this crawler",
            ),
            (
                "192.0.2.0/24\n<html>",
                "has a mistake in line 2: \"<html>\" is not a block of addresses",
            ),
        ] {
            assert_eq!(blocks(text), Err(wrong.to_owned()), "{text}");
        }
    }
}
